// The drop-in library on a GPU: the bits of its dequantization and the bounds of its products, on
// which stream and device they run, graphs, threads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprolab_nf4/csrc/reprolab_nf4.h"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/kernels/nf4_product/testing.hpp"

namespace reprolab {
namespace {

using nf4::make_row;
using nf4_product::InputData;
using nf4_product::ProductSpec;
using profiling::check;
using profiling::DeviceBuffer;
using profiling::Stream;
using reference::WeightType;

std::vector<std::uint16_t> read(const void* output, std::size_t count, cudaStream_t stream) {
  std::vector<std::uint16_t> values(count);
  check(cudaMemcpyAsync(values.data(), output, 2 * count, cudaMemcpyDeviceToHost, stream),
        "reading");
  check(cudaStreamSynchronize(stream), "reading");
  return values;
}

void overwrite(void* output, std::size_t count) {
  check(cudaMemset(output, 0xff, 2 * count), "overwriting");
  check(cudaDeviceSynchronize(), "overwriting");
}

/// Resets the library's choice of a kernel, which is the process's, after each test.
class OnGpuKernelDropin : public OnGpuTest {
 protected:
  void TearDown() override { reprolab_nf4_use(nullptr); }

  cudaStream_t stream() const {
    static const Stream stream(cudaStreamNonBlocking);
    return stream.get();
  }
};

/// A tensor whose arrays all start `off` elements after an aligned address, and its output.
class Dequantization {
 public:
  explicit Dequantization(const nf4::Tensor& tensor, int off = 0)
      : expected_(tensor.expected),
        input_(tensor.quantized, off),
        output_(2 * (expected_.size() + static_cast<std::size_t>(off))),
        problem_(input_.problem(output_.as<std::uint16_t>() + off)) {
    check(cudaDeviceSynchronize(), "copying");  // streams of calls do not wait for the default one
  }

  void clear() const { overwrite(problem_.output, expected_.size()); }

  int call(cudaStream_t stream) const {
    const nf4::Problem& p = problem_;
    const bool fp16 = p.output_type == nf4::OutputType::fp16;
    return (fp16 ? cdequantize_blockwise_fp16_nf4 : cdequantize_blockwise_bf16_nf4)(
        nullptr, p.codes, p.absmax, p.output, p.block_size, static_cast<int>(p.n), stream);
  }

  /// Whether the output has the reference's bits. Waits for `stream`.
  bool is_right(cudaStream_t stream) const {
    return read(problem_.output, expected_.size(), stream) == expected_;
  }

 private:
  std::vector<std::uint16_t> expected_;
  nf4::DeviceTensor input_;
  DeviceBuffer output_;
  nf4::Problem problem_;
};

TEST_F(OnGpuKernelDropin, EveryKernelWritesTheReferencesBitsAtAnyAlignment) {
  const std::vector<std::string> kernels = nf4::exact_kernels();
  for (const int block_size : {32, 64, 4096}) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      for (const std::int64_t n : {1, 65, 4097, 100003}) {
        const nf4::Tensor tensor = make_row(n, block_size, false, type);
        for (const int off : {0, 1, 3}) {
          const Dequantization on_device(tensor, off);
          for (const std::string& kernel : kernels) {
            SCOPED_TRACE(kernel);
            ASSERT_EQ(reprolab_nf4_use(kernel.c_str()), 0) << reprolab_nf4_error();
            on_device.clear();
            ASSERT_EQ(on_device.call(stream()), 0) << reprolab_nf4_error();
            EXPECT_TRUE(on_device.is_right(stream()))
                << n << " weights, " << off << " elements after alignment";
          }
        }
      }
    }
  }
}

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
    return reprolab_nf4_multiply(kernel, is_fp16() ? 0 : 1, p.input, p.codes, absmax(),
                                 p.nested.codes, p.nested.map, p.nested.offset, p.bias, p.output,
                                 p.m, p.n, p.k, p.block_size, p.nested.block_size,
                                 weights_ready ? 1 : 0, workspace.data(), stream);
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

TEST_F(OnGpuKernelDropin, EveryKernelIsWithinItsBoundForAnyWorkspaceContents) {
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

TEST_F(OnGpuKernelDropin, WithoutWeightsReadyThePreviousCallMayWriteTheWeights) {
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

/// The library has its own CUDA runtime, and yet uses the calling thread's device.
TEST_F(OnGpuKernelDropin, RunsOnTheCallersDevice) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting");
  if (devices < 2) GTEST_SKIP() << "NOT TESTED, one device";
  for (const int device : {1, 0}) {
    check(cudaSetDevice(device), "changing");
    const Stream stream;
    const Dequantization on_device(make_row(100003));
    EXPECT_EQ(on_device.call(stream.get()), 0) << reprolab_nf4_error();
    EXPECT_TRUE(on_device.is_right(stream.get()));
    const ProductSpec spec = spec_of(4, 512, 8192, true);
    const Product product(spec);
    EXPECT_EQ(product.multiply("simple", *workspace_for("simple", spec), false, stream.get()), 0)
        << reprolab_nf4_error();
    EXPECT_TRUE(product.is_right("dequantized_weights", stream.get()));
  }
}

}  // namespace
}  // namespace reprolab
