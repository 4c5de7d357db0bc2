// The project's result file: records, verdicts and provenance of one pass. Schema: RESULTS.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/harness/outcome.hpp"

namespace reprolab {

inline constexpr const char* results_schema = "reprolab-results/1";

enum class Role { kernel, peer, ceiling };
std::string_view name(Role role);

/// What is known of a variant before it runs.
struct VariantInfo {
  std::string name;
  Role role = Role::kernel;
  std::string lineage;
  std::string source_file;
  std::string deviation;  ///< Empty: the contract is bit-exact.
};

/// SM clock around one row's samples; null where it could not be read.
struct RowClocks {
  std::optional<double> sm_mhz_before, sm_mhz_during, sm_mhz_after;
};

/// One row.
struct Record {
  std::string key;  ///< Unique in the file; verdicts point to it.
  VariantInfo variant;
  nlohmann::json problem;  ///< At least "name" and "family".
  Outcome outcome = Outcome::not_verified;
  std::string reason;
  /// Elements whose bits differ from the reference's; null where none does, or none was compared.
  std::optional<std::int64_t> mismatches;
  std::vector<double> samples_us;
  std::vector<double> product_samples_us;  ///< Replay only; left out of the file when empty.
  std::uint64_t bytes_read = 0, bytes_written = 0;
  RowClocks clocks;
};

enum class Verdict { reproduced, not_reproduced, premise_false, not_testable };
std::string_view name(Verdict verdict);

/// How one claim of a source fared here.
struct VerdictRecord {
  std::string claim, source;  ///< Ids of data/published/.
  nlohmann::json cell;        ///< Which cell of a table, or null.
  std::string text, unit;
  std::optional<double> source_value, our_value;
  std::optional<std::pair<double, double>> our_interval;
  std::string tolerance;
  Verdict verdict = Verdict::not_testable;
  std::string reason;
  std::vector<std::string> decided_by;

  std::optional<double> difference_percent() const;
};

/// A consistency check of the instruments themselves.
struct InstrumentCheck {
  std::string name;
  double first = 0, second = 0;  ///< The two readings that must agree.
  std::string unit;
  double allowed_percent = 0;

  double difference_percent() const { return 100.0 * (first - second) / second; }
  bool passed() const;
};

struct ResultFile {
  std::string experiment, pass;
  nlohmann::json provenance{};
  std::vector<Record> records{};
  std::vector<VerdictRecord> verdicts{};
  std::vector<InstrumentCheck> checks{};

  nlohmann::ordered_json to_json() const;

  /// exit_wrong_output if any row failed, exit_usage when no kernel ran, else exit_verified.
  int exit_status() const;
};

/// Writes `text` to `path` whole or not at all: to a temporary name beside it, then renamed.
/// Creates the folder. Throws UsageError naming the path when it cannot.
void write_whole(const std::filesystem::path& path, std::string_view text);

/// Throws the same error before hours of measuring are lost to it; leaves nothing behind.
void require_writable(const std::filesystem::path& path);

/// Reads a JSON file of the project's own data; UsageError names the file and the fault.
nlohmann::json read_json(const std::filesystem::path& path);

/// The checkout that this program was built from: data/ lies below it.
std::filesystem::path project_root();

}  // namespace reprolab
