// What the products of the drop-in library answer to bad calls. Needs no GPU.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>

#include "dropin/reprolab_nf4.h"

namespace reprolab::nf4_product {
namespace {

/// An address `off` bytes behind a multiple of 256; never read.
template <class T = void>
T* address(std::uintptr_t off = 0) {
  return reinterpret_cast<T*>((std::uintptr_t{1} << 40) + off);
}

/// Arguments of any of the functions; by default good ones.
struct Call {
  std::string name;
  const char* kernel = "simple";
  const void* input = address();
  const unsigned char* codes = address<const unsigned char>();
  const float* absmax = address<const float>();
  const unsigned char* scale_codes = nullptr;
  const float *map = address<const float>(), *offset = address<const float>();
  const void* bias = nullptr;
  void* out = address();
  std::int64_t m = 2, n = 64, k = 128;
  int block_size = 64, nested_block_size = 256, weights_are_settled = 0, quantization = 2;
  void* workspace = nullptr;

  bool is_bitsandbytes() const { return name.starts_with("cgemm"); }
  int operator()() const {
    const bool is_fp16 = name.ends_with("fp16");
    if (is_bitsandbytes()) {
      return (is_fp16 ? cgemm_4bit_fp16 : cgemm_4bit_bf16)(
          input, codes, absmax, scale_codes, map, offset, out, bias, static_cast<int>(m),
          static_cast<int>(n), static_cast<int>(k), block_size, quantization, nullptr);
    }
    return (is_fp16 ? reprolab_nf4_multiply_fp16 : reprolab_nf4_multiply_bf16)(
        kernel, input, codes, absmax, scale_codes, map, 0.5f, bias, out, m, n, k, block_size,
        nested_block_size, weights_are_settled, workspace, nullptr);
  }
};

class DropinProducts : public testing::TestWithParam<const char*> {
 protected:
  /// Fails the test unless the call, changed by `change`, is refused for `why`.
  void expect_refused(const std::string& why, const std::function<void(Call&)>& change) const {
    Call call{.name = GetParam()};
    change(call);
    EXPECT_EQ(call(), cudaErrorInvalidValue) << why;
    EXPECT_EQ(reprolab_nf4_error(), GetParam() + (": " + why));
  }
};

TEST_P(DropinProducts, PointersThatAreMissingOrMisalignedAreRefused) {
  expect_refused("A is null", [](Call& call) { call.input = nullptr; });
  expect_refused("A is no multiple of 2 bytes", [](Call& call) { call.input = address(1); });
  expect_refused("B is null", [](Call& call) { call.codes = nullptr; });
  expect_refused("absmax is null", [](Call& call) { call.absmax = nullptr; });
  expect_refused("absmax is no multiple of 4 bytes",
                 [](Call& call) { call.absmax = address<const float>(2); });
  expect_refused("bias is no multiple of 2 bytes", [](Call& call) { call.bias = address(1); });
  expect_refused("out is null", [](Call& call) { call.out = nullptr; });
  expect_refused("code2 is null", [](Call& call) {
    call.scale_codes = address<const unsigned char>();
    call.map = nullptr;
  });
}

TEST_P(DropinProducts, WrongSizesAreRefused) {
  expect_refused("m is -1; give 0 or more", [](Call& call) { call.m = -1; });
  expect_refused("n is -1; give 0 or more", [](Call& call) { call.n = -1; });
  expect_refused("k is -1; give 0 or more", [](Call& call) { call.k = -1; });
  for (const int size : {0, 33, 8192}) {
    expect_refused(fmt::format("blocksize is {}; give a power of two from 32 to 4096", size),
                   [&](Call& call) { call.block_size = size; });
  }
}

TEST_P(DropinProducts, NothingToWriteIsNoErrorWhateverThePointers) {
  Call nothing{.name = GetParam(), .input = nullptr, .codes = nullptr, .out = nullptr};
  nothing.m = 0;
  EXPECT_EQ(nothing(), cudaSuccess);
  nothing.m = 1;
  nothing.n = 0;
  EXPECT_EQ(nothing(), cudaSuccess);
  EXPECT_STREQ(reprolab_nf4_error(), "");
}

/// Ends the process. What is allocated first, or launched, depends on the function.
void call_without_gpu(const Call& call) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  std::exit(call() != 0 && std::fputs(reprolab_nf4_error(), stderr) >= 0 ? 1 : 0);
}

TEST_P(DropinProducts, WithoutAGpuACallIsAnErrorAndNoFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Call call{.name = GetParam()};
  EXPECT_EXIT(call_without_gpu(call), testing::ExitedWithCode(1),
              fmt::format("^{}: launching simple failed: .+ \\(CUDA error [0-9]+\\)$", call.name));
  Call nested = call;
  nested.scale_codes = address<const unsigned char>();
  EXPECT_EXIT(call_without_gpu(nested), testing::ExitedWithCode(1),
              fmt::format("^{}: (launching simple failed|no workspace): .+$", call.name));
  if (call.is_bitsandbytes()) return;
  Call few_rows = call;
  few_rows.kernel = "few_rows";
  EXPECT_EXIT(call_without_gpu(few_rows), testing::ExitedWithCode(1),
              fmt::format("^{}: .*(driver|device|GPU).*$", call.name));
}

INSTANTIATE_TEST_SUITE_P(Functions, DropinProducts,
                         testing::Values("reprolab_nf4_multiply_fp16", "reprolab_nf4_multiply_bf16",
                                         "cgemm_4bit_fp16", "cgemm_4bit_bf16"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DropinProductNames, ThatThereAreNotAreRefused) {
  const std::string choices = "few_rows, many_rows, simple, few_rows_exact, many_rows_exact";
  std::string listed = reprolab_nf4_products();
  for (auto& c : listed) c = c == '\n' ? ' ' : c;
  EXPECT_EQ(fmt::format("{}", listed), "few_rows many_rows simple few_rows_exact many_rows_exact");
  std::uint64_t bytes = 7;
  for (const char* name : {"streaming_then_cublas", "", static_cast<const char*>(nullptr)}) {
    const std::string why = fmt::format("there is no kernel '{}'; give one of {}",
                                        name == nullptr ? "" : name, choices);
    EXPECT_EQ(reprolab_nf4_workspace(name, 1, 64, 128, 64, &bytes), cudaErrorInvalidValue);
    EXPECT_EQ(reprolab_nf4_error(), "reprolab_nf4_workspace: " + why);
    EXPECT_NE((Call{.name = "reprolab_nf4_multiply_fp16", .kernel = name}()), 0);
    EXPECT_EQ(reprolab_nf4_error(), "reprolab_nf4_multiply_fp16: " + why);
  }
  EXPECT_EQ(bytes, 7u);
}

TEST(DropinProductWorkspace, IsKnownOfAGoodProductAlone) {
  std::uint64_t bytes = 7;
  EXPECT_EQ(reprolab_nf4_workspace("simple", 3, 5, 7, 64, &bytes), cudaSuccess);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(reprolab_nf4_workspace("simple", -3, 5, 7, 64, &bytes), cudaErrorInvalidValue);
  EXPECT_STREQ(reprolab_nf4_error(), "reprolab_nf4_workspace: m is -3; give 0 or more");
  EXPECT_EQ(reprolab_nf4_workspace("simple", 3, 5, 7, 64, nullptr), cudaErrorInvalidValue);
}

TEST(DropinProductsOfBitsandbytes, AreOfNf4AndNeedTheOffsetOfNestedScales) {
  EXPECT_NE((Call{.name = "cgemm_4bit_fp16", .quantization = 1}()), 0);
  EXPECT_STREQ(reprolab_nf4_error(), "cgemm_4bit_fp16: quant_type is 1; give 2, which is NF4");
  Call call{.name = "cgemm_4bit_fp16", .scale_codes = address<const unsigned char>()};
  call.offset = nullptr;
  EXPECT_EQ(call(), cudaErrorInvalidValue);
  EXPECT_STREQ(reprolab_nf4_error(), "cgemm_4bit_fp16: absmax_offset is null");
}

}  // namespace
}  // namespace reprolab::nf4_product
