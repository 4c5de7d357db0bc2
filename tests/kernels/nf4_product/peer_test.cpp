// The products of a bitsandbytes library: registered kernels, refused problems, and the arguments
// of a call, recorded by a fake library.
#include <functional>

#include "kernels/nf4_product/bitsandbytes_peer.hpp"
#include "profiling/cuda_check.hpp"
#include "tests/kernels/fake_peer.hpp"
#include "tests/kernels/nf4_product/testing.hpp"
#include "tests/refusal.hpp"

namespace reprolab::nf4_product {
namespace {

/// Registers the products of the fake peer as `name` and its suffixes, and records their calls.
void add_recording_peer(const std::string& name) {
  add_bitsandbytes_peers(name + "=" FAKE_PEER);
  record_peer_calls(FAKE_PEER);
}

/// Why the kernel refuses a product with this change, or "".
std::string refusal(const std::string& kernel, const std::function<void(Problem&)>& change) {
  Problem problem = a_problem();
  change(problem);
  return kernel_named<Problem>(kernel).supports(problem).reason;
}

TEST(ProductPeer, RegistersTheProductsOfTheLibrary) {
  EXPECT_EQ(add_bitsandbytes_peers("both=" FAKE_PEER),
            (std::vector<std::string>{"both_gemm", "both_gemv"}));
  EXPECT_EQ(add_bitsandbytes_peers("older=" OLDER_PEER), (std::vector<std::string>{"older_gemv"}));
  EXPECT_TRUE(add_bitsandbytes_peers("none=" NOT_A_PEER).empty());
  const auto& gemm = kernel_named<Problem>("both_gemm");
  EXPECT_EQ(gemm.origin.kind, Origin::Kind::peer);
  EXPECT_EQ(gemm.lineage, "bitsandbytes (version unknown), libbitsandbytes_cuda999.so");
  EXPECT_EQ(promise_of(gemm.contract).reading, rounded_products);
  EXPECT_EQ(gemm.code_files(90).size(), 2u);
}

TEST(ProductPeer, PlainScalesAreOneCallWithEveryArgument) {
  add_recording_peer("called");
  const auto& kernel = kernel_named<Problem>("called_gemm");
  Problem problem = a_problem();
  problem.m = 5;
  problem.bias = problem.input;
  int stand_in = 0;  // never read: nothing is launched
  const auto stream = reinterpret_cast<cudaStream_t>(&stand_in);
  kernel.launch(problem, stream);
  problem.type = nf4::OutputType::bf16;
  problem.bias = nullptr;
  kernel.launch(problem, stream);
  ASSERT_EQ(peer_calls.size(), 2u);
  EXPECT_EQ(peer_calls[0].function, "cgemm_4bit_fp16");
  EXPECT_EQ(peer_calls[1].function, "cgemm_4bit_bf16");
  EXPECT_EQ(peer_calls[0].bias, problem.input);
  EXPECT_EQ(peer_calls[1].bias, nullptr);
  for (const PeerCall& call : peer_calls) {
    EXPECT_EQ(call.input, problem.input);
    EXPECT_EQ(call.codes, problem.codes);
    EXPECT_EQ(call.absmax, problem.absmax);
    EXPECT_EQ(call.absmax_8bit, nullptr);
    EXPECT_EQ(call.map, nullptr);
    EXPECT_EQ(call.offset, nullptr);
    EXPECT_EQ(call.output, problem.output);
    EXPECT_EQ((std::array{call.m, call.n, call.k, call.block_size, call.quant_type}),
              (std::array{5, 64, 128, 64, 2}));
    EXPECT_EQ(call.stream, stream);
  }
}

class OnGpuProductPeer : public OnGpuTest {};

float on_host(const float* number) {
  float value = 0;
  profiling::check(cudaMemcpy(&value, number, sizeof value, cudaMemcpyDeviceToHost), "reading");
  return value;
}

TEST_F(OnGpuProductPeer, NestedScalesPassTheirOffsetInDeviceMemory) {
  add_recording_peer("gemm_nested");
  const auto& kernel = kernel_named<Problem>("gemm_nested_gemm");
  Problem problem = a_problem();
  const float map = 0, absmax = 0;  // never read
  problem.nested = {.codes = problem.codes, .map = &map, .absmax = &absmax, .offset = 0.75f};
  const profiling::Stream stream;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(kernel.launch(problem, stream.get()), cudaSuccess);
  problem.nested.offset = 0.5f;
  ASSERT_EQ(kernel.launch(problem, stream.get()), cudaSuccess);
  ASSERT_EQ(peer_calls.size(), 3u);
  EXPECT_EQ(peer_calls[0].absmax, &absmax);
  EXPECT_EQ(peer_calls[0].absmax_8bit, problem.codes);
  EXPECT_EQ(peer_calls[0].map, &map);
  EXPECT_EQ(on_host(peer_calls[0].offset), 0.75f);
  EXPECT_EQ(peer_calls[1].offset, peer_calls[0].offset);
  EXPECT_EQ(on_host(peer_calls[2].offset), 0.5f);
}

TEST_F(OnGpuProductPeer, TheProductForOneRowGetsTheTable) {
  add_recording_peer("gemv");
  const Problem problem = a_problem();
  const profiling::Stream stream;
  ASSERT_EQ(kernel_named<Problem>("gemv_gemv").launch(problem, stream.get()), cudaSuccess);
  ASSERT_EQ(peer_calls.size(), 1u);
  const PeerCall& call = peer_calls[0];
  EXPECT_EQ(call.function, "cgemm_4bit_inference_naive_fp16");
  EXPECT_EQ((std::array{call.m, call.n, call.k, call.lda, call.ldb, call.ldc, call.block_size}),
            (std::array{64, 1, 128, 64, 64, 64, 64}));
  EXPECT_EQ(call.absmax, problem.absmax);
  EXPECT_EQ(call.output, problem.output);
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(on_host(call.map + code), problem.table[static_cast<std::size_t>(code)]);
  }
}

}  // namespace
}  // namespace reprolab::nf4_product
