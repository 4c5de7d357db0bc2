// A peer's name, the errors of invalid peers, and the arguments of a peer's calls, recorded by a
// fake one.
#include <optional>

#include "harness/errors.hpp"
#include "harness/nf4/options.hpp"
#include "kernels/nf4/bitsandbytes_peer.hpp"
#include "profiling/graph.hpp"
#include "tests/kernels/fake_peer.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::nf4 {
namespace {

/// The message of add_bitsandbytes_peer for `argument`; nothing may have been registered.
std::string complaint(const std::string& argument) {
  const auto before = Registry<Problem>::instance().kernels().size();
  const auto text = message_of<std::runtime_error>([&] { add_bitsandbytes_peer(argument); });
  EXPECT_EQ(Registry<Problem>::instance().kernels().size(), before);
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  return text;
}

/// Peers stay registered as long as the process lives, so every test uses its own name.
const Kernel<Problem>& add(const std::string& argument, const std::string& expected_name) {
  EXPECT_EQ(add_bitsandbytes_peer(argument), expected_name);
  return kernel_named<Problem>(expected_name);
}

TEST(PeerErrors, AFileThatIsNotBitsandbytesIsOneLine) {
  const OwnFolder folder;
  add("peer_twice=" FAKE_PEER, "peer_twice");
  for (const std::string& argument :
       {std::string("/nonexistent/a.so"), std::string("mine=/nonexistent/a.so"),
        std::string("/no=folder/a.so"), folder.path().string(),
        folder.write("libbitsandbytes_cuda1.so", "not ELF").string(), std::string(NOT_A_PEER),
        std::string("peer_twice=" FAKE_PEER), std::string("shared_lut=" FAKE_PEER)}) {
    EXPECT_TRUE(contains(complaint(argument), "peer"));
  }
}

/// Registers the fake peer as `name` and records its calls.
const Kernel<Problem>& add_recording_peer(
    const std::string& name, PeerHook then = [](const PeerCall&) {}) {
  record_peer_calls(FAKE_PEER, then);
  return add(name + "=" FAKE_PEER, name);
}

void expect_call(const PeerCall& call, const char* function, const Problem& problem,
                 const float* absmax, cudaStream_t stream) {
  EXPECT_EQ(call.function, function);
  EXPECT_EQ(call.map, nullptr);
  EXPECT_EQ(call.codes, problem.codes);
  EXPECT_EQ(call.absmax, absmax);
  EXPECT_EQ(call.output, problem.output);
  EXPECT_EQ(call.block_size, problem.block_size);
  EXPECT_EQ(call.n, problem.n);
  EXPECT_EQ(call.stream, stream);
}

TEST(PeerLaunch, PlainScalesAreOneCallAndNoWeightsAreNone) {
  const auto peer = add_recording_peer("peer_plain");
  const std::uint8_t codes[64] = {};
  const float absmax[2] = {};
  std::uint16_t output[127] = {};
  Problem problem{.codes = codes, .absmax = absmax, .nested = {}, .n = 127, .output = output};
  int stand_in = 0;  // never read: nothing is launched
  const auto stream = reinterpret_cast<cudaStream_t>(&stand_in);
  peer.launch(problem, stream);
  problem.output_type = OutputType::bf16;
  peer.launch(problem, stream);
  EXPECT_EQ(peer.launch(Problem{}, stream), cudaSuccess);
  ASSERT_EQ(peer_calls.size(), 2u);
  expect_call(peer_calls[0], "cdequantize_blockwise_fp16_nf4", problem, absmax, stream);
  expect_call(peer_calls[1], "cdequantize_blockwise_bf16_nf4", problem, absmax, stream);
}

class OnGpuPeerLaunch : public OnGpuTest {
 protected:
  /// A nested problem of 700 blocks and a weight, on the device.
  void SetUp() override {
    OnGpuTest::SetUp();
    if (IsSkipped()) return;
    const Tensor tensor = make_row(64 * 700 + 1, 64, true);
    input_.emplace(tensor.quantized);
    output_ = profiling::DeviceBuffer(2 * tensor.expected.size());
    stream_.emplace();
  }
  Problem problem() const { return input_->problem(output_.data()); }

  std::optional<DeviceTensor> input_;
  profiling::DeviceBuffer output_;
  std::optional<profiling::Stream> stream_;
};

std::vector<float> scales_seen;  ///< The scales at the time of the call for the weights.

/// Sets each block's scale to 2, as bitsandbytes' fp32 call would, and reads the scales that the
/// call for the weights is given.
void play_along(const PeerCall& call) {
  const auto stream = static_cast<cudaStream_t>(call.stream);
  if (call.function == "cdequantize_blockwise_fp32") {
    const std::vector<float> twos(static_cast<std::size_t>(call.n), 2.0f);
    cudaMemcpyAsync(call.output, twos.data(), 4 * twos.size(), cudaMemcpyHostToDevice, stream);
  } else {
    cudaMemcpyAsync(scales_seen.data(), call.absmax, 4 * scales_seen.size(), cudaMemcpyDeviceToHost,
                    stream);
  }
  cudaStreamSynchronize(stream);
}

TEST_F(OnGpuPeerLaunch, NestedScalesAreDequantizedThenShiftedThenUsed) {
  const auto peer = add_recording_peer("peer_nested", play_along);
  scales_seen.assign(701, 0.0f);
  const Problem problem = this->problem();
  ASSERT_EQ(peer.launch(problem, stream_->get()), cudaSuccess);
  ASSERT_EQ(peer_calls.size(), 2u);
  const PeerCall& scales = peer_calls[0];
  EXPECT_EQ(scales.function, "cdequantize_blockwise_fp32");
  EXPECT_EQ(scales.map, problem.nested.map);
  EXPECT_EQ(scales.codes, problem.nested.codes);
  EXPECT_EQ(scales.absmax, problem.nested.absmax);
  EXPECT_EQ(scales.block_size, 256);
  EXPECT_EQ(scales.n, 701);
  EXPECT_EQ(scales.stream, stream_->get());
  expect_call(peer_calls[1], "cdequantize_blockwise_fp16_nf4", problem,
              static_cast<const float*>(scales.output), stream_->get());
  EXPECT_EQ(scales_seen, std::vector<float>(701, 2.0f + problem.nested.offset));
}

/// A capture that would have to allocate is refused; afterwards the graph uses the memory of its
/// stream, so that it can be launched repeatedly.
TEST_F(OnGpuPeerLaunch, NestedScalesCanBeCapturedOnceThereIsMemoryForThem) {
  const auto peer = add_recording_peer("peer_captured");
  cudaError_t refused = cudaSuccess;
  const profiling::Graph empty(stream_->get(),
                               [&] { refused = peer.launch(problem(), stream_->get()); });
  EXPECT_EQ(refused, cudaErrorStreamCaptureUnsupported);
  EXPECT_TRUE(peer_calls.empty());
  const auto launch = [&] {
    profiling::check(peer.launch(problem(), stream_->get()), "launching");
  };
  launch();
  stream_->synchronize();
  const profiling::Graph graph(stream_->get(), [&] {
    for (int i = 0; i < 3; ++i) launch();
  });
  for (int i = 0; i < 2; ++i) graph.launch(stream_->get());
  stream_->synchronize();
  EXPECT_EQ(peer_calls.size(), 8u);
}

}  // namespace
}  // namespace reprolab::nf4
