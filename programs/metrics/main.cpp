// metrics: the passes that the counters of data/counters.json need on a chip, the counters that it
// lacks, and CUPTI's other metrics for it. Needs no GPU. `make metrics CHIP=GA100`.
#include <cuda.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "harness/command_line.hpp"
#include "harness/selection.hpp"
#include "profiling/counter_host.hpp"

namespace reprolab {
namespace {

using profiling::BaseMetric;
using profiling::ChipCounters;
using profiling::Counter;
using profiling::CounterPlan;
using profiling::CuptiProfiling;

/// NVIDIA's products by the chip that CUPTI names.
const std::map<std::string, std::vector<std::string>> PRODUCTS{
    {"AD102", {"L40", "L40S", "RTX4090", "RTX6000ADA"}},
    {"AD103", {"RTX4080"}},
    {"AD104", {"L4", "RTX4070"}},
    {"GA100", {"A30", "A100", "A800"}},
    {"GA102", {"A10", "A40", "RTXA6000", "RTX3080", "RTX3090"}},
    {"GA104", {"RTX3070"}},
    {"GA106", {"RTX3060"}},
    {"GB100", {"B100", "B200", "GB200"}},
    {"GB202", {"RTX5090"}},
    {"GB203", {"RTX5080"}},
    {"GH100", {"GH200", "H20", "H100", "H200", "H800"}},
    {"GV100", {"V100"}},
    {"TU102", {"RTX2080TI"}},
    {"TU104", {"T4", "RTX2080"}},
};

/// The chip of a product, such as "RTX 4090" or "rtx4090"; any other name as it is.
std::string chip_of_product(const std::string& name) {
  std::string letters;
  for (const unsigned char c : name) {
    if (std::isalnum(c)) letters += static_cast<char>(std::toupper(c));
  }
  for (const auto& [chip, products] : PRODUCTS) {
    if (chip == letters || std::ranges::find(products, letters) != products.end()) return chip;
  }
  return name;
}

/// CUPTI's name for this machine's first GPU; empty without a driver or a GPU.
std::string chip_of_this_gpu(const CuptiProfiling& cupti) {
  std::string why_not;
  const auto driver = DynamicLibrary::open({"libcuda.so.1"}, &why_not);
  decltype(&cuInit) init = nullptr;
  if (!driver || !driver->bind({{init, "cuInit"}}).empty() || init(0) != CUDA_SUCCESS) return "";
  try {
    return profiling::chip_of(cupti, 0);
  } catch (const profiling::CuptiError&) {
    return "";
  }
}

ChipCounters open_chip(const CuptiProfiling& cupti, std::string chip) {
  chip = chip.empty() ? chip_of_this_gpu(cupti) : chip_of_product(chip);
  const auto known = profiling::known_chips(cupti);
  if (chip.empty()) {
    throw UsageError(fmt::format("there is no GPU here; name a chip with --chip (make: CHIP): {}",
                                 fmt::join(known, ", ")));
  }
  if (std::ranges::find(known, chip) == known.end()) {
    throw UsageError(fmt::format("--chip: CUPTI does not know '{}'{}; it knows: {}", chip,
                                 did_you_mean(chip, known), fmt::join(known, ", ")));
  }
  return {cupti, chip};
}

void print_counter(const CounterPlan::Entry& entry) {
  const Counter& counter = entry.counter;
  if (entry.missing.empty()) {
    fmt::print("{:<34} {:>6} {:<14} {}\n", counter.id, entry.passes, counter.unit, entry.name);
  } else {
    fmt::print("{:<34} {:>6} missing: {}\n", counter.id, "-", entry.missing);
  }
}

void print_table(const ChipCounters& chip, const std::vector<Counter>& table) {
  const CounterPlan plan = chip.plan(table);
  fmt::print("{:<34} {:>6} {:<14} {}\n", "column", "passes", "unit", "metric");
  for (const auto& entry : plan.entries) print_counter(entry);
  fmt::print(
      "\n{}: {} of {} columns of data/counters.json, together in {} passes; CUPTI has {} metrics "
      "for it (METRICS='dram*' lists those that match)\n",
      chip.chip(), plan.names().size(), table.size(), plan.passes, chip.base_metrics().size());
}

constexpr const char* name(CUpti_MetricType type) {
  switch (type) {
    case CUPTI_METRIC_TYPE_COUNTER:
      return "counter";
    case CUPTI_METRIC_TYPE_RATIO:
      return "ratio";
    default:
      return "throughput";
  }
}

/// Prints the columns, the metrics of CUPTI, and the whole name that `pattern` selects.
/// Throws UsageError if there are none.
void print_matches(const ChipCounters& chip, const std::vector<Counter>& table,
                   const std::vector<BaseMetric>& all, const std::string& pattern,
                   std::map<CUpti_MetricType, BaseMetric>& printed) {
  std::vector<Counter> columns;
  std::ranges::copy_if(table, std::back_inserter(columns),
                       [&](const Counter& counter) { return selects(pattern, counter.id); });
  bool has_match = !columns.empty();
  for (const auto& entry : chip.plan(columns).entries) {
    print_counter(entry);
    fmt::print("    {}\n", entry.counter.meaning);
  }
  for (const BaseMetric& metric : all) {
    if (!selects(pattern, metric.name)) continue;
    has_match = true;
    printed.emplace(metric.type, metric);
    fmt::print("{} ({}{}{})\n    {}\n", metric.name, name(metric.type),
               metric.unit.empty() ? "" : ", ", metric.unit, metric.description);
  }
  if (!has_match && pattern.find("__") != pattern.npos) {
    const CounterPlan plan =
        chip.plan({{.id = pattern, .unit = "", .meaning = "", .names = {pattern}}});
    if (!plan.entries[0].missing.empty()) throw UsageError("--metrics: " + plan.entries[0].missing);
    print_counter(plan.entries[0]);
    has_match = true;
  }
  if (!has_match) {
    throw UsageError(
        fmt::format("--metrics '{}' selects none of {}'s metrics", pattern, chip.chip()));
  }
}

int run(int argc, char** argv) {
  CLI::App app("Lists the hardware counters of a chip. Needs no GPU.", "metrics");
  std::string name_of_chip, metrics;
  app.add_option("--chip", name_of_chip,
                 "CUPTI's name for the chip, or a product: GA100, A100; this GPU's");
  app.add_option("--metrics", metrics,
                 "Instead of the table: metrics between commas; * ? and | as in a shell's case; ! "
                 "before it: all others");
  if (const auto status = parse(app, argc, argv)) return *status;
  std::string why_not;
  const auto library = profiling::open_cupti(&why_not);
  if (!library) throw UsageError(why_not);
  const CuptiProfiling cupti(*library);
  const ChipCounters chip = open_chip(cupti, name_of_chip);
  const auto table = profiling::parse_counters(read_json(project_root() / "data/counters.json"));
  const auto patterns = profiling::split_list(metrics);
  if (patterns.empty()) {
    print_table(chip, table);
    return exit_verified;
  }
  std::map<CUpti_MetricType, BaseMetric> printed;
  const auto all = chip.base_metrics();
  for (const auto& pattern : patterns) print_matches(chip, table, all, pattern, printed);
  for (const auto& [type, example] : printed) {
    fmt::print("\nA {} is read with an ending, {}{}: {}\n", name(type), example.name,
               chip.rollups(example).front(), fmt::join(chip.rollups(example), " "));
  }
  return exit_verified;
}

}  // namespace
}  // namespace reprolab

int main(int argc, char** argv) {
  return reprolab::run_program("metrics", [&] { return reprolab::run(argc, argv); });
}
