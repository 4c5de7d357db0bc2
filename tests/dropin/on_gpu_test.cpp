// The drop-in library on a GPU: its bits, on which stream and device it runs, graphs, threads.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "dropin/reprolab_nf4.h"
#include "profiling/graph.hpp"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

using profiling::check;
using profiling::DeviceBuffer;
using profiling::Stream;
using reference::WeightType;

/// An array in device memory that starts `off` elements behind a multiple of 256 bytes.
template <class T>
class Placed {
 public:
  Placed(const T* values, std::size_t count, int off)
      : memory_((count + off) * sizeof(T)), data_(memory_.template as<T>() + off) {
    check(cudaMemcpy(data_, values, count * sizeof(T), cudaMemcpyHostToDevice), "placing");
  }
  T* data() const { return data_; }

 private:
  DeviceBuffer memory_;
  T* data_;
};

/// A tensor whose arrays all start `off` elements behind a multiple of 256 bytes, and its output
/// between guards.
class OnDevice {
 public:
  explicit OnDevice(const Tensor& tensor, int off = 0)
      : tensor_(tensor.quantized),
        expected_(guard + off, pattern),
        codes_(tensor_.codes.data(), tensor_.codes.size(), off),
        absmax_(scales().data(), scales().size(), off),
        scale_codes_(nested().codes.data(), nested().codes.size(), off),
        map_(nested().map.data(), nested().map.size(), off),
        output_(2 * (expected_.size() + tensor.expected.size() + guard)),
        first_(expected_.size()) {
    expected_.insert(expected_.end(), tensor.expected.begin(), tensor.expected.end());
    expected_.resize(expected_.size() + guard, pattern);
    clear();
  }

  void clear() const {
    check(cudaMemset(output_.data(), pattern & 0xff, output_.bytes()), "clearing");
    check(cudaDeviceSynchronize(), "clearing");
  }

  int call(cudaStream_t stream) const {
    void* out = output_.as<std::uint16_t>() + first_;
    const bool fp16 = tensor_.type == WeightType::fp16;
    if (tensor_.nested) {
      return (fp16 ? reprolab_nf4_dequantize_nested_fp16 : reprolab_nf4_dequantize_nested_bf16)(
          codes_.data(), scale_codes_.data(), map_.data(), absmax_.data(), nested().offset, out,
          tensor_.block_size, nested().block_size, tensor_.n, stream);
    }
    return (fp16 ? cdequantize_blockwise_fp16_nf4 : cdequantize_blockwise_bf16_nf4)(
        nullptr, codes_.data(), absmax_.data(), out, tensor_.block_size,
        static_cast<int>(tensor_.n), stream);
  }

  /// Whether the output has the reference's bits and its guards are whole. Waits for `stream`.
  testing::AssertionResult is_right(cudaStream_t stream) const {
    std::vector<std::uint16_t> found(expected_.size());
    check(cudaMemcpyAsync(found.data(), output_.data(), output_.bytes(), cudaMemcpyDeviceToHost,
                          stream),
          "reading");
    check(cudaStreamSynchronize(stream), "reading");
    const auto [wrong, right] = std::ranges::mismatch(found, expected_);
    if (wrong == found.end()) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << tensor_.name << ", " << tensor_.n << " weights: element "
           << wrong - found.begin() - static_cast<std::ptrdiff_t>(first_) << " is " << *wrong
           << ", not " << *right;
  }

 private:
  static constexpr std::size_t guard = 128;
  static constexpr std::uint16_t pattern = 0xa5a5;

  const reference::NestedScales& nested() const {
    static const reference::NestedScales none;
    return tensor_.nested ? *tensor_.nested : none;
  }
  const std::vector<float>& scales() const {
    return tensor_.nested ? nested().absmax : tensor_.absmax;
  }

  reference::QuantizedTensor tensor_;
  std::vector<std::uint16_t> expected_;
  Placed<std::uint8_t> codes_;
  Placed<float> absmax_;
  Placed<std::uint8_t> scale_codes_;
  Placed<float> map_;
  DeviceBuffer output_;
  std::size_t first_;
};

/// The library's choice is the process's; it ends with the test.
class OnGpuDropin : public OnGpuTest {
 protected:
  void TearDown() override { reprolab_nf4_use(nullptr); }

  void expect_right(const Tensor& tensor, int off = 0) const {
    const OnDevice on_device(tensor, off);
    ASSERT_EQ(on_device.call(stream()), 0) << reprolab_nf4_error();
    EXPECT_TRUE(on_device.is_right(stream())) << "placed " << off << " elements off";
  }

  cudaStream_t stream() const {
    static const Stream stream(cudaStreamNonBlocking);
    return stream.get();
  }
};

TEST_F(OnGpuDropin, WritesTheReferencesBitsAtAnyLengthBlockSizeAndPlace) {
  for (const int block_size : block_sizes) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      for (const bool nested : {false, true}) {
        for (const std::int64_t n : lengths) {
          const Tensor tensor = make_row(n, block_size, nested, type);
          for (const int off : {0, 1, 3}) expect_right(tensor, off);
        }
      }
    }
  }
}

TEST_F(OnGpuDropin, EveryKernelThatCanBeChosenWritesTheSameBits) {
  for (const VariantInfo& kernel : registered_kernels()) {
    if (kernel.promise.deviates()) continue;
    SCOPED_TRACE(kernel.name);
    ASSERT_EQ(reprolab_nf4_use(kernel.name.c_str()), 0) << reprolab_nf4_error();
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      for (const bool nested : {false, true}) {
        for (const std::int64_t n : {1, 65, 4097, 100003}) {
          const Tensor tensor = make_row(n, 64, nested, type);
          for (const int off : {0, 1}) expect_right(tensor, off);
        }
      }
    }
  }
}

TEST_F(OnGpuDropin, RunsOnTheDefaultStreamWhereNoneIsGiven) {
  const OnDevice on_device(make_row(100003));
  ASSERT_EQ(on_device.call(nullptr), 0) << reprolab_nf4_error();
  EXPECT_TRUE(on_device.is_right(nullptr));
}

/// A capture records what comes to its stream, and fails if the host waits or allocates.
TEST_F(OnGpuDropin, ACallIsOneKernelOnTheStreamGiven) {
  for (const bool nested : {false, true}) {
    const OnDevice on_device(make_row(100003, 64, nested));
    ASSERT_EQ(on_device.call(stream()), 0) << reprolab_nf4_error();
    check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal), "capturing");
    EXPECT_EQ(on_device.call(stream()), 0) << reprolab_nf4_error();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
    std::size_t nodes = 0;
    check(cudaGraphGetNodes(graph, nullptr, &nodes), "counting");
    ASSERT_EQ(nodes, 1u);
    cudaGraphNode_t node = nullptr;
    check(cudaGraphGetNodes(graph, &node, &nodes), "reading");
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "reading");
    EXPECT_EQ(type, cudaGraphNodeTypeKernel);
    check(cudaGraphDestroy(graph), "destroying");
  }
}

TEST_F(OnGpuDropin, AGraphRepeatsIt) {
  const OnDevice plain(make_row(100003)), nested(make_row(100003, 64, true));
  for (const OnDevice* tensor : {&plain, &nested}) {
    ASSERT_EQ(tensor->call(stream()), 0) << reprolab_nf4_error();
  }
  const profiling::Graph graph(stream(), [&] {
    EXPECT_EQ(plain.call(stream()), 0) << reprolab_nf4_error();
    EXPECT_EQ(nested.call(stream()), 0) << reprolab_nf4_error();
  });
  for (int i = 0; i < 2; ++i) {
    plain.clear();
    nested.clear();
    EXPECT_FALSE(plain.is_right(stream()));
    graph.launch(stream());
    EXPECT_TRUE(plain.is_right(stream()));
    EXPECT_TRUE(nested.is_right(stream()));
  }
}

/// While a stream is captured, nothing can be launched on the default stream.
TEST_F(OnGpuDropin, AFailedLaunchIsAnErrorAndTheNextCallWorks) {
  const OnDevice on_device(make_row(1000));
  ASSERT_EQ(on_device.call(stream()), 0) << reprolab_nf4_error();
  const Stream captured;
  check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal), "capturing");
  EXPECT_EQ(on_device.call(nullptr), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(std::string(reprolab_nf4_error()).find("cdequantize_blockwise_fp16_nf4: launching "),
            0u)
      << reprolab_nf4_error();
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(captured.get(), &graph);
  cudaGetLastError();
  on_device.clear();
  EXPECT_EQ(on_device.call(nullptr), 0) << reprolab_nf4_error();
  EXPECT_STREQ(reprolab_nf4_error(), "");
  EXPECT_TRUE(on_device.is_right(nullptr));
}

TEST_F(OnGpuDropin, ThreadsCallItAtOnceWhileTheKernelChanges) {
  const auto call_often = [](std::uint64_t seed) {
    const OnDevice on_device(make_row(100003, 64, seed % 2 == 0, WeightType::fp16, seed));
    const Stream stream(cudaStreamNonBlocking);
    for (int i = 0; i < 200; ++i) {
      if (i % 20 == 0) on_device.clear();
      EXPECT_EQ(on_device.call(stream.get()), 0) << reprolab_nf4_error();
      if (i % 20 == 0) {
        EXPECT_TRUE(on_device.is_right(stream.get()));
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(call_often, seed);
  for (int i = 0; i < 1000; ++i) {
    for (const char* kernel : {"shared_lut", "branch_tree", "streaming"}) {
      EXPECT_EQ(reprolab_nf4_use(kernel), 0) << reprolab_nf4_error();
    }
  }
  for (std::thread& thread : threads) thread.join();
}

/// The library has a CUDA runtime of its own; the device is the thread's all the same.
TEST_F(OnGpuDropin, RunsOnTheCallersDevice) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting");
  if (devices < 2) GTEST_SKIP() << "NOT TESTED, one device";
  for (const char* kernel : {"streaming", "two_launches"}) {  // the second has memory of its own
    ASSERT_EQ(reprolab_nf4_use(kernel), 0) << reprolab_nf4_error();
    for (const int device : {1, 0}) {
      SCOPED_TRACE(testing::Message() << kernel << " on device " << device);
      check(cudaSetDevice(device), "changing");
      const Stream stream;
      const OnDevice on_device(make_row(100003, 64, true));
      EXPECT_EQ(on_device.call(stream.get()), 0) << reprolab_nf4_error();
      EXPECT_TRUE(on_device.is_right(stream.get()));
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
