#include "experiments/harness/result_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>

#include "experiments/harness/errors.hpp"

namespace reprolab {
namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json to_json(const Record& record) {
  const VariantInfo& variant = record.variant;
  ordered_json json = {
      {"key", record.key},
      {"kernel", variant.name},
      {"role", name(variant.role)},
      {"lineage", variant.lineage},
      {"source_file", variant.source_file},
      {"contract",
       {{"kind", variant.deviation.empty() ? "bit_exact" : "declared_deviation"},
        {"deviation", variant.deviation}}},
      {"problem", record.problem},
      {"outcome", name(record.outcome)},
      {"reason", record.reason},
      {"mismatches", or_null(record.mismatches)},
      {"samples_us", record.samples_us},
      {"bytes", {{"read", record.bytes_read}, {"written", record.bytes_written}}},
      {"clocks",
       {{"sm_mhz_before", or_null(record.clocks.sm_mhz_before)},
        {"sm_mhz_during", or_null(record.clocks.sm_mhz_during)},
        {"sm_mhz_after", or_null(record.clocks.sm_mhz_after)}}},
      {"counters", ordered_json::object()},
  };
  if (!record.product_samples_us.empty()) json["product_samples_us"] = record.product_samples_us;
  return json;
}

ordered_json to_json(const VerdictRecord& verdict) {
  ordered_json interval = nullptr;
  if (verdict.our_interval) {
    interval = {verdict.our_interval->first, verdict.our_interval->second};
  }
  return {
      {"claim", verdict.claim},
      {"source", verdict.source},
      {"cell", verdict.cell},
      {"text", verdict.text},
      {"unit", verdict.unit},
      {"source_value", or_null(verdict.source_value)},
      {"our_value", or_null(verdict.our_value)},
      {"our_interval", interval},
      {"difference_percent", or_null(verdict.difference_percent())},
      {"tolerance", verdict.tolerance},
      {"verdict", name(verdict.verdict)},
      {"reason", verdict.reason},
      {"decided_by", verdict.decided_by},
  };
}

ordered_json to_json(const InstrumentCheck& check) {
  return {
      {"name", check.name},
      {"first", check.first},
      {"second", check.second},
      {"unit", check.unit},
      {"difference_percent", check.difference_percent()},
      {"allowed_percent", check.allowed_percent},
      {"passed", check.passed()},
  };
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw UsageError(
      fmt::format("{}: cannot be written ({}); choose another --output", path.string(), why));
}

}  // namespace

std::string_view name(Role role) {
  switch (role) {
    case Role::kernel:
      return "kernel";
    case Role::peer:
      return "peer";
    case Role::ceiling:
      return "ceiling";
  }
  return "?";
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::reproduced:
      return "reproduced";
    case Verdict::not_reproduced:
      return "not_reproduced";
    case Verdict::premise_false:
      return "premise_false";
    case Verdict::not_testable:
      return "not_testable";
  }
  return "?";
}

std::optional<double> VerdictRecord::difference_percent() const {
  if (!source_value || !our_value || *source_value == 0) return std::nullopt;
  return 100.0 * (*our_value / *source_value - 1.0);
}

bool InstrumentCheck::passed() const { return std::abs(difference_percent()) <= allowed_percent; }

ordered_json ResultFile::to_json() const {
  ordered_json json = {{"schema", results_schema},
                       {"experiment", experiment},
                       {"pass", pass},
                       {"provenance", provenance}};
  json["records"] = ordered_json::array();
  for (const Record& record : records) json["records"].push_back(reprolab::to_json(record));
  json["verdicts"] = ordered_json::array();
  for (const auto& verdict : verdicts) json["verdicts"].push_back(reprolab::to_json(verdict));
  json["checks"] = ordered_json::array();
  for (const auto& check : checks) json["checks"].push_back(reprolab::to_json(check));
  return json;
}

int ResultFile::exit_status() const {
  const auto failed = [](const Record& record) { return is_failure(record.outcome); };
  const auto ran = [](const Record& record) { return may_be_timed(record.outcome); };
  if (std::ranges::any_of(records, failed)) return exit_wrong_output;
  return std::ranges::any_of(records, ran) ? exit_verified : exit_usage;
}

void require_writable(const std::filesystem::path& path) {
  auto folder = path.parent_path();
  while (!folder.empty() && !std::filesystem::exists(folder)) folder = folder.parent_path();
  if (folder.empty()) folder = ".";
  const auto refuse_because = [&](std::errc error) {
    refuse(path, std::make_error_code(error).message());
  };
  if (std::filesystem::is_directory(path)) refuse_because(std::errc::is_a_directory);
  if (!std::filesystem::is_directory(folder)) refuse_because(std::errc::not_a_directory);
  const auto probe = folder / fmt::format(".reprolab.{}.probe", getpid());
  std::ofstream file(probe);
  if (!file) refuse(path, "the folder does not take it");
  file.close();
  std::filesystem::remove(probe);
}

void write_whole(const std::filesystem::path& path, std::string_view text) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) refuse(path, error.message());
  auto temporary = path;
  temporary += fmt::format(".{}.partial", getpid());
  {
    std::ofstream file(temporary, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) {
      std::filesystem::remove(temporary, error);
      refuse(path, "the folder does not take it");
    }
  }
  std::filesystem::rename(temporary, path, error);
  if (error) {
    const std::string why = error.message();
    std::filesystem::remove(temporary, error);
    refuse(path, why);
  }
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("{}: cannot be read", path.string()));
  try {
    return nlohmann::json::parse(file);
  } catch (const nlohmann::json::parse_error& error) {
    throw UsageError(fmt::format("{}: not valid JSON at byte {}", path.string(), error.byte));
  }
}

std::filesystem::path project_root() { return REPROLAB_SOURCE_DIR; }

}  // namespace reprolab
