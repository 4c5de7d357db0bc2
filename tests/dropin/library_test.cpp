// What the drop-in library exports and needs, and what it answers to bad calls. Needs no GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <regex>
#include <set>
#include <thread>

#include "dropin/reprolab_nf4.h"
#include "kernels/nf4/problem.hpp"
#include "kernels/registry.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

/// An address `off` bytes behind a multiple of 256; never read.
template <class T = void>
T* address(std::uintptr_t off = 0) {
  return reinterpret_cast<T*>((std::uintptr_t{1} << 40) + off);
}

std::vector<std::string> exact_kernels() {
  std::vector<std::string> names;
  for (const VariantInfo& kernel : registered_kernels()) {
    if (!kernel.promise.deviates()) names.push_back(kernel.name);
  }
  return names;
}

/// The first group of each match of `pattern` in `text`.
std::set<std::string> all_matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    found.insert((*at)[1]);
  }
  return found;
}

class DropinFile : public Programs {};

TEST_F(DropinFile, ExportsItsCFunctionsAndNothingElse) {
  const Finished listed = run("nm", "-D --defined-only " DROPIN);
  ASSERT_EQ(listed.status, 0) << listed.err;
  const std::set<std::string> functions = {"cdequantize_blockwise_bf16_nf4",
                                           "cdequantize_blockwise_fp16_nf4",
                                           "cgemm_4bit_bf16",
                                           "cgemm_4bit_fp16",
                                           "reprolab_nf4_build",
                                           "reprolab_nf4_dequantize_nested_bf16",
                                           "reprolab_nf4_dequantize_nested_fp16",
                                           "reprolab_nf4_error",
                                           "reprolab_nf4_kernels",
                                           "reprolab_nf4_multiply_bf16",
                                           "reprolab_nf4_multiply_fp16",
                                           "reprolab_nf4_products",
                                           "reprolab_nf4_use",
                                           "reprolab_nf4_workspace"};
  EXPECT_EQ(all_matches(listed.out, "([^ ]+)\n"), functions);
}

/// What else it uses, the driver too, is inside of it or loaded on demand.
TEST_F(DropinFile, NeedsTheCLibraryAndTheCompilersAlone) {
  const Finished listed = run("readelf", "--dynamic --wide " DROPIN);
  ASSERT_EQ(listed.status, 0) << listed.err;
  const auto needed = all_matches(listed.out, R"(\(NEEDED\)[^\[]*\[([^\]]+)\])");
  EXPECT_TRUE(needed.contains("libc.so.6")) << listed.out;
  const std::regex of_these(R"((lib(c|m|dl|rt|pthread|gcc_s)|ld-linux[-\w]*)\.so\.\d)");
  for (const std::string& library : needed) {
    EXPECT_TRUE(std::regex_match(library, of_these)) << library;
  }
}

/// Arguments of any of the functions; by default good ones.
struct Call {
  std::string name;
  const unsigned char* codes = address<const unsigned char>();
  const float* absmax = address<const float>();
  const unsigned char* scale_codes = address<const unsigned char>();
  const float* map = address<const float>();
  void* out = address();
  int block_size = 64, nested_block_size = 256;
  std::int64_t n = 1000;

  int operator()() const {
    const int short_n = static_cast<int>(n);
    if (name == "cdequantize_blockwise_fp16_nf4") {
      return cdequantize_blockwise_fp16_nf4(nullptr, codes, absmax, out, block_size, short_n,
                                            nullptr);
    }
    if (name == "cdequantize_blockwise_bf16_nf4") {
      return cdequantize_blockwise_bf16_nf4(nullptr, codes, absmax, out, block_size, short_n,
                                            nullptr);
    }
    const auto nested = name == "reprolab_nf4_dequantize_nested_fp16"
                            ? reprolab_nf4_dequantize_nested_fp16
                            : reprolab_nf4_dequantize_nested_bf16;
    return nested(codes, scale_codes, map, absmax, 0.5f, out, block_size, nested_block_size, n,
                  nullptr);
  }
};

class DropinCalls : public testing::TestWithParam<const char*> {
 protected:
  bool nested() const { return std::string(GetParam()).find("nested") != std::string::npos; }

  /// Fails the test unless the call, changed by `change`, is refused for `why`.
  void expect_refused(const std::string& why, const std::function<void(Call&)>& change) const {
    Call call{.name = GetParam()};
    change(call);
    EXPECT_EQ(call(), cudaErrorInvalidValue) << why;
    EXPECT_EQ(reprolab_nf4_error(), GetParam() + (": " + why));
  }
};

TEST_P(DropinCalls, NullPointersAreRefused) {
  const char* absmax = nested() ? "absmax2 is null" : "absmax is null";
  expect_refused("A is null", [](Call& call) { call.codes = nullptr; });
  expect_refused(absmax, [](Call& call) { call.absmax = nullptr; });
  expect_refused("out is null", [](Call& call) { call.out = nullptr; });
  if (!nested()) return;
  expect_refused("absmax_codes is null", [](Call& call) { call.scale_codes = nullptr; });
  expect_refused("code2 is null", [](Call& call) { call.map = nullptr; });
}

TEST_P(DropinCalls, PointersThatAreNoMultipleOfAnElementAreRefused) {
  const char* absmax = nested() ? "absmax2" : "absmax";
  for (const int off : {1, 2, 3}) {
    expect_refused(fmt::format("{} is no multiple of 4 bytes", absmax),
                   [&](Call& call) { call.absmax = address<const float>(off); });
    if (nested()) {
      expect_refused("code2 is no multiple of 4 bytes",
                     [&](Call& call) { call.map = address<const float>(off); });
    }
  }
  expect_refused("out is no multiple of 2 bytes", [](Call& call) { call.out = address(1); });
}

TEST_P(DropinCalls, BlockSizesThatAreNoPowerOfTwoFrom32To4096AreRefused) {
  for (const int size : {INT32_MIN, -64, 0, 1, 16, 33, 63, 65, 4095, 8192, INT32_MAX}) {
    const std::string why = fmt::format("is {}; give a power of two from 32 to 4096", size);
    expect_refused("blocksize " + why, [&](Call& call) { call.block_size = size; });
    if (!nested()) continue;
    expect_refused("blocksize2 " + why, [&](Call& call) { call.nested_block_size = size; });
  }
}

TEST_P(DropinCalls, NegativeLengthsAreRefused) {
  for (const int n : {-1, INT32_MIN}) {
    expect_refused(fmt::format("n is {}; give 0 or more", n), [&](Call& call) { call.n = n; });
  }
}

TEST_P(DropinCalls, MoreWeightsThanAGridCoversAreRefused) {
  if (!nested()) return;  // an int counts fewer
  for (const std::int64_t n : {std::int64_t{1} << 39, std::int64_t{1} << 62, INT64_MAX}) {
    EXPECT_EQ((Call{.name = GetParam(), .n = n}()), cudaErrorNotSupported);
    EXPECT_EQ(
        reprolab_nf4_error(),
        GetParam() + std::string(": streaming: a grid has blocks for 2^39 - 256 weights at most"));
  }
}

TEST_P(DropinCalls, NoWeightsAreNoErrorWhateverThePointers) {
  Call{.name = GetParam(), .out = nullptr}();
  EXPECT_STRNE(reprolab_nf4_error(), "");
  const Call nothing{.name = GetParam(),
                     .codes = nullptr,
                     .absmax = nullptr,
                     .scale_codes = nullptr,
                     .map = nullptr,
                     .out = address(1),
                     .n = 0};
  EXPECT_EQ(nothing(), cudaSuccess);
  EXPECT_STREQ(reprolab_nf4_error(), "");
}

/// What the call's error is on a machine whose GPUs cannot be seen; ends the process.
void call_without_gpu(const Call& call, const char* kernel) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  if (reprolab_nf4_use(kernel) != 0) std::exit(2);
  std::exit(call() != 0 && std::fputs(reprolab_nf4_error(), stderr) >= 0 ? 1 : 0);
}

/// In a process of its own, because CUDA looks for GPUs once.
void expect_launch_failure(const Call& call, const char* kernel, const std::string& answering) {
  EXPECT_EXIT(
      call_without_gpu(call, kernel), testing::ExitedWithCode(1),
      fmt::format("^{}: launching {} failed: .+ \\(CUDA error [0-9]+\\)$", call.name, answering));
}

TEST_P(DropinCalls, WithoutAGpuALaunchIsAnErrorAndNoFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_launch_failure({.name = GetParam()}, nullptr, "streaming");
}

INSTANTIATE_TEST_SUITE_P(Functions, DropinCalls,
                         testing::Values("cdequantize_blockwise_fp16_nf4",
                                         "cdequantize_blockwise_bf16_nf4",
                                         "reprolab_nf4_dequantize_nested_fp16",
                                         "reprolab_nf4_dequantize_nested_bf16"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DropinKernels, AreTheBitExactOnes) {
  EXPECT_EQ(reprolab_nf4_kernels(), fmt::format("{}", fmt::join(exact_kernels(), "\n")));
}

TEST(DropinKernels, AnswerWhenTheyAreChosenAndWhereTheySupportTheCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Call aligned{.name = "cdequantize_blockwise_fp16_nf4"};
  Call shifted = aligned;
  shifted.codes = address<const unsigned char>(1);
  shifted.absmax = address<const float>(4);
  shifted.out = address(2);
  for (const std::string& kernel : exact_kernels()) {
    expect_launch_failure(aligned, kernel.c_str(), kernel);
    const Problem problem{.codes = shifted.codes,
                          .absmax = shifted.absmax,
                          .nested = {},
                          .table = reference::standard_table,
                          .n = shifted.n,
                          .output = shifted.out};
    const bool supported = kernel_named<Problem>(kernel).supports(problem).ok;
    expect_launch_failure(shifted, kernel.c_str(), supported ? kernel : "streaming");
  }
}

/// Chooses another kernel, then `good`, fails to choose `bad`, and launches.
void choose_and_call(const char* good, const char* bad) {
  if (reprolab_nf4_use("branch_tree") != 0 || reprolab_nf4_use(good) != 0 ||
      reprolab_nf4_use(bad) == 0) {
    std::exit(2);
  }
  call_without_gpu({.name = "cdequantize_blockwise_fp16_nf4"}, good);
}

TEST(DropinKernels, ThatCannotBeChosenLeaveTheChoiceAsItWas) {
  const std::string choices = fmt::format("{}", fmt::join(exact_kernels(), ", "));
  const auto expect_refused = [&](const char* name, const std::string& why) {
    EXPECT_EQ(reprolab_nf4_use(name), cudaErrorInvalidValue);
    EXPECT_EQ(reprolab_nf4_error(),
              fmt::format("reprolab_nf4_use: {}; choose one of {}", why, choices));
  };
  expect_refused("", "'': there is none of that name");
  expect_refused("Streaming", "'Streaming': there is none of that name");
  expect_refused("a\nb", "'a\\x0ab': there is none of that name");
  expect_refused("packed_512_as_published", "'packed_512_as_published': it is not bit-exact");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(choose_and_call("shared_lut", "nothing"), testing::ExitedWithCode(1),
              "launching shared_lut failed");
  EXPECT_EXIT(choose_and_call(nullptr, "shared_lut_algorithm1"), testing::ExitedWithCode(1),
              "launching streaming failed");
}

TEST(DropinErrors, AreOfTheThreadThatMadeThem) {
  const Call good{.name = "cdequantize_blockwise_fp16_nf4", .n = 0};
  const Call bad{.name = "cdequantize_blockwise_fp16_nf4", .n = -1};
  EXPECT_NE(bad(), 0);
  const std::string here = reprolab_nf4_error();
  std::thread([&] {
    EXPECT_STREQ(reprolab_nf4_error(), "");
    EXPECT_EQ(good(), 0);
    EXPECT_NE(reprolab_nf4_use("nothing"), 0);
    EXPECT_TRUE(begins(reprolab_nf4_error(), "reprolab_nf4_use: "));
  }).join();
  EXPECT_EQ(reprolab_nf4_error(), here);
}

}  // namespace
}  // namespace reprolab::nf4
