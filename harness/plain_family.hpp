// Shared by plain families (harness/plain_family.cuh) without templates: the numbers of problems
// on the command line, and texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/family.hpp"

namespace reprolab {

/// A number on the command line: a part of the size option's value ("3x4"), or with its own option.
struct PlainOption {
  std::string name;  ///< In records.
  std::int64_t most = std::int64_t{1} << 40;
  std::string option{}, help{};  ///< Empty: a part of the size.
  std::string mark{};            ///< Before an unusual number of an option in a problem's name.
  std::int64_t usual = 0;        ///< Of an option; the struct's default.
};

/// The numbers of the problems that a command line selects.
class PlainSelection {
 public:
  void add_options(CLI::App& app, const FamilyFacts& facts, std::vector<PlainOption> options,
                   bool may_halve);
  bool is_selected() const { return !sizes_.empty(); }
  bool halve() const { return halve_; }
  /// Throws UsageError.
  std::vector<std::vector<std::int64_t>> sizes() const;
  /// The values of the numbers with options of their own, where they are given.
  const std::vector<std::optional<std::int64_t>>& others() const { return others_; }

 private:
  std::string size_option_;
  std::vector<PlainOption> of_size_;
  std::vector<std::string> sizes_;
  std::vector<std::optional<std::int64_t>> others_;
  bool halve_ = false;
};

/// "3x4+1/constant"; `data` is empty for the family's first.
std::string plain_name(const std::vector<PlainOption>& numbers,
                       const std::vector<std::int64_t>& values, const std::string& data);

/// "3 of 16 sums differ; first at 5: expected 0x00000001, actual 0xffffffff".
std::string plain_mismatch(const std::string& element, const reference::Comparison& comparison,
                           std::uint64_t words, const std::string& place, std::uint32_t expected,
                           std::uint32_t actual);

}  // namespace reprolab
