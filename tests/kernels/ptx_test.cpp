// Kernels in PTX: loaded once, launched as asked, and why not in one line.
#include "kernels/ptx_kernel.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "profiling/cuda_check.hpp"
#include "tests/kernels/testing.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

// A driver that loads what begins with ".version" and remembers what it launched.
int loads = 0;
std::array<unsigned, 3> launched;  // blocks, threads, bytes of shared memory
std::vector<std::int32_t> arguments_seen;
ModuleDriver fake_driver() {
  ModuleDriver driver;
  driver.load = [](CUmodule* module, const void* image, unsigned, CUjit_option*, void** values) {
    ++loads;
    *module = reinterpret_cast<CUmodule>(1);
    if (begins(static_cast<const char*>(image), ".version")) return CUDA_SUCCESS;
    std::snprintf(static_cast<char*>(values[0]), 64, "ptxas: line 1\x1b\nline 2");
    return CUDA_ERROR_INVALID_PTX;
  };
  driver.function = [](CUfunction* function, CUmodule, const char* name) {
    *function = reinterpret_cast<CUfunction>(2);
    return std::string_view(name) == "nf4" ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  };
  driver.launch = [](CUfunction, unsigned x, unsigned, unsigned, unsigned threads, unsigned,
                     unsigned, unsigned shared_bytes, CUstream, void** arguments, void**) {
    launched = {x, threads, shared_bytes};
    arguments_seen.push_back(*static_cast<std::int32_t*>(arguments[0]));
    EXPECT_EQ(*static_cast<void**>(arguments[1]), nullptr);
    return x == 7 ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
  };
  return driver;
}

TEST(PtxFunctions, AreLoadedOnceAndLaunchedAsAsked) {
  const OwnFolder folder;
  const ModuleDriver driver = fake_driver();
  PtxFunction function({folder.write("a.ptx", ".version 8.1").string(), "nf4", 64, 1}, 128);
  loads = 0;
  std::int32_t value = 41;
  void* const arguments[] = {&value};
  EXPECT_EQ(function.launch(5, arguments, nullptr, driver), cudaSuccess);
  EXPECT_EQ(function.launch(7, arguments, nullptr, driver), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(launched, (std::array<unsigned, 3>{7, 128, 64}));
  EXPECT_EQ(arguments_seen, (std::vector<std::int32_t>{41, 41}));
}

TEST(PtxFunctions, WhatCannotBeLoadedSaysWhyInOneLineAndIsNotLaunched) {
  const OwnFolder folder;
  const auto complaint = [&](const std::string& file, const std::string& entry,
                             const ModuleDriver& driver) {
    PtxFunction function({file, entry}, 32);
    EXPECT_EQ(function.launch(1, {}, nullptr, driver), cudaErrorInvalidKernelImage);
    return function.load(driver);
  };
  const std::string good = folder.write("good.ptx", ".version 8.1").string();
  const std::string bad = folder.write("bad.ptx", "x").string();
  EXPECT_EQ(complaint("/nonexistent/a.ptx", "nf4", fake_driver()),
            "/nonexistent/a.ptx: cannot be read");
  EXPECT_EQ(complaint(bad, "nf4", fake_driver()),
            bad + ": the driver refuses it (error 218): ptxas: line 1\\x1b");
  EXPECT_EQ(complaint(good, "other", fake_driver()), good + ": has no kernel 'other'");
  ModuleDriver none;
  none.why_not = "libcuda.so.1: not there";
  EXPECT_EQ(complaint(good, "nf4", none),
            good + ": the CUDA driver cannot be loaded: libcuda.so.1: not there");
}

TEST(LoadedPtx, SaysThatThereIsNoGpuOrWhatToCompileFor) {
  PtxKernel kernel;
  kernel.language = "mojo";
  kernel.variants[10]["plain"] = {"/nonexistent/a.ptx", "entry"};  // no GPU has capability 1.0
  LoadedPtx ptx(kernel);
  const std::string reason = ptx.supports("plain").reason;
  EXPECT_TRUE(matches(reason, "needs a GPU|is not compiled for sm_[0-9]+; make mojo ARCH=[0-9]+"));
  EXPECT_EQ(ptx.launch("plain", 1, {}, nullptr), cudaErrorNotSupported);
}

/// Written by hand: the PTX of a kernel that adds a number to each of 32 words.
constexpr const char* adds = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry adds(.param .u64 words, .param .u32 number, .param .u64 unused)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  cvta.to.global.u64 %rd1, %rd1;
  ld.param.u32 %r1, [number];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r3, [%rd3];
  add.s32 %r3, %r3, %r1;
  st.global.u32 [%rd3], %r3;
  ret;
}
)";

class OnGpuLoadedPtx : public OnGpuTest {};

TEST_F(OnGpuLoadedPtx, RunsAKernelWithNullForWhatTheFamilyDoesNotGive) {
  const OwnFolder folder;
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  std::string digits = gpu->compute_capability;
  std::erase(digits, '.');
  PtxKernel kernel;
  kernel.threads = 32;
  kernel.variants[std::stoi(digits)]["plain"] = {folder.write("adds.ptx", adds).string(), "adds", 0,
                                                 1};
  LoadedPtx ptx(kernel);
  ASSERT_EQ(ptx.supports("plain").reason, "");
  const profiling::DeviceBuffer words(32 * sizeof(std::uint32_t));
  profiling::check(cudaMemset(words.data(), 0, words.bytes()), "zeroing");
  void* memory = words.data();
  std::uint32_t number = 41;
  void* const arguments[] = {&memory, &number};
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_EQ(ptx.launch("plain", 1, arguments, nullptr), cudaSuccess);
  }
  std::vector<std::uint32_t> host(32);
  profiling::check(cudaMemcpy(host.data(), memory, words.bytes(), cudaMemcpyDeviceToHost),
                   "reading");
  EXPECT_EQ(host, std::vector<std::uint32_t>(32, 82));
}

}  // namespace
}  // namespace reprolab
