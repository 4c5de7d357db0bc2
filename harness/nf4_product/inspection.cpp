#include "harness/nf4_product/inspection.hpp"

#include <fmt/core.h>

#include "harness/nf4_product/one_hot.hpp"
#include "harness/verifier.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::nf4_product {
namespace {

using profiling::DeviceBuffer;

std::uint64_t bytes_of(std::int64_t elements) { return 2 * static_cast<std::uint64_t>(elements); }

void copy(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream) {
  profiling::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
                   "inspecting a product");
}

void poison(const DeviceBuffer& output, cudaStream_t stream) {
  profiling::check(cudaMemsetAsync(output.data(), poison_byte, output.bytes(), stream),
                   "inspecting a product");
}

class Inspection {
 public:
  Inspection(const VariantInfo& variant, const Problem& problem, const DeviceComparison& comparison,
             cudaStream_t stream)
      : kernel_(kernel_named<Problem>(variant.name)),
        problem_(problem),
        comparison_(comparison),
        stream_(stream) {
    problem_.output = first_.data();
    poison(first_, stream_);
    launch(problem_);
  }

  /// The number of the first run that wrote other bits than run 1; 0 if all repeat.
  int run_that_differs() {
    const DeviceBuffer again(first_.bytes());
    Problem problem = problem_;
    problem.output = again.data();
    for (int run = 2; run <= runs_that_repeat; ++run) {
      poison(again, stream_);
      launch(problem);
      if (!same(first_.data(), again.data(), problem.m * problem.n)) return run;
    }
    return 0;
  }

  /// Negative where the kernel takes no single row.
  std::int64_t rows_different_alone() {
    const DeviceBuffer input(bytes_of(problem_.k)), output(bytes_of(problem_.n)),
        all(first_.bytes());
    Problem alone = problem_;
    alone.m = 1;
    alone.input = input.data();
    alone.output = output.data();
    if (!kernel_.supports(alone).ok) return -1;
    const DeviceBuffer workspace = workspace_for(alone);
    alone.workspace = workspace.data();
    for (std::int64_t row = 0; row < problem_.m; ++row) {
      const auto* from = static_cast<const std::byte*>(problem_.input) + bytes_of(row * problem_.k);
      copy(input.data(), from, input.bytes(), stream_);
      poison(output, stream_);
      launch(alone);
      copy(all.as<std::byte>() + row * output.bytes(), output.data(), output.bytes(), stream_);
    }
    if (same(first_.data(), all.data(), problem_.m * problem_.n)) return 0;
    std::int64_t different = 0;
    for (std::int64_t row = 0; row < problem_.m; ++row) {
      const std::uint64_t at = row * output.bytes();
      different += !same(first_.as<std::byte>() + at, all.as<std::byte>() + at, problem_.n);
    }
    return different;
  }

  WeightDifferences weights_that_differ(const void* weights) {
    const DeviceBuffer input(bytes_of(problem_.m * problem_.k)), output(first_.bytes());
    Problem problem = problem_;
    problem.input = input.data();
    problem.output = output.data();
    problem.bias = nullptr;
    return compare_weights(
        {.m = problem.m,
         .n = problem.n,
         .k = problem.k,
         .type = problem.type,
         .weights = weights,
         .input = input.data(),
         .output = output.data()},
        [&] { launch(problem); }, stream_);
  }

 private:
  void launch(const Problem& problem) const { require_launched(kernel_.launch(problem, stream_)); }

  bool same(const void* expected, const void* actual, std::int64_t elements) const {
    return comparison_.compare(expected, actual, elements, 2).equal();
  }

  DeviceBuffer workspace_for(const Problem& problem) const {
    return DeviceBuffer(kernel_.workspace_bytes ? kernel_.workspace_bytes(problem) : 0);
  }

  const Kernel<Problem>& kernel_;
  Problem problem_;
  const DeviceComparison& comparison_;
  cudaStream_t stream_;
  DeviceBuffer first_{bytes_of(problem_.m * problem_.n)};
};

}  // namespace

Findings inspect_product(const VariantInfo& kernel, const Problem& problem, const void* weights,
                         const DeviceComparison& comparison, cudaStream_t stream) {
  Inspection inspection(kernel, problem, comparison, stream);
  Findings found;
  if (const int run = inspection.run_that_differs(); run != 0) {
    found.broken = fmt::format(
        "run {} of {} on the same data wrote other bits than the first: a sum has to repeat", run,
        runs_that_repeat);
    return found;
  }
  const std::int64_t rows = problem.m > 1 ? inspection.rows_different_alone() : -1;
  if (rows >= 0) found.numbers["rows_different_alone"] = rows;
  if (rows > 0 && kernel.promise.independent_of_batch) {
    found.broken = fmt::format(
        "{} of {} rows differ from the same row alone, but it is declared independent of the batch",
        rows, problem.m);
  }
  if (weights == nullptr) return found;
  const auto [different, max_ulps] = inspection.weights_that_differ(weights);
  found.numbers["weights_different"] = different;
  found.numbers["weights_max_ulps"] = max_ulps;
  if (different > 0 && kernel.promise.reading == dequantized_weights) {
    found.broken = fmt::format(
        "{} of {} weights are not those that dequantization writes, by which it is declared to "
        "multiply",
        different, problem.n * problem.k);
  }
  return found;
}

}  // namespace reprolab::nf4_product
