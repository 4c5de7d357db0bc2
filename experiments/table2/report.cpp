#include "experiments/table2/report.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "experiments/harness/statistics.hpp"
#include "experiments/table2/protocol.hpp"
#include "experiments/table2/replay.hpp"

namespace reprolab::table2 {
namespace {

double gb(std::uint64_t bytes) { return 1e-9 * static_cast<double>(bytes); }

/// A third of the theoretical bandwidth for a dequantization of the slower sort and all of it for
/// the product: what an H200 showed, and near enough to plan by.
double about_seconds(const nf4::Model& model, int kernels, int passes, double bandwidth_gb_s) {
  const double weights = static_cast<double>(model.weights());
  const double dequantize_s = 2.5625e-9 * weights / (0.33 * bandwidth_gb_s);
  const double product_s = 2e-9 * weights / (0.8 * bandwidth_gb_s);
  const double verify_s = 4 * dequantize_s;
  const double timed = passes * static_cast<double>(batches.size());
  return kernels * (timed * (dequantize_s + product_s) + verify_s);
}

}  // namespace

void print_plan(const std::vector<nf4::Model>& models, int kernels, int passes,
                const std::optional<profiling::Gpu>& gpu, const std::string& why_no_gpu) {
  fmt::print("{:<16} {:>8} {:>10} {:>16} {:>16} {:>8}\n", "model", "layers", "launches",
             "weights resident", "and to work in", "about");
  double seconds = 0;
  for (const auto& model : models) {
    const std::uint64_t weights_bytes =
        layer_bytes(model) * static_cast<std::uint64_t>(model.layers);
    const std::uint64_t working = working_bytes(model, batches.back());
    const double bandwidth = gpu ? gpu->theoretical_bandwidth_gb_s.value_or(1000) : 1000;
    const double about = about_seconds(model, kernels, passes, bandwidth);
    seconds += about;
    fmt::print("{:<16} {:>8} {:>10} {:>13.1f} GB {:>13.1f} GB {:>6.0f} s\n", model.id, model.layers,
               model.launches(), gb(weights_bytes), gb(working), about);
    if (gpu && weights_bytes + working > gpu->memory_bytes) {
      fmt::print("  does not fit this GPU's {:.1f} GB whole: as many layers as fit, in turn\n",
                 gb(gpu->memory_bytes));
    }
  }
  fmt::print("{} kernels, batches {} to {}, {} passes each: about {:.0f} s and the data's making\n",
             kernels, batches.front(), batches.back(), passes, seconds);
  if (gpu) {
    fmt::print("on {} (compute capability {})\n", gpu->name, gpu->compute_capability);
  } else {
    fmt::print("nothing of it can run here: {} (times above are for 1000 GB/s)\n", why_no_gpu);
  }
}

void print_rows(const std::vector<Record>& rows) {
  const auto slow = std::ranges::find(
      rows, baseline, [](const Record& row) { return std::string_view(row.variant.name); });
  for (const Record& row : rows) {
    if (row.samples_us.empty()) {
      fmt::print("  {:<24} {}: {}\n", row.variant.name, name(row.outcome), row.reason);
      continue;
    }
    const double us = summarize(row.samples_us).median;
    const double product_us = summarize(row.product_samples_us).median;
    std::string speedup;
    if (slow != rows.end() && !slow->samples_us.empty() && row.outcome == Outcome::bit_exact) {
      speedup = fmt::format("{:.2f}x", summarize(slow->samples_us).median / us);
    }
    fmt::print("  {:<24} {:>9.2f} ms dequantize {:>9.2f} ms product  {:>6}  {}\n", row.variant.name,
               1e-3 * us, 1e-3 * product_us, speedup, name(row.outcome));
  }
}

void print_check(const InstrumentCheck& check) {
  fmt::print("  {}: {:.1f} and {:.1f} {}, {:+.2f} % apart ({:g} % allowed): {}\n", check.name,
             check.first, check.second, check.unit, check.difference_percent(),
             check.allowed_percent, check.passed() ? "agree" : "DISAGREE");
}

}  // namespace reprolab::table2
