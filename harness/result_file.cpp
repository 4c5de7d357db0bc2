#include "harness/result_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "kernels/printable.hpp"
#include "profiling/basics.hpp"

namespace reprolab {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// In the order of the enumerators.
constexpr std::array<std::string_view, 4> kind_names = {"project", "peer", "compiler", "ceiling"};

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

template <class T>
void get_unless_null(const ordered_json& json, std::optional<T>& value) {
  if (!json.is_null()) value = json.get<T>();
}

void write(const fs::path& path, std::string_view text, bool in_place) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        fmt::format("{}: cannot be written ({}); choose another --output", path.string(), why));
  };
  try {
    if (fs::exists(path) && !fs::is_regular_file(path)) refuse("not a regular file");
    const fs::path place = fs::weakly_canonical(fs::absolute(path));
    if (!place.has_filename()) refuse("not a file name");
    fs::create_directories(place.parent_path());
    const fs::path beside = place.parent_path() / fmt::format(".reprolab-tmp-{}", getpid());
    std::ofstream file(beside, std::ios::binary);
    file << text;
    file.close();
    const std::string why = file ? "" : std::strerror(errno);
    if (why.empty() && in_place) return fs::rename(beside, place);
    fs::remove(beside);
    if (!why.empty()) refuse(why);
  } catch (const fs::filesystem_error& error) {
    refuse(error.code().message());
  }
}

}  // namespace

void write_whole(const fs::path& path, std::string_view text) { write(path, text, true); }

void require_writable(const fs::path& path) { write(path, "", /*in_place=*/false); }

void to_json(ordered_json& json, const Metric& metric) {
  json = {{"name", metric.name}, {"unit", metric.unit}};
  if (metric.missing.empty()) {
    json["samples"] = metric.samples;
  } else {
    json["missing"] = metric.missing;
  }
}

void from_json(const ordered_json& json, Metric& metric) {
  metric = {json.at("name"), json.at("unit"), json.value("samples", std::vector<double>{}),
            json.value("missing", "")};
}

void to_json(ordered_json& json, const Record& record) {
  const VariantInfo& variant = record.variant;
  json = {
      {"key", record.key},
      {"kernel", variant.name},
      {"origin",
       {{"kind", kind_names.at(static_cast<std::size_t>(variant.origin.kind))},
        {"maker", variant.origin.maker}}},
      {"lineage", variant.lineage},
      {"source_file", variant.source_file},
      {"deviation", variant.contract.deviates() ? ordered_json(variant.contract.text) : nullptr},
      {"bound", variant.contract.kind == Contract::Kind::within_bound
                    ? ordered_json(variant.contract.text)
                    : nullptr},
      {"code", record.code},
      {"problem", record.problem},
      {"outcome", name(record.outcome)},
      {"reason", record.reason},
      {"mismatches", or_null(record.mismatches)},
      {"metrics", record.metrics},
      {"launch", record.launch},
      {"bytes", {{"read", record.bytes_read}, {"written", record.bytes_written}}},
      {"clocks",
       {{"sm_mhz_before", or_null(record.clocks.sm_mhz_before)},
        {"sm_mhz_during", or_null(record.clocks.sm_mhz_during)},
        {"sm_mhz_after", or_null(record.clocks.sm_mhz_after)}}},
  };
  if (!record.findings.empty()) json["findings"] = record.findings;
}

Contract contract_from(const ordered_json& json) {
  const auto text = [&](const char* key) { return lasting(json.at(key).get<std::string>()); };
  if (!json.at("deviation").is_null()) return DeclaredDeviation{text("deviation")};
  if (!json.at("bound").is_null()) return WithinBound{text("bound")};
  return {};
}

void from_json(const ordered_json& json, Record& record) {
  const auto& origin = json.at("origin");
  record.key = json.at("key");
  record.variant = {json.at("kernel"),
                    {value_named<Origin::Kind>(kind_names, origin.at("kind").get<std::string>()),
                     origin.at("maker")},
                    json.at("lineage"),
                    json.at("source_file"),
                    contract_from(json),
                    {}};
  record.code = json.at("code");
  record.problem = json.at("problem");
  record.outcome = value_named<Outcome>(outcome_names, json.at("outcome").get<std::string>());
  record.reason = json.at("reason");
  get_unless_null(json.at("mismatches"), record.mismatches);
  record.findings = json.value("findings", std::map<std::string, std::int64_t>{});
  record.metrics = json.at("metrics").get<std::vector<Metric>>();
  record.launch = json.at("launch");
  record.bytes_read = json.at("bytes").at("read");
  record.bytes_written = json.at("bytes").at("written");
  get_unless_null(json.at("clocks").at("sm_mhz_before"), record.clocks.sm_mhz_before);
  get_unless_null(json.at("clocks").at("sm_mhz_during"), record.clocks.sm_mhz_during);
  get_unless_null(json.at("clocks").at("sm_mhz_after"), record.clocks.sm_mhz_after);
}

const Metric* Record::metric(std::string_view name) const {
  const auto entry = std::ranges::find(metrics, name, &Metric::name);
  return entry == metrics.end() ? nullptr : &*entry;
}

nlohmann::json described(const ProblemFacts& problem) {
  nlohmann::json members;
  for (const auto& [name, value] : problem.description) {
    std::visit([&, &name = name](const auto& held) { members[name] = held; }, value);
  }
  return members;
}

std::string describe_ending(const Record& record) {
  const std::string outcome(name(record.outcome));
  return record.reason.empty() ? outcome : outcome + ": " + record.reason;
}

std::string describe_row(const Record& record, const std::vector<std::string>& shown) {
  std::string text = record.key + ": " + describe_ending(record);
  const auto missing = std::ranges::count_if(
      record.metrics, [](const Metric& metric) { return !metric.missing.empty(); });
  if (record.metrics.size() > shown.size()) {
    text += fmt::format("; {} metrics", std::ssize(record.metrics) - missing);
    if (missing > 0) text += fmt::format(", {} missing", missing);
  }
  for (const std::string& name : shown) {
    const Metric* metric = record.metric(name);
    if (metric == nullptr) continue;
    text += metric->missing.empty() ? fmt::format("; {} {:.10g}{}{}", name,
                                                  std::round(100 * median(metric->samples)) / 100,
                                                  metric->unit.empty() ? "" : " ", metric->unit)
                                    : fmt::format("; {} is missing: {}", name, metric->missing);
  }
  return text;
}

std::string ResultFile::text() const {
  const ordered_json file = {
      {"schema", results_schema}, {"experiment", experiment}, {"pass", pass},
      {"provenance", provenance}, {"families", families},     {"records", records},
      {"checks", checks}};
  return file.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int ResultFile::exit_status() const {
  const auto any = [&](auto is) { return std::ranges::any_of(records, is, &Record::outcome); };
  if (any(is_failure)) return exit_wrong_output;
  if (any([](Outcome outcome) { return outcome == Outcome::not_measured; })) {
    return exit_not_measured;
  }
  return any(may_be_timed) ? exit_verified : exit_usage;
}

ordered_json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("{}: cannot be read", path.string()));
  try {
    return ordered_json::parse(file);
  } catch (const ordered_json::parse_error& error) {
    throw UsageError(fmt::format("{}: not valid JSON at byte {}", path.string(), error.byte));
  }
}

std::optional<std::string> output_of(const std::vector<std::string>& words) {
  std::string command;
  for (std::string word : words) {
    for (std::size_t at = 0; (at = word.find('\'', at)) != word.npos; at += 4) {
      word.replace(at, 1, "'\\''");
    }
    command += "'" + word + "' ";
  }
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  for (char chunk[4096]; std::fgets(chunk, sizeof chunk, pipe) != nullptr;) output += chunk;
  return pclose(pipe) == 0 ? std::optional(output) : std::nullopt;
}

nlohmann::json find_sources(const std::filesystem::path& root) {
  const auto program = root / "reprolab/sources.py";
  const auto sources =
      nlohmann::json::parse(output_of({"python3", "-I", program}).value_or(""), nullptr,
                            /*allow_exceptions=*/false);
  if (!sources.is_object()) {
    complain("the commit is not known", ("python3 cannot run " + program.string()).c_str());
    return {{"commit", "unknown"}, {"dirty", true}};
  }
  if (sources.contains("wrong")) throw UsageError(sources.at("wrong").get<std::string>());
  return sources;
}

std::filesystem::path project_root() { return REPROLAB_SOURCE_DIR; }

}  // namespace reprolab
