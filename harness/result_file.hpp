// The project's result file: the records of one pass and their provenance, as specified by
// data/results.schema.json. Files are written whole or not at all, as by reprolab/output.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/errors.hpp"
#include "harness/facts.hpp"

namespace reprolab {

inline constexpr const char* results_schema = "reprolab-results/2";

/// One measured quantity of a row: its samples in the order taken, or the reason for having none.
struct Metric {
  std::string name, unit;
  std::vector<double> samples{};
  std::string missing{};
};

inline constexpr const char* kernel_time = "kernel_time";    ///< Time of a row's kernels, in us.
inline constexpr const char* product_time = "product_time";  ///< Time of matrix products, in us.

/// SM clock during one row's samples; null if it could not be read.
struct RowClocks {
  std::optional<double> sm_mhz_before, sm_mhz_during, sm_mhz_after;
};

/// One row of a result file.
struct Record {
  std::string key{};  ///< Unique in the file.
  VariantInfo variant{};
  nlohmann::ordered_json code{};  ///< code_of(); null if it is not known.
  nlohmann::json problem{};       ///< At least "name" and "family".
  Outcome outcome = Outcome::not_verified;
  std::string reason{};
  /// Number of elements whose bits differ from the reference's; null if none, or if not compared.
  std::optional<std::int64_t> mismatches{};
  std::map<std::string, std::int64_t> findings{};  ///< Numbers from the verification, by name.
  std::vector<Metric> metrics{};
  /// The launches of one call of the kernel; null if the instrument does not record launches.
  nlohmann::ordered_json launch{};
  std::uint64_t bytes_read = 0, bytes_written = 0;
  RowClocks clocks{};

  /// Null if the row has no metric of that name.
  const Metric* metric(std::string_view name) const;
};

/// The record's "problem".
nlohmann::json described(const ProblemFacts& problem);

/// The outcome in words: "mismatch: 3 of 4 weights differ".
std::string describe_ending(const Record& record);
/// A row in one line: its key, its outcome, the number of its metrics if that is more than are
/// `shown`, and the medians of those: "64x64/shared_lut: bit_exact; kernel_time 1.5 us".
std::string describe_row(const Record& record, const std::vector<std::string>& shown);

void to_json(nlohmann::ordered_json& json, const Record& record);
void from_json(const nlohmann::ordered_json& json, Record& record);

struct ResultFile {
  std::string experiment, pass;
  nlohmann::json provenance{};
  std::vector<Record> records{};
  /// Pairs of measurements of one quantity that must agree, each with the keys of the rows that it
  /// checks.
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  nlohmann::ordered_json families = nlohmann::ordered_json::array();  ///< describe_families()

  /// The file's text; bytes that are not UTF-8, such as in argv, become U+FFFD.
  std::string text() const;

  /// exit_wrong_output if any row failed, else exit_not_measured if any was not measured,
  /// exit_usage when no kernel ran, else exit_verified.
  int exit_status() const;
};

/// Writes `text` to a file beside `path`, then renames it. Creates the folder, follows links, and
/// replaces nothing but regular files. If that fails, throws UsageError that names the path and
/// --output.
void write_whole(const std::filesystem::path& path, std::string_view text);

/// Throws the same error early, before hours of measurements are lost, and leaves no file.
void require_writable(const std::filesystem::path& path);

/// Reads a JSON file of the project's own data and keeps the order of its members. Throws
/// UsageError that names the file and the fault.
nlohmann::ordered_json read_json(const std::filesystem::path& path);

/// The output of a program, named by the first of `words`; nothing if it failed.
std::optional<std::string> output_of(const std::vector<std::string>& words);

/// The root of the checkout that this program was built from, which contains data/.
std::filesystem::path project_root();

/// "commit" and "dirty" of the checkout in `root`, as reprolab/sources.py finds them. Throws
/// UsageError if REPROLAB_COMMIT is wrong. Without python3, the commit is "unknown", with a line on
/// stderr.
nlohmann::json find_sources(const std::filesystem::path& root);

}  // namespace reprolab
