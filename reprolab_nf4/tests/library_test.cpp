// Errors of the drop-in library for invalid calls. Needs no GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <functional>
#include <thread>

#include "kernels/nf4/problem.hpp"
#include "kernels/registry.hpp"
#include "reprolab_nf4/csrc/calls.hpp"
#include "reprolab_nf4/csrc/reprolab_nf4.h"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/refusal.hpp"

namespace reprolab::nf4 {
namespace {

/// An address `off` bytes after a multiple of 256; never read.
template <class T = void>
T* address(std::uintptr_t off = 0) {
  return reinterpret_cast<T*>((std::uintptr_t{1} << 40) + off);
}

/// Arguments of any of the functions; valid by default.
struct Call {
  std::string name;
  const unsigned char* codes = address<const unsigned char>();
  const float* absmax = address<const float>();
  const unsigned char* scale_codes = nullptr;
  const float* map = address<const float>();
  void* out = address();
  int block_size = 64, nested_block_size = 256;
  std::int64_t n = 1000;
  // Only for products.
  const char* kernel = "simple";
  const void *input = address(), *bias = nullptr;
  std::int64_t m = 2, k = 128;

  bool is_product() const { return name.starts_with("reprolab_nf4_multiply"); }

  int operator()() const {
    const bool fp16 = name.find("fp16") != std::string::npos;
    const auto short_n = static_cast<int>(n);
    if (is_product()) {
      return reprolab_nf4_multiply(kernel, 0, input, codes, absmax, scale_codes, map, 0.5f, bias,
                                   out, m, n, k, block_size, nested_block_size, 0, nullptr,
                                   nullptr);
    }
    return (fp16 ? cdequantize_blockwise_fp16_nf4 : cdequantize_blockwise_bf16_nf4)(
        nullptr, codes, absmax, out, block_size, short_n, nullptr);
  }
};

class DropinCalls : public testing::TestWithParam<const char*> {
 protected:
  static Call good() { return {.name = GetParam()}; }

  /// Fails the test unless the call is invalid after `change`.
  static void expect_refused(const std::function<void(Call&)>& change, const std::string& noun) {
    Call call = good();
    change(call);
    EXPECT_EQ(call(), cudaErrorInvalidValue);
    EXPECT_TRUE(contains(reprolab_nf4_error(), noun));
  }
};

TEST_P(DropinCalls, RefuseNullAndMisalignedPointers) {
  const Call call = good();
  expect_refused([](Call& call) { call.codes = nullptr; }, " is null");
  expect_refused([](Call& call) { call.absmax = nullptr; }, "absmax");
  expect_refused([](Call& call) { call.absmax = address<const float>(2); }, "absmax");
  expect_refused([](Call& call) { call.out = nullptr; }, "out is null");
  expect_refused([](Call& call) { call.out = address(1); }, "out is not a multiple");
  if (!call.is_product()) return;
  for (const float* map : {static_cast<const float*>(nullptr), address<const float>(3)}) {
    expect_refused(
        [&](Call& call) {
          call.scale_codes = address<const unsigned char>();
          call.map = map;
        },
        "code2");
  }
  expect_refused([](Call& call) { call.input = nullptr; }, "A is null");
  expect_refused([](Call& call) { call.input = address(1); }, "A is not a multiple");
  expect_refused([](Call& call) { call.bias = address(1); }, "bias");
}

TEST_P(DropinCalls, RefuseWrongSizes) {
  for (const int size : {INT32_MIN, 0, 1, 16, 33, 4095, 8192, INT32_MAX}) {
    expect_refused([&](Call& call) { call.block_size = size; }, "blocksize is");
    if (!good().is_product()) continue;
    expect_refused(
        [&](Call& call) {
          call.scale_codes = address<const unsigned char>();
          call.nested_block_size = size;
        },
        "blocksize2 is");
  }
  for (const int n : {-1, INT32_MIN}) {
    expect_refused([&](Call& call) { call.n = n; }, "n is");
  }
  if (!good().is_product()) return;
  expect_refused([](Call& call) { call.m = -1; }, "m is");
  expect_refused([](Call& call) { call.k = -1; }, "k is");
}

TEST_P(DropinCalls, WithoutOutputsSucceedForAnyPointers) {
  Call nothing{.name = GetParam()};
  nothing.out = nullptr;
  nothing();
  EXPECT_STRNE(reprolab_nf4_error(), "");
  nothing.codes = nullptr, nothing.absmax = nullptr, nothing.map = nullptr;
  nothing.input = nullptr;
  nothing.n = 0;
  EXPECT_EQ(nothing(), cudaSuccess);
  EXPECT_STREQ(reprolab_nf4_error(), "");
  if (!nothing.is_product()) return;
  nothing.n = 64, nothing.m = 0;
  EXPECT_EQ(nothing(), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Functions, DropinCalls,
                         testing::Values("cdequantize_blockwise_fp16_nf4",
                                         "cdequantize_blockwise_bf16_nf4", "reprolab_nf4_multiply"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DropinKernels, AreTheBitExactOnesAndNoOtherIsChosen) {
  EXPECT_EQ(reprolab_nf4_kernels(), fmt::format("{}", fmt::join(exact_kernels(), "\n")));
  for (const std::string& kernel : exact_kernels()) EXPECT_EQ(reprolab_nf4_use(kernel.c_str()), 0);
  for (const char* name : {"", "a\nb", "packed_512_as_published", "shared_lut_algorithm1"}) {
    EXPECT_EQ(reprolab_nf4_use(name), cudaErrorInvalidValue);
    EXPECT_TRUE(contains(reprolab_nf4_error(), "choose one"));
  }
  EXPECT_EQ(reprolab_nf4_use(nullptr), 0);
}

TEST(DropinProducts, AreListedAndUnknownNamesAreRefused) {
  EXPECT_STREQ(reprolab_nf4_products(),
               "few_rows\nmany_rows\nfew_rows_99kib\nsimple\nfew_rows_exact\nmany_rows_exact\n"
               "many_rows_rounded\nfew_rows_exact_99kib");
  EXPECT_STREQ(reprolab_nf4_exact_products(),
               "simple\nfew_rows_exact\nmany_rows_exact\nfew_rows_exact_99kib");
  std::uint64_t bytes = 7;
  for (const char* name : {"streaming_then_cublas", "", static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(reprolab_nf4_workspace(name, 1, 64, 128, 64, &bytes), cudaErrorInvalidValue);
    EXPECT_TRUE(contains(reprolab_nf4_error(), "no kernel"));
    EXPECT_NE((Call{.name = "reprolab_nf4_multiply", .kernel = name}()), 0);
    EXPECT_TRUE(contains(reprolab_nf4_error(), "no kernel"));
  }
  EXPECT_EQ(bytes, 7u);
  EXPECT_EQ(reprolab_nf4_workspace("simple", 3, 5, 7, 64, &bytes), cudaSuccess);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(reprolab_nf4_workspace("simple", -3, 5, 7, 64, &bytes), cudaErrorInvalidValue);
  EXPECT_TRUE(contains(reprolab_nf4_error(), "m is -3"));
  EXPECT_EQ(reprolab_nf4_workspace("simple", 3, 5, 7, 64, nullptr), cudaErrorInvalidValue);
  EXPECT_TRUE(contains(reprolab_nf4_error(), "bytes is null"));
}

/// Kernels of a plan read activations 16 bytes at a time, whatever the plan was made with.
TEST(DropinPlans, RefuseNullAndMisalignedPointersBeforeTheLaunch) {
  const reprolab_nf4_plan plan{.kernel = "toy",
                               .problem = {.nested = {}},
                               .device = 0,
                               .needs_workspace = true,
                               .launch = [](const nf4_product::Problem&, cudaStream_t) {
                                 ADD_FAILURE() << "is launched";
                                 return cudaSuccess;
                               }};
  struct Pointers {
    const void* input = address();
    void *output = address(), *workspace = address();
  };
  for (const auto& [input, output, workspace] : {Pointers{.input = nullptr},
                                                 {.input = address(8)},
                                                 {.output = nullptr},
                                                 {.output = address(1)},
                                                 {.workspace = nullptr},
                                                 {.workspace = address(8)}}) {
    EXPECT_EQ(reprolab_nf4_run(&plan, input, output, 0, workspace, nullptr), cudaErrorInvalidValue);
    EXPECT_TRUE(contains(reprolab_nf4_error(), "reprolab_nf4_run"));
  }
}

TEST(DropinErrors, BelongToTheThreadThatCalled) {
  const Call bad{.name = "cdequantize_blockwise_fp16_nf4", .n = -1};
  EXPECT_NE(bad(), 0);
  const std::string here = reprolab_nf4_error();
  std::thread([&] {
    EXPECT_STREQ(reprolab_nf4_error(), "");
    EXPECT_NE(reprolab_nf4_use("nothing"), 0);
    EXPECT_STRNE(reprolab_nf4_error(), "");
  }).join();
  EXPECT_EQ(reprolab_nf4_error(), here);
}

}  // namespace
}  // namespace reprolab::nf4
