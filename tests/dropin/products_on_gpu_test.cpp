// The products of the drop-in library on a GPU: within their bounds, whoever calls them, and how.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "dropin/reprolab_nf4.h"
#include "harness/nf4_product/product_data.hpp"
#include "profiling/graph.hpp"
#include "reference/nf4_product/bounds.hpp"
#include "tests/kernels/on_gpu.hpp"

namespace reprolab::nf4_product {
namespace {

using profiling::check;
using profiling::DeviceBuffer;
using profiling::Graph;
using profiling::Stream;
using reference::Reading;
using reference::WeightType;

template <class Values>
DeviceBuffer on_device(const Values& values) {
  const std::size_t bytes = values.size() * sizeof(values[0]);
  DeviceBuffer memory(std::max<std::size_t>(bytes, 1));
  check(cudaMemcpy(memory.data(), values.data(), bytes, cudaMemcpyHostToDevice), "placing");
  return memory;
}

/// A product with its arrays on the device, and the output that calls write.
class OnDevice {
 public:
  explicit OnDevice(const ProductSpec& spec, std::uint64_t seed = 1)
      : data_(make_product(spec, seed)),
        input_(on_device(data_.input)),
        bias_(on_device(data_.bias)),
        codes_(on_device(tensor().codes)),
        absmax_(on_device(tensor().nested ? tensor().nested->absmax : tensor().absmax)),
        output_(2 * static_cast<std::uint64_t>(spec.elements())) {
    if (!tensor().nested) return;
    scale_codes_ = on_device(tensor().nested->codes);
    map_ = on_device(tensor().nested->map);
    offset_ = on_device(std::vector{tensor().nested->offset});
  }

  void clear() const {
    check(cudaMemset(output_.data(), 0xff, output_.bytes()), "clearing");
    check(cudaDeviceSynchronize(), "clearing");
  }

  DeviceBuffer workspace(const char* kernel) const {
    std::uint64_t bytes = 0;
    const auto& spec = data_.spec;
    EXPECT_EQ(
        reprolab_nf4_workspace(kernel, spec.m, spec.n(), spec.k(), spec.weights.block_size, &bytes),
        0)
        << reprolab_nf4_error();
    return DeviceBuffer(std::max<std::uint64_t>(bytes, 1));
  }

  /// Lets dequantization write `codes`, to bits that are as good as any.
  void overwrite_codes(const OnDevice& from, cudaStream_t stream) const {
    EXPECT_EQ(cdequantize_blockwise_fp16_nf4(nullptr, from.codes_.as<unsigned char>(),
                                             from.absmax_.as<float>(), codes_.data(), 64,
                                             static_cast<int>(codes_.bytes() / 2), stream),
              0)
        << reprolab_nf4_error();
  }

  void clear_codes() const {
    check(cudaMemset(codes_.data(), 0, codes_.bytes()), "clearing");
    check(cudaDeviceSynchronize(), "clearing");
  }

  int multiply(const char* kernel, const DeviceBuffer& workspace, bool weights_are_settled,
               cudaStream_t stream) const {
    const auto& spec = data_.spec;
    return (is_fp16() ? reprolab_nf4_multiply_fp16 : reprolab_nf4_multiply_bf16)(
        kernel, input_.data(), codes_.as<unsigned char>(), absmax_.as<float>(),
        scale_codes_.as<unsigned char>(), map_.as<float>(),
        tensor().nested ? tensor().nested->offset : 0.0f, bias(), output_.data(), spec.m, spec.n(),
        spec.k(), spec.weights.block_size, tensor().nested ? tensor().nested->block_size : 0,
        weights_are_settled ? 1 : 0, workspace.data(), stream);
  }

  int bitsandbytes_multiply(cudaStream_t stream) const {
    const auto& spec = data_.spec;
    return (is_fp16() ? cgemm_4bit_fp16 : cgemm_4bit_bf16)(
        input_.data(), codes_.as<unsigned char>(), absmax_.as<float>(),
        scale_codes_.as<unsigned char>(), map_.as<float>(), offset_.as<float>(), output_.data(),
        bias(), static_cast<int>(spec.m), static_cast<int>(spec.n()), static_cast<int>(spec.k()),
        spec.weights.block_size, 2, stream);
  }

  /// Waits for `stream`.
  std::vector<std::uint16_t> output(cudaStream_t stream) const {
    std::vector<std::uint16_t> found(output_.bytes() / 2);
    check(cudaMemcpyAsync(found.data(), output_.data(), output_.bytes(), cudaMemcpyDeviceToHost,
                          stream),
          "reading");
    check(cudaStreamSynchronize(stream), "reading");
    return found;
  }

  testing::AssertionResult is_right(Reading reading, cudaStream_t stream) const {
    const auto bounds = reference::product_bounds(data_.view(), reading);
    const auto found = reference::compare_within(bounds.low, bounds.high, output(stream));
    if (found.mismatches == 0) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << data_.spec.name() << ": " << found.mismatches << " outputs are out of bounds";
  }

 private:
  bool is_fp16() const { return data_.spec.weights.output == WeightType::fp16; }
  const void* bias() const { return data_.spec.bias ? bias_.data() : nullptr; }
  const reference::QuantizedTensor& tensor() const { return data_.matrix.quantized; }

  ProductData data_;
  DeviceBuffer input_, bias_, codes_, absmax_, scale_codes_, map_, offset_, output_;
};

struct Named {
  const char* kernel;
  Reading reading;
  std::int64_t max_m;
};
constexpr Named kernels[] = {{"few_rows", Reading::rounded_entries, 8},
                             {"few_rows_exact", Reading::dequantized_weights, 8},
                             {"many_rows", Reading::rounded_entries, 512},
                             {"many_rows_exact", Reading::dequantized_weights, 512},
                             {"simple", Reading::dequantized_weights, 512}};

ProductSpec spec_of(std::int64_t m, std::int64_t n, std::int64_t k, bool nested = false,
                    WeightType type = WeightType::fp16, bool bias = false) {
  return {.weights = {.rows = n, .columns = k, .nested = nested, .output = type},
          .m = m,
          .bias = bias,
          .data = InputData::sparse};
}

bool runs(const char* kernel, const ProductSpec& spec) {
  std::uint64_t bytes = 0;
  return reprolab_nf4_workspace(kernel, spec.m, spec.n(), spec.k(), spec.weights.block_size,
                                &bytes) == 0;
}

class OnGpuProducts : public OnGpuTest {
 protected:
  cudaStream_t stream() const {
    static const Stream stream(cudaStreamNonBlocking);
    return stream.get();
  }
};

TEST_F(OnGpuProducts, EveryKernelIsWithinItsBoundWhateverItsWorkspaceHolds) {
  for (const auto& [kernel, reading, max_m] : kernels) {
    for (const bool nested : {false, true}) {
      for (const auto type : {WeightType::fp16, WeightType::bf16}) {
        for (const std::int64_t m : {1, 7, 33}) {
          const ProductSpec spec = spec_of(m, 272, 4096, nested, type, m == 7);
          if (m > max_m || !runs(kernel, spec)) continue;
          const OnDevice product(spec);
          const DeviceBuffer workspace = product.workspace(kernel);
          for (const int content : {0xff, 0x5a, 0}) {
            check(cudaMemset(workspace.data(), content, workspace.bytes()), "filling");
            for (const bool are_settled : {false, true}) {  // the second finds the first's
              product.clear();
              ASSERT_EQ(product.multiply(kernel, workspace, are_settled, stream()), 0)
                  << reprolab_nf4_error();
              EXPECT_TRUE(product.is_right(reading, stream())) << kernel;
            }
          }
        }
      }
    }
  }
}

TEST_F(OnGpuProducts, WeightsThatAreNotSettledMayBeOfTheCallBefore) {
  const OnDevice codes(spec_of(1, 512, 2048));  // as many 16-bit values as a product has codes
  for (const auto& [kernel, reading, max_m] : kernels) {
    const ProductSpec spec = spec_of(4, 512, 8192);
    if (!runs(kernel, spec)) continue;
    const OnDevice product(spec);
    const DeviceBuffer workspace = product.workspace(kernel);
    const auto multiply = [&] {
      EXPECT_EQ(product.multiply(kernel, workspace, false, stream()), 0) << reprolab_nf4_error();
      return product.output(stream());
    };
    product.overwrite_codes(codes, stream());
    check(cudaStreamSynchronize(stream()), "writing codes");
    const auto expected = multiply();
    product.clear_codes();
    EXPECT_NE(multiply(), expected);
    for (int i = 0; i < 20; ++i) {
      product.clear_codes();
      product.overwrite_codes(codes, stream());
      EXPECT_EQ(multiply(), expected) << kernel;
    }
  }
}

/// Whichever kernel answers: the wider of the two bounds.
TEST_F(OnGpuProducts, BitsandbytesNamesNeedNoWorkspace) {
  for (const bool nested : {false, true}) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      for (const std::int64_t m : {1, 8, 9, 100}) {
        for (const std::int64_t k : {4096, 96}) {  // simple answers the second
          const OnDevice product(spec_of(m, 272, k, nested, type, true));
          product.clear();
          ASSERT_EQ(product.bitsandbytes_multiply(stream()), 0) << reprolab_nf4_error();
          const bool is_right = product.is_right(Reading::rounded_entries, stream()) ||
                                product.is_right(Reading::dequantized_weights, stream());
          EXPECT_TRUE(is_right) << "m " << m << ", k " << k;
        }
      }
    }
  }
}

/// Of a captured call memory is allocated and freed in every replay.
TEST_F(OnGpuProducts, AGraphOfBitsandbytesNamesRepeatsThem) {
  for (const bool nested : {false, true}) {
    for (const std::int64_t m : {1, 64}) {
      const OnDevice product(spec_of(m, 512, 8192, nested));
      ASSERT_EQ(product.bitsandbytes_multiply(stream()), 0) << reprolab_nf4_error();
      const auto expected = product.output(stream());
      const Graph graph(stream(), [&] {
        EXPECT_EQ(product.bitsandbytes_multiply(stream()), 0) << reprolab_nf4_error();
      });
      for (int i = 0; i < 3; ++i) {
        product.clear();
        graph.launch(stream());
        EXPECT_EQ(product.output(stream()), expected);
      }
    }
  }
}

TEST_F(OnGpuProducts, ThreadsMultiplyAtOnceOnStreamsOfTheirOwn) {
  const auto call_often = [](std::int64_t m) {
    const OnDevice product(spec_of(m, 512, 8192, m % 2 == 0), static_cast<std::uint64_t>(m));
    const Stream stream(cudaStreamNonBlocking);
    std::vector<std::uint16_t> first;
    for (int i = 0; i < 50; ++i) {
      product.clear();
      for (int j = 0; j < 4; ++j) {
        EXPECT_EQ(product.bitsandbytes_multiply(stream.get()), 0) << reprolab_nf4_error();
      }
      const auto found = product.output(stream.get());
      if (i == 0) first = found;
      EXPECT_EQ(found, first);
    }
  };
  std::vector<std::thread> threads;
  for (const std::int64_t m : {1, 2, 17, 64}) threads.emplace_back(call_often, m);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(OnGpuProducts, RunOnTheCallersDevice) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting");
  if (devices < 2) GTEST_SKIP() << "NOT TESTED, one device";
  for (const int device : {1, 0}) {
    check(cudaSetDevice(device), "changing");
    const Stream stream;
    const OnDevice product(spec_of(4, 512, 8192, true));
    EXPECT_EQ(product.bitsandbytes_multiply(stream.get()), 0) << reprolab_nf4_error();
    EXPECT_TRUE(product.is_right(Reading::rounded_entries, stream.get()));
  }
}

}  // namespace
}  // namespace reprolab::nf4_product
