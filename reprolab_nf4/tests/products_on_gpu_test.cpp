// The drop-in library's products on a GPU: their bounds, on which stream and device they run,
// graphs, threads.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reprolab_nf4/tests/on_gpu_dropin.hpp"
#include "tests/kernels/nf4_product/testing.hpp"

namespace reprolab {
namespace {

using nf4_product::InputData;
using nf4_product::ProductSpec;
using profiling::DeviceBuffer;
using reference::WeightType;

/// A product with its arrays on the device, and the output that calls write.
class Product {
 public:
  explicit Product(const ProductSpec& spec, std::uint64_t seed = 1)
      : workload_(nf4_product::make_workload(spec, 1, seed)), problem_(workload_.problem("", 0)) {}

  void clear() const { overwrite(problem_.output, elements()); }

  std::uint8_t* codes() const { return const_cast<std::uint8_t*>(problem_.codes); }
  std::size_t code_bytes() const { return static_cast<std::size_t>(problem_.n * problem_.k / 2); }

  /// Writes `to` by dequantization, as arbitrary data.
  void dequantize(void* to, cudaStream_t stream) const {
    EXPECT_EQ(cdequantize_blockwise_fp16_nf4(nullptr, problem_.codes, problem_.absmax, to,
                                             problem_.block_size,
                                             static_cast<int>(problem_.n * problem_.k), stream),
              0)
        << reprolab_nf4_error();
  }

  int multiply(const char* kernel, const DeviceBuffer& workspace, bool weights_ready,
               cudaStream_t stream) const {
    const auto& p = problem_;
    return (is_fp16() ? reprolab_nf4_multiply_fp16 : reprolab_nf4_multiply_bf16)(
        kernel, p.input, p.codes, absmax(), p.nested.codes, p.nested.map, p.nested.offset, p.bias,
        p.output, p.m, p.n, p.k, p.block_size, p.nested.block_size, weights_ready ? 1 : 0,
        workspace.data(), stream);
  }

  /// Waits for `stream`.
  std::vector<std::uint16_t> output(cudaStream_t stream) const {
    return read(problem_.output, elements(), stream);
  }

  bool is_right(const char* reading, cudaStream_t stream) const {
    const Bounds bounds = workload_.bounds(0, reading);
    const auto numbers = [](std::span<const std::byte> bytes) {
      return std::span(reinterpret_cast<const std::uint16_t*>(bytes.data()), bytes.size() / 2);
    };
    return reference::compare_within(numbers(bounds.low), numbers(bounds.high), output(stream))
        .equal();
  }

 private:
  bool is_fp16() const { return problem_.type == nf4::OutputType::fp16; }
  const float* absmax() const {
    return problem_.is_nested() ? problem_.nested.absmax : problem_.absmax;
  }
  std::size_t elements() const { return static_cast<std::size_t>(problem_.m * problem_.n); }

  nf4_product::ProductWorkload workload_;
  nf4_product::Problem problem_;
};

/// Kernels, each with the contract that it computes by.
constexpr std::pair<const char*, const char*> products[] = {
    {"few_rows", "rounded_entries"},
    {"few_rows_exact", "dequantized_weights"},
    {"few_rows_99kib", "rounded_entries"},
    {"few_rows_exact_99kib", "dequantized_weights"},
    {"many_rows", "rounded_entries"},
    {"many_rows_rounded", "rounded_products"},
    {"many_rows_exact", "dequantized_weights"},
    {"simple", "dequantized_weights"}};

ProductSpec spec_of(std::int64_t m, std::int64_t n, std::int64_t k, bool nested = false,
                    WeightType type = WeightType::fp16, bool bias = false) {
  return {.weights = {.rows = n, .columns = k, .nested = nested, .output = type},
          .m = m,
          .bias = bias,
          .data = InputData::sparse};
}

/// The kernel's workspace; none if it does not support the product.
std::optional<DeviceBuffer> workspace_for(const char* kernel, const ProductSpec& spec) {
  std::uint64_t bytes = 0;
  if (reprolab_nf4_workspace(kernel, spec.m, spec.n(), spec.k(), spec.weights.block_size, &bytes) !=
      0) {
    return std::nullopt;
  }
  return DeviceBuffer(std::max<std::uint64_t>(bytes, 1));
}

class OnGpuDropinProducts : public OnGpuDropin {};

TEST_F(OnGpuDropinProducts, EveryKernelIsWithinItsBoundForAnyWorkspaceContents) {
  for (const auto& [kernel, reading] : products) {
    for (const bool nested : {false, true}) {
      for (const auto type : {WeightType::fp16, WeightType::bf16}) {
        for (const std::int64_t m : {1, 7, 33}) {
          const ProductSpec spec = spec_of(m, 272, 4096, nested, type, m == 7);
          const auto workspace = workspace_for(kernel, spec);
          if (!workspace) continue;
          const Product product(spec);
          for (const int content : {0xff, 0x5a, 0}) {
            check(cudaMemset(workspace->data(), content, workspace->bytes()), "filling");
            for (const bool weights_ready : {false, true}) {
              product.clear();
              ASSERT_EQ(product.multiply(kernel, *workspace, weights_ready, stream()), 0)
                  << reprolab_nf4_error();
              EXPECT_TRUE(product.is_right(reading, stream())) << kernel << " on " << spec.name();
            }
          }
        }
      }
    }
  }
}

TEST_F(OnGpuDropinProducts, WithoutWeightsReadyThePreviousCallMayWriteTheWeights) {
  const Product writes(spec_of(1, 512, 2048));  // as many 16-bit values as a product has codes
  for (const auto& [kernel, reading] : products) {
    const ProductSpec spec = spec_of(4, 512, 8192);
    const auto workspace = workspace_for(kernel, spec);
    if (!workspace) continue;
    const Product product(spec);
    const auto multiply = [&] {
      EXPECT_EQ(product.multiply(kernel, *workspace, false, stream()), 0) << reprolab_nf4_error();
      return product.output(stream());
    };
    const auto clear_codes = [&] {
      check(cudaMemset(product.codes(), 0, product.code_bytes()), "clearing");
      check(cudaDeviceSynchronize(), "clearing");
    };
    writes.dequantize(product.codes(), stream());
    check(cudaStreamSynchronize(stream()), "writing codes");
    const auto expected = multiply();
    clear_codes();
    EXPECT_NE(multiply(), expected);
    for (int i = 0; i < 20; ++i) {
      clear_codes();
      writes.dequantize(product.codes(), stream());
      EXPECT_EQ(multiply(), expected) << kernel;
    }
  }
}

TEST_F(OnGpuDropinProducts, AFailedLaunchIsAnErrorAndTheNextCallSucceeds) {
  const Product product(spec_of(1, 512, 8192));
  const DeviceBuffer weights(512 * 8192 * 2);
  for (const auto& [kernel, reading] : products) {
    const auto workspace = workspace_for(kernel, spec_of(1, 512, 8192));
    if (!workspace) continue;
    const Stream captured;
    check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal), "capturing");
    EXPECT_EQ(product.multiply(kernel, *workspace, false, nullptr), cudaErrorStreamCaptureImplicit);
    product.dequantize(weights.data(), stream());
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(captured.get(), &graph);
    cudaGetLastError();
    EXPECT_EQ(product.multiply(kernel, *workspace, false, stream()), 0) << reprolab_nf4_error();
    EXPECT_TRUE(product.is_right(reading, stream())) << kernel;
  }
}

/// The first two run one kernel, with different amounts of shared memory.
TEST_F(OnGpuDropinProducts, ThreadsMultiplyAtOnceOnTheirOwnStreams) {
  struct Call {
    const char* kernel;
    std::int64_t m, n, k;
  };
  std::vector<std::function<void()>> calls;
  for (const auto& [kernel, m, n, k] : {Call{"few_rows", 1, 512, 8192},
                                        {"few_rows", 1, 2048, 512},
                                        {"few_rows", 2, 512, 8192},
                                        {"many_rows", 17, 512, 8192},
                                        {"many_rows", 64, 512, 8192}}) {
    const auto spec = spec_of(m, n, k, m % 2 == 0);
    if (!workspace_for(kernel, spec)) continue;
    calls.emplace_back([kernel, spec] {
      const Product product(spec, static_cast<std::uint64_t>(spec.m));
      const auto workspace = workspace_for(kernel, spec);
      const Stream stream(cudaStreamNonBlocking);
      std::vector<std::uint16_t> first;
      for (int i = 0; i < 50; ++i) {
        product.clear();
        for (int j = 0; j < 4; ++j) {
          EXPECT_EQ(product.multiply(kernel, *workspace, true, stream.get()), 0)
              << reprolab_nf4_error();
        }
        const auto output_bits = product.output(stream.get());
        if (i == 0) first = output_bits;
        EXPECT_EQ(output_bits, first);
      }
    });
  }
  run_at_once(calls);
}

TEST_F(OnGpuDropinProducts, RunOnTheCallersDevice) {
  on_each_device([](cudaStream_t stream) {
    const ProductSpec spec = spec_of(4, 512, 8192, true);
    const auto workspace = workspace_for("simple", spec);
    const Product product(spec);
    EXPECT_EQ(product.multiply("simple", *workspace, false, stream), 0) << reprolab_nf4_error();
    EXPECT_TRUE(product.is_right("dequantized_weights", stream));
  });
}

}  // namespace
}  // namespace reprolab
