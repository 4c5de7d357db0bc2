// The products of a bitsandbytes library: what is registered, what is refused, and the arguments of
// a call, recorded by a fake one.
#include <dlfcn.h>

#include "kernels/nf4_product/bitsandbytes_peer.hpp"
#include "kernels/nf4_product/readings.hpp"
#include "profiling/cuda_check.hpp"
#include "tests/kernels/nf4_product/fake_peer.hpp"
#include "tests/kernels/nf4_product/testing.hpp"
#include "tests/message_of.hpp"

namespace reprolab::nf4_product {
namespace {

std::vector<ProductCall> calls;

/// Registers the fake peer as `name` and records its calls from now on.
void add_recording_peer(const std::string& name) {
  add_bitsandbytes_peers(name + "=" FAKE_PRODUCT_PEER);
  void* library = dlopen(FAKE_PRODUCT_PEER, RTLD_NOW);  // the same instance: dlopen only counts it
  const auto set_hook =
      reinterpret_cast<decltype(&set_product_hook)>(dlsym(library, "set_product_hook"));
  calls.clear();
  set_hook([](const ProductCall& call) { calls.push_back(call); });
}

TEST(ProductPeer, RegistersTheProductsThatALibraryHas) {
  EXPECT_EQ(add_bitsandbytes_peers("both=" FAKE_PRODUCT_PEER),
            (std::vector<std::string>{"both_gemm", "both_gemv"}));
  EXPECT_EQ(add_bitsandbytes_peers("older=" OLDER_PRODUCT_PEER),
            (std::vector<std::string>{"older_gemv"}));
  EXPECT_TRUE(add_bitsandbytes_peers("none=" NO_PRODUCT_PEER).empty());
  const auto& gemm = kernel_named<Problem>("both_gemm");
  EXPECT_EQ(gemm.origin.kind, Origin::Kind::peer);
  EXPECT_EQ(gemm.lineage, "bitsandbytes (version unknown), libbitsandbytes_products.so");
  EXPECT_EQ(promise_of(gemm.contract).reading, rounded_products);
  EXPECT_EQ(gemm.code_files(90).size(), 2u);
}

TEST(ProductPeer, ASecondOneOfTheSameNameIsRefused) {
  add_bitsandbytes_peers("twice=" FAKE_PRODUCT_PEER);
  EXPECT_EQ(
      message_of<std::runtime_error>([] { add_bitsandbytes_peers("twice=" FAKE_PRODUCT_PEER); }),
      "peer " FAKE_PRODUCT_PEER
      ": there is already a kernel named 'twice_gemm'; name this one: NAME=" FAKE_PRODUCT_PEER);
  EXPECT_EQ(message_of<std::runtime_error>([] { add_bitsandbytes_peers("/nonexistent/a.so"); }),
            "peer /nonexistent/a.so: no such file; give the path of libbitsandbytes_cuda*.so");
}

TEST(ProductPeer, TheFusedProductRefusesWhatTheLibraryDoesNotTake) {
  add_bitsandbytes_peers("gemm_refuses=" FAKE_PRODUCT_PEER);
  const auto reason = [](auto change) {
    Problem problem = a_problem();
    change(problem);
    return kernel_named<Problem>("gemm_refuses_gemm").supports(problem).reason;
  };
  EXPECT_EQ(reason([](Problem& p) { p.m = 1536; }), "");
  EXPECT_EQ(reason([](Problem& p) { p.type = nf4::OutputType::bf16; }), "");
  EXPECT_EQ(reason([](Problem& p) { p.m = 1537; }),
            "bitsandbytes dequantizes for more than 1536 rows");
  EXPECT_EQ(reason([](Problem& p) { p.k = 96; }),
            "bitsandbytes dequantizes where a row of weights is not whole blocks");
  EXPECT_EQ(reason([](Problem& p) { p.m = 4, p.n = 63; }),
            "stores two outputs at once: of more than 3 rows an even number per row");
  EXPECT_EQ(reason([](Problem& p) { p.m = 3, p.n = 63; }), "");
  EXPECT_EQ(reason([](Problem& p) { p.n = 1 << 20, p.k = 1 << 13; }),
            "bitsandbytes counts bytes of codes and elements in an int: below 2^31");
  EXPECT_EQ(reason([](Problem& p) { p.input = static_cast<const std::uint16_t*>(p.input) + 1; }),
            "loads 16 bytes at once: codes and input must be aligned to them");
  EXPECT_EQ(reason([](Problem& p) { p.table[3] = 0.5f; }),
            "the checkpoint's quant_map is not the NF4 table built into the kernel");
  EXPECT_EQ(reason([](Problem& p) { p.nested.codes = p.codes, p.nested.block_size = 128; }),
            "nested scales of 256 per second-level scale alone");
}

TEST(ProductPeer, TheProductForOneRowRefusesMore) {
  add_bitsandbytes_peers("gemv_refuses=" FAKE_PRODUCT_PEER);
  const auto reason = [](auto change) {
    Problem problem = a_problem();
    change(problem);
    return kernel_named<Problem>("gemv_refuses_gemv").supports(problem).reason;
  };
  EXPECT_EQ(reason([](Problem&) {}), "");
  EXPECT_EQ(reason([](Problem& p) { p.m = 2; }), "takes one row");
  EXPECT_EQ(reason([](Problem& p) { p.bias = p.input; }), "takes no bias");
  EXPECT_EQ(reason([](Problem& p) { p.nested.codes = p.codes; }),
            "takes no nested scales: its callers dequantize them");
  EXPECT_EQ(reason([](Problem& p) { p.n = 62; }), "reads scales past the end unless 4 divides n");
  EXPECT_EQ(reason([](Problem& p) { p.type = nf4::OutputType::bf16; }),
            "the library exports no product for this type");
}

TEST(ProductPeer, PlainScalesAreOneCallOfTheTypeWithEveryArgumentInItsPlace) {
  add_recording_peer("gemm_called");
  const auto& kernel = kernel_named<Problem>("gemm_called_gemm");
  Problem problem = a_problem();
  problem.m = 5;
  problem.bias = problem.input;
  int stand_in = 0;  // never read: nothing is launched
  const auto stream = reinterpret_cast<cudaStream_t>(&stand_in);
  kernel.launch(problem, stream);
  problem.type = nf4::OutputType::bf16;
  problem.bias = nullptr;
  kernel.launch(problem, stream);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].type, 'h');
  EXPECT_EQ(calls[1].type, 'b');
  EXPECT_EQ(calls[0].bias, problem.input);
  EXPECT_EQ(calls[1].bias, nullptr);
  for (const ProductCall& call : calls) {
    EXPECT_EQ(call.kind, "gemm");
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

TEST_F(OnGpuProductPeer, NestedScalesBringTheirOffsetInDeviceMemoryThatIsKept) {
  add_recording_peer("gemm_nested");
  const auto& kernel = kernel_named<Problem>("gemm_nested_gemm");
  Problem problem = a_problem();
  const float map = 0, absmax = 0;  // never read
  problem.nested = {.codes = problem.codes, .map = &map, .absmax = &absmax, .offset = 0.75f};
  const profiling::Stream stream;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(kernel.launch(problem, stream.get()), cudaSuccess);
  problem.nested.offset = 0.5f;
  ASSERT_EQ(kernel.launch(problem, stream.get()), cudaSuccess);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].absmax, &absmax);
  EXPECT_EQ(calls[0].absmax_8bit, problem.codes);
  EXPECT_EQ(calls[0].map, &map);
  EXPECT_EQ(on_host(calls[0].offset), 0.75f);
  EXPECT_EQ(calls[1].offset, calls[0].offset);
  EXPECT_EQ(on_host(calls[2].offset), 0.5f);
}

TEST_F(OnGpuProductPeer, TheProductForOneRowIsGivenTheTable) {
  add_recording_peer("gemv_called");
  const Problem problem = a_problem();
  const profiling::Stream stream;
  ASSERT_EQ(kernel_named<Problem>("gemv_called_gemv").launch(problem, stream.get()), cudaSuccess);
  ASSERT_EQ(calls.size(), 1u);
  const ProductCall& call = calls[0];
  EXPECT_EQ(call.kind, "gemv");
  EXPECT_EQ((std::array{call.m, call.n, call.k, call.lda, call.ldb, call.ldc, call.block_size}),
            (std::array{1, 64, 128, 64, 64, 64, 64}));
  EXPECT_EQ(call.absmax, problem.absmax);
  EXPECT_EQ(call.output, problem.output);
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(on_host(call.map + code), problem.table[static_cast<std::size_t>(code)]);
  }
}

}  // namespace
}  // namespace reprolab::nf4_product
