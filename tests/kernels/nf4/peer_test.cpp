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

/// The fake peer in a folder of its package.
std::string peer_in(const std::filesystem::path& site) {
  const auto library = site / "bitsandbytes/libbitsandbytes_cuda999.so";
  std::filesystem::create_directories(library.parent_path());
  std::filesystem::copy_file(FAKE_PEER, library);
  return library.string();
}

/// The fake peer in an unpacked wheel: site/bitsandbytes/libbitsandbytes_cuda999.so, with the
/// wheel's metadata next to its folder.
std::string peer_in_wheel(const OwnFolder& site, const std::string& dist_info) {
  if (!dist_info.empty()) site.write(dist_info + "/METADATA", "");
  return peer_in(site.path());
}

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

TEST(PeerErrors, ALibraryThatEndsTheProcessWhenItIsLoaded) {
  expect_refused<UsageError>([] { load_peers({UNLOADABLE_PEER}); }, "libunloadable_peer");
}

TEST(PeerErrors, ANameThatIsNotPlain) {
  for (const std::string name : {"", "a|b", "$x$", "a b", ".a", "a\nb"}) {
    EXPECT_TRUE(contains(complaint(name + "=" FAKE_PEER), "libbitsandbytes_cuda999"));
  }
  const OwnFolder site;
  EXPECT_TRUE(contains(complaint(peer_in_wheel(site, "bitsandbytes-1\x1b.dist-info")),
                       "libbitsandbytes_cuda999"));
}

/// The user's name has priority, then the wheel's version if its metadata are next to the library,
/// then the file's name.
TEST(PeerNames, ComeFromTheUserTheWheelOrTheFile) {
  add("peer_named=" FAKE_PEER, "peer_named");
  const auto peer = variant_named<Problem>("peer_named");
  EXPECT_EQ(peer.lineage, "bitsandbytes (version unknown), libbitsandbytes_cuda999.so");
  EXPECT_EQ(peer.source_file, "kernels/nf4/bitsandbytes_peer.cu");
  EXPECT_EQ(peer.origin.kind, Origin::Kind::peer);
  EXPECT_EQ(peer.origin.maker, "bitsandbytes (version unknown)");
  EXPECT_FALSE(peer.promise.deviates());
  const OwnFolder site, other_site;
  EXPECT_EQ(
      add(peer_in_wheel(site, "bitsandbytes-0.47.0.dist-info"), "bitsandbytes_0.47.0").lineage,
      "bitsandbytes 0.47.0, libbitsandbytes_cuda999.so");
  add(peer_in_wheel(other_site, "another-1.0.dist-info"), "bitsandbytes_cuda999");
}

TEST(PeerNames, HaveTheFoldersVersionIfTheMetadataAreMissing) {
  const OwnFolder peers;
  const std::string library = peer_in(peers.path() / "bitsandbytes-0.48.1");
  EXPECT_EQ(add(library, "bitsandbytes_0.48.1").lineage,
            "bitsandbytes 0.48.1, libbitsandbytes_cuda999.so");
}

TEST(PeerSupports, SupportsExportedTypesAndLengthsThatFitAnInt) {
  const auto& peer = add("peer_without_nested=" CRASHING_PEER, "peer_without_nested");
  constexpr std::int64_t longest = (std::int64_t{1} << 31) - 2048;
  Problem problem;
  problem.table = reference::standard_table;
  problem.n = longest;
  EXPECT_TRUE(peer.supports(problem).ok);
  problem.output_type = OutputType::bf16;
  EXPECT_TRUE(peer.supports(problem).ok);
  problem.n = longest + 1;
  EXPECT_TRUE(contains(peer.supports(problem).reason, "bitsandbytes"));
  problem.n = 1;
  problem.table[3] = 0.5f;
  EXPECT_TRUE(contains(peer.supports(problem).reason, "checkpoint"));
  const std::uint8_t code = 0;
  problem.nested.codes = &code;
  EXPECT_TRUE(contains(peer.supports(problem).reason, "cdequantize_blockwise_fp32"));
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

/// Each launch on a stream finds the memory for scales that an earlier one left there.
TEST_F(OnGpuPeerLaunch, MemoryForScalesIsKeptByStream) {
  const auto peer = add_recording_peer("peer_keeping");
  const profiling::Stream other;
  const Problem whole = problem();
  Problem part = whole;
  part.n /= 4;
  for (const Problem& problem : {part, whole, part, whole}) {
    ASSERT_EQ(peer.launch(problem, stream_->get()), cudaSuccess);
  }
  ASSERT_EQ(peer.launch(whole, other.get()), cudaSuccess);
  std::vector<const void*> scales;
  for (const PeerCall& call : peer_calls) {
    if (call.function == "cdequantize_blockwise_fp32") scales.push_back(call.output);
  }
  ASSERT_EQ(scales.size(), 5u);
  EXPECT_NE(scales[0], scales[1]);  // was too small, and may still be a graph's
  EXPECT_EQ(scales[2], scales[1]);
  EXPECT_EQ(scales[3], scales[1]);
  EXPECT_NE(scales[4], scales[1]);
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
