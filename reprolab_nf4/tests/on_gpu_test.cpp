// The drop-in library's dequantization on a GPU: its bits, on which stream and device it runs,
// graphs, threads.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reprolab_nf4/tests/on_gpu_dropin.hpp"

namespace reprolab {
namespace {

using nf4::make_row;
using reference::WeightType;

/// A tensor whose arrays all start `off` elements after an aligned address, and its output.
class Dequantization {
 public:
  explicit Dequantization(const nf4::Tensor& tensor, int off = 0)
      : expected_(tensor.expected),
        input_(tensor.quantized, off),
        output_(2 * expected_.size(), 2 * static_cast<std::uint64_t>(off)),
        problem_(input_.problem(output_.data())) {
    check(cudaDeviceSynchronize(), "copying");  // streams of calls do not wait for the default one
  }

  void clear() const { overwrite(problem_.output, expected_.size()); }

  int call(cudaStream_t stream) const {
    const nf4::Problem& p = problem_;
    const bool fp16 = p.output_type == nf4::OutputType::fp16;
    return (fp16 ? cdequantize_blockwise_fp16_nf4 : cdequantize_blockwise_bf16_nf4)(
        nullptr, p.codes, p.absmax, p.output, p.block_size, static_cast<int>(p.n), stream);
  }

  /// Whether the output has the reference's bits and nothing outside it was written. Waits for
  /// `stream`.
  bool is_right(cudaStream_t stream) const {
    return read(problem_.output, expected_.size(), stream) == expected_ &&
           output_.touched().empty();
  }

 private:
  std::vector<std::uint16_t> expected_;
  nf4::DeviceTensor input_;
  GuardedOutput output_;
  nf4::Problem problem_;
};

void expect_right(const nf4::Tensor& tensor, int off, cudaStream_t stream) {
  const Dequantization on_device(tensor, off);
  ASSERT_EQ(on_device.call(stream), 0) << reprolab_nf4_error();
  EXPECT_TRUE(on_device.is_right(stream)) << tensor.quantized.name << ", " << tensor.quantized.n
                                          << " weights, " << off << " elements after alignment";
}

TEST_F(OnGpuDropin, EveryKernelWritesTheReferencesBitsAtAnyAlignment) {
  const std::vector<std::string> kernels = nf4::exact_kernels();
  for (const int block_size : {32, 64, 4096}) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      for (const std::int64_t n : {1, 65, 4097, 100003}) {
        const nf4::Tensor tensor = make_row(n, block_size, false, type);
        for (const std::string& kernel : kernels) {
          SCOPED_TRACE(kernel);
          ASSERT_EQ(reprolab_nf4_use(kernel.c_str()), 0) << reprolab_nf4_error();
          for (const int off : {0, 1, 3}) expect_right(tensor, off, stream());
        }
      }
    }
  }
}

/// A capture records the work on its stream, and fails if the host synchronizes or allocates.
TEST_F(OnGpuDropin, ACallIsOneKernelOnTheGivenStreamAndAGraphRepeatsIt) {
  for (const std::int64_t n : {1, 100003}) {
    const Dequantization on_device(make_row(n));
    ASSERT_EQ(on_device.call(nullptr), 0) << reprolab_nf4_error();
    EXPECT_TRUE(on_device.is_right(nullptr)) << "on the default stream";
    check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal), "capturing");
    EXPECT_EQ(on_device.call(stream()), 0) << reprolab_nf4_error();
    cudaGraph_t captured = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream(), &captured), cudaSuccess);
    std::size_t nodes = 0;
    check(cudaGraphGetNodes(captured, nullptr, &nodes), "counting");
    ASSERT_EQ(nodes, 1u);
    cudaGraphNode_t node = nullptr;
    check(cudaGraphGetNodes(captured, &node, &nodes), "reading");
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "reading");
    EXPECT_EQ(type, cudaGraphNodeTypeKernel);
    check(cudaGraphDestroy(captured), "destroying");

    const profiling::Graph graph(
        stream(), [&] { EXPECT_EQ(on_device.call(stream()), 0) << reprolab_nf4_error(); });
    for (int i = 0; i < 2; ++i) {
      on_device.clear();
      EXPECT_FALSE(on_device.is_right(stream()));
      graph.launch(stream());
      EXPECT_TRUE(on_device.is_right(stream()));
    }
  }
}

/// While a stream is captured, nothing can be launched on the default stream.
TEST_F(OnGpuDropin, AFailedLaunchIsAnErrorAndTheNextCallSucceeds) {
  const Dequantization on_device(make_row(1000));
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

TEST_F(OnGpuDropin, ThreadsMayCallWhileTheKernelChanges) {
  std::vector<std::function<void()>> calls;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    calls.emplace_back([seed] {
      const Dequantization on_device(make_row(100003, 64, false, WeightType::fp16, seed));
      const Stream stream(cudaStreamNonBlocking);
      for (int i = 0; i < 200; ++i) {
        if (i % 20 == 0) on_device.clear();
        EXPECT_EQ(on_device.call(stream.get()), 0) << reprolab_nf4_error();
        if (i % 20 == 0) {
          EXPECT_TRUE(on_device.is_right(stream.get()));
        }
      }
    });
  }
  calls.emplace_back([] {
    for (int i = 0; i < 1000; ++i) {
      for (const char* kernel : {"shared_lut", "branch_tree", "streaming"}) {
        EXPECT_EQ(reprolab_nf4_use(kernel), 0) << reprolab_nf4_error();
      }
    }
  });
  run_at_once(calls);
}

/// The library has its own CUDA runtime, and yet uses the calling thread's device.
TEST_F(OnGpuDropin, RunsOnTheCallersDevice) {
  for (const char* kernel : {"streaming", "two_launches"}) {  // the second allocates memory
    ASSERT_EQ(reprolab_nf4_use(kernel), 0) << reprolab_nf4_error();
    on_each_device([](cudaStream_t stream) {
      const Dequantization on_device(make_row(100003));
      EXPECT_EQ(on_device.call(stream), 0) << reprolab_nf4_error();
      EXPECT_TRUE(on_device.is_right(stream));
    });
  }
}

}  // namespace
}  // namespace reprolab
