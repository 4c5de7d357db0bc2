// The arguments that a peer is called with, recorded by a fake peer.
#include <dlfcn.h>

#include <optional>

#include "harness/nf4/workload.hpp"
#include "kernels/nf4/bitsandbytes_peer.hpp"
#include "profiling/cuda_check.hpp"
#include "profiling/graph.hpp"
#include "tests/kernels/nf4/fake_peer.hpp"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

std::vector<PeerCall> calls;

/// Registers the fake peer as `name`, sets the hook of its calls, and clears `calls`.
const Kernel<Problem>& add_recording_peer(const std::string& name, PeerHook hook) {
  add_bitsandbytes_peer(name + "=" FAKE_PEER);
  void* library = dlopen(FAKE_PEER, RTLD_NOW);  // the same instance: dlopen only counts it
  const auto set_hook = reinterpret_cast<decltype(&set_peer_hook)>(dlsym(library, "set_peer_hook"));
  calls.clear();
  set_hook(hook);
  return kernel_named<Problem>(name);
}

void keep(const PeerCall& call) { calls.push_back(call); }

TEST(PeerLaunch, PlainScalesAreOneCallOfTheOutputsType) {
  const auto peer = add_recording_peer("peer_plain", keep);
  const std::uint8_t codes[64] = {};
  const float absmax[2] = {};
  std::uint16_t output[127] = {};
  Problem problem{.codes = codes,
                  .absmax = absmax,
                  .nested = {},
                  .n = 127,
                  .block_size = 64,
                  .output = output,
                  .output_type = OutputType::fp16};
  int stand_in = 0;  // never read: nothing is launched
  const auto stream = reinterpret_cast<cudaStream_t>(&stand_in);
  peer.launch(problem, stream);
  problem.output_type = OutputType::bf16;
  peer.launch(problem, stream);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].kind, 'h');
  EXPECT_EQ(calls[1].kind, 'b');
  for (const PeerCall& call : calls) {
    EXPECT_EQ(call.code, nullptr);
    EXPECT_EQ(call.codes, codes);
    EXPECT_EQ(call.absmax, absmax);
    EXPECT_EQ(call.output, output);
    EXPECT_EQ(call.block_size, 64);
    EXPECT_EQ(call.n, 127);
    EXPECT_EQ(call.stream, stream);
  }
}

TEST(PeerLaunch, NoWeightsAreNoCall) {
  const auto peer = add_recording_peer("peer_empty", keep);
  EXPECT_EQ(peer.launch(Problem{}, nullptr), cudaSuccess);
  EXPECT_TRUE(calls.empty());
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
  keep(call);
  const auto stream = static_cast<cudaStream_t>(call.stream);
  if (call.kind == 's') {
    const std::vector<float> twos(static_cast<std::size_t>(call.n), 2.0f);
    cudaMemcpyAsync(call.output, twos.data(), 4 * twos.size(), cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
  } else {
    cudaMemcpyAsync(scales_seen.data(), call.absmax, 4 * scales_seen.size(), cudaMemcpyDeviceToHost,
                    stream);
    cudaStreamSynchronize(stream);
  }
}

TEST_F(OnGpuPeerLaunch, NestedScalesAreDequantizedThenShiftedThenUsed) {
  const auto peer = add_recording_peer("peer_nested", play_along);
  scales_seen.assign(701, 0.0f);
  const Problem problem = this->problem();
  ASSERT_EQ(peer.launch(problem, stream_->get()), cudaSuccess);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].kind, 's');
  EXPECT_EQ(calls[0].code, problem.nested.map);
  EXPECT_EQ(calls[0].codes, problem.nested.codes);
  EXPECT_EQ(calls[0].absmax, problem.nested.absmax);
  EXPECT_EQ(calls[0].block_size, 256);
  EXPECT_EQ(calls[0].n, 701);
  EXPECT_EQ(calls[0].stream, stream_->get());
  EXPECT_EQ(calls[1].kind, 'h');
  EXPECT_EQ(calls[1].code, nullptr);
  EXPECT_EQ(calls[1].codes, problem.codes);
  EXPECT_EQ(calls[1].absmax, calls[0].output);
  EXPECT_EQ(calls[1].output, output_.data());
  EXPECT_EQ(calls[1].block_size, 64);
  EXPECT_EQ(calls[1].n, 64 * 700 + 1);
  EXPECT_EQ(calls[1].stream, stream_->get());
  EXPECT_EQ(scales_seen, std::vector<float>(701, 2.0f + problem.nested.offset));
}

/// Each launch on a stream finds the memory for scales that an earlier one left there.
TEST_F(OnGpuPeerLaunch, MemoryForScalesIsKeptByStream) {
  const auto peer = add_recording_peer("peer_keeping", keep);
  const profiling::Stream other;
  const Problem whole = problem();
  Problem part = whole;
  part.n /= 4;
  for (const Problem& problem : {part, whole, part, whole}) {
    ASSERT_EQ(peer.launch(problem, stream_->get()), cudaSuccess);
  }
  ASSERT_EQ(peer.launch(whole, other.get()), cudaSuccess);
  std::vector<const void*> scales;
  for (const PeerCall& call : calls) {
    if (call.kind == 's') scales.push_back(call.output);
  }
  ASSERT_EQ(scales.size(), 5u);
  EXPECT_NE(scales[0], scales[1]);  // was too small, and may still be a graph's
  EXPECT_EQ(scales[2], scales[1]);
  EXPECT_EQ(scales[3], scales[1]);
  EXPECT_NE(scales[4], scales[1]);
}

TEST_F(OnGpuPeerLaunch, ACaptureThatWouldHaveToAllocateIsRefused) {
  const auto peer = add_recording_peer("peer_refusing", keep);
  cudaError_t refused = cudaSuccess;
  const profiling::Graph empty(stream_->get(),
                               [&] { refused = peer.launch(problem(), stream_->get()); });
  EXPECT_EQ(refused, cudaErrorStreamCaptureUnsupported);
  EXPECT_TRUE(calls.empty());
}

/// The graph has the scales' memory of its stream, so that it can be launched again and again.
TEST_F(OnGpuPeerLaunch, NestedScalesCanBeCapturedInAGraph) {
  const auto peer = add_recording_peer("peer_captured", keep);
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
  EXPECT_EQ(calls.size(), 8u);
}

}  // namespace
}  // namespace reprolab::nf4
