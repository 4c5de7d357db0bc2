#include <algorithm>
#include <array>

#include "harness/nf4_product/workload.hpp"

#include <string_view>
#include "kernels/definition.hpp"
#include "reference/compare.hpp"

namespace reprolab::nf4_product {
namespace {

using profiling::DeviceBuffer;

constexpr int threads = 256;

/// Row i has its 1 in column first + i, previously m columns before.
__global__ void move_ones(std::uint16_t* input, std::int64_t m, std::int64_t k, std::int64_t first,
                          std::uint16_t one) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (row >= m) return;
  if (first >= m) input[row * k + first - m + row] = 0;
  if (first + row < k) input[row * k + first + row] = one;
}

struct Found {
  unsigned long long weights = 0;
  std::uint32_t max_ulps = 0;  ///< no_distance for a NaN.
};

/// A thread per output: row i of the output is column first + i of the weights.
__global__ void compare_columns(const std::uint16_t* output, const std::uint16_t* weights,
                                std::int64_t columns, std::int64_t n, std::int64_t k,
                                std::int64_t first, std::uint16_t infinity, Found* differences) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= columns * n) return;
  const std::int64_t column = at % columns, row = at / columns;  // neighbours read one row
  const std::uint32_t ulps = reference::distance_in_ulps<std::uint16_t>(
      output[column * n + row], weights[row * k + first + column], infinity);
  if (ulps == 0) return;
  atomicAdd(&differences->weights, 1ull);
  atomicMax(&differences->max_ulps, ulps);
}

std::uint64_t bytes_of(std::int64_t elements) { return 2 * static_cast<std::uint64_t>(elements); }

void check(cudaError_t error) { profiling::check(error, "inspecting a product"); }

class Inspection {
 public:
  Inspection(const VariantInfo& variant, const Problem& problem, const DeviceComparison& comparison,
             cudaStream_t stream)
      : kernel_(kernel_named<Problem>(variant.name)),
        problem_(problem),
        comparison_(comparison),
        stream_(stream) {
    problem_.output = first_.data();
    launch(problem_);
  }

  /// The number of the first run whose bits differ from those of run 1; 0 if none differs.
  int run_that_differs() {
    const DeviceBuffer again(first_.bytes());
    Problem problem = problem_;
    problem.output = again.data();
    for (int run = 2; run <= runs_that_repeat; ++run) {
      launch(problem);
      if (!same(first_.data(), again.data(), problem.m * problem.n)) return run;
    }
    return 0;
  }

  /// Negative where the kernel does not support M = 1.
  std::int64_t rows_different_alone() {
    const DeviceBuffer input(bytes_of(problem_.k)), output(bytes_of(problem_.n)),
        all(first_.bytes());
    Problem alone = problem_;
    alone.m = 1;
    alone.input = input.data();
    alone.output = output.data();
    if (!kernel_.supports(alone).ok) return -1;
    const DeviceBuffer workspace(workspace_of(kernel_, alone));
    alone.workspace = workspace.data();
    for (std::int64_t row = 0; row < problem_.m; ++row) {
      const auto* from = static_cast<const std::byte*>(problem_.input) + bytes_of(row * problem_.k);
      copy(input.data(), from, input.bytes());
      launch(alone);
      copy(all.as<std::byte>() + row * output.bytes(), output.data(), output.bytes());
    }
    if (same(first_.data(), all.data(), problem_.m * problem_.n)) return 0;
    std::int64_t different = 0;
    for (std::int64_t row = 0; row < problem_.m; ++row) {
      const std::uint64_t at = row * output.bytes();
      different += !same(first_.as<std::byte>() + at, all.as<std::byte>() + at, problem_.n);
    }
    return different;
  }

  /// The number of `weights` [n][k], in device memory, that the kernel does not multiply by; -0
  /// equals 0. One-hot rows select one column per row in each launch. All weights of the matrix are
  /// compared, so the comparison runs on the device.
  Found weights_that_differ(const void* weights) {
    const auto [m, n, k] = std::array{problem_.m, problem_.n, problem_.k};
    const bool is_fp16 = problem_.type == nf4::OutputType::fp16;
    const std::uint16_t one = is_fp16 ? 0x3c00 : 0x3f80, infinity = is_fp16 ? 0x7c00 : 0x7f80;
    const DeviceBuffer input(bytes_of(m * k)), output(first_.bytes()), differences(sizeof(Found));
    Problem problem = problem_;
    problem.input = input.data();
    problem.output = output.data();
    problem.bias = nullptr;
    check(cudaMemsetAsync(differences.data(), 0, sizeof(Found), stream_));
    check(cudaMemsetAsync(input.data(), 0, input.bytes(), stream_));
    for (std::int64_t first = 0; first < k; first += m) {
      move_ones<<<grid_of(blocks_over(m, threads)), threads, 0, stream_>>>(
          input.as<std::uint16_t>(), m, k, first, one);
      launch(problem);
      const std::int64_t columns = std::min(m, k - first);
      compare_columns<<<grid_of(blocks_over(columns * n, threads)), threads, 0, stream_>>>(
          output.as<std::uint16_t>(), static_cast<const std::uint16_t*>(weights), columns, n, k,
          first, infinity, differences.as<Found>());
      check(cudaGetLastError());
    }
    Found result;
    check(cudaMemcpyAsync(&result, differences.data(), sizeof(Found), cudaMemcpyDeviceToHost,
                          stream_));
    check(cudaStreamSynchronize(stream_));
    return result;
  }

 private:
  /// Poisons the output first.
  void launch(const Problem& problem) const {
    check(cudaMemsetAsync(problem.output, poison_byte, bytes_of(problem.m * problem.n), stream_));
    require_launched(kernel_.launch(problem, stream_));
  }

  void copy(void* to, const void* from, std::uint64_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  }

  bool same(const void* expected, const void* actual, std::int64_t elements) const {
    return comparison_.compare(expected, actual, elements, 2).equal();
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
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  Inspection inspection(kernel, problem, comparison, stream);
  Findings findings;
  if (const int run = inspection.run_that_differs(); run != 0) {
    findings.broken = "run " + text(run) + " of " + text(runs_that_repeat) +
                      " on the same data wrote other bits than the first: a sum has to repeat";
    return findings;
  }
  const std::int64_t rows = problem.m > 1 ? inspection.rows_different_alone() : -1;
  if (rows >= 0) findings.numbers["rows_different_alone"] = rows;
  if (rows > 0 && kernel.contract.independent_of_batch) {
    findings.broken = text(rows) + " of " + text(problem.m) +
                      " rows differ from the same row alone, but it is declared independent of the "
                      "batch";
  }
  if (weights == nullptr) return findings;
  const auto [different, max_ulps] = inspection.weights_that_differ(weights);
  findings.numbers["weights_different"] = static_cast<std::int64_t>(different);
  findings.numbers["weights_max_ulps"] = max_ulps;
  if (different > 0 && std::string_view(kernel.contract.reading) == dequantized_weights) {
    findings.broken =
        std::to_string(different) + " of " + text(problem.n * problem.k) +
        " weights are not those that dequantization writes, by which it is declared to "
        "multiply";
  }
  return findings;
}

}  // namespace reprolab::nf4_product
