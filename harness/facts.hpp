// Facts of a row before anything runs: its problem and its kernel. They do without the JSON of
// result files, which took nvcc a third of the time for a family.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "kernels/contract.hpp"
#include "kernels/origin.hpp"

namespace reprolab {

using Description =
    std::map<std::string, std::variant<bool, std::int64_t, std::string, std::vector<std::string>>>;

/// Description of a problem, before anything is allocated for it.
struct ProblemFacts {
  std::string name;              ///< Unique within its family; shown in tables.
  Description description{};     ///< The record's "problem".
  std::int64_t elements = 0;     ///< Number of output elements.
  int element_bytes = 0;         ///< 2 or 4.
  std::uint64_t bytes_read = 0;  ///< Read by one launch, every byte counted once.
  std::uint64_t bytes_written = 0;
  /// Whether outputs are verified by an interval, because kernels may differ in the order of
  /// roundings. Otherwise they are verified bit for bit.
  bool bounded = false;

  std::uint64_t output_bytes() const {
    return static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(element_bytes);
  }
};

/// Facts about a row's kernel that are known before it runs.
struct VariantInfo {
  std::string name;
  Origin origin;
  std::string lineage;
  std::string source_file;
  Contract contract{};
  // As in Kernel. The record has Record::code instead; the other members are in the file's
  // families.
  std::function<std::vector<std::string>(int capability)> code_files{};
  std::string language{}, counterpart{};

  bool is_ceiling() const { return origin.kind == Origin::Kind::ceiling; }
};

}  // namespace reprolab
