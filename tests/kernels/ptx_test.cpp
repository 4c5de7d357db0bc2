// Kernels in PTX: loaded once, launched with their arguments, and errors as one line.
#include "kernels/ptx_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "tests/temporary_folder.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

// A driver that loads texts starting with ".version" and records its launches.
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

TEST(PtxFunctions, AreLoadedOnceAndLaunchedWithTheArguments) {
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

TEST(PtxFunctions, InvalidCodeHasAReasonAndIsNotLaunched) {
  const OwnFolder folder;
  const auto complaint = [&](const std::string& file, const std::string& entry,
                             const ModuleDriver& driver) {
    PtxFunction function({file, entry}, 32);
    EXPECT_EQ(function.launch(1, {}, nullptr, driver), cudaErrorInvalidKernelImage);
    return function.load(driver);
  };
  const std::string good = folder.write("good.ptx", ".version 8.1").string();
  const std::string bad = folder.write("bad.ptx", "x").string();
  EXPECT_TRUE(
      begins(complaint("/nonexistent/a.ptx", "nf4", fake_driver()), "/nonexistent/a.ptx: "));
  const std::string refused = complaint(bad, "nf4", fake_driver());
  EXPECT_TRUE(begins(refused, bad + ": "));
  EXPECT_TRUE(ends(refused, "(error 218): ptxas: line 1\\x1b"));
  EXPECT_TRUE(ends(complaint(good, "other", fake_driver()), "'other'"));
  ModuleDriver none;
  none.why_not = "libcuda.so.1: missing";
  EXPECT_TRUE(ends(complaint(good, "nf4", none), ": libcuda.so.1: missing"));
}

TEST(LoadedPtx, NamesTheMissingGpuOrTheTargetToCompileFor) {
  PtxKernel kernel;
  kernel.language = "mojo";
  kernel.variants[10]["plain"] = {"/nonexistent/a.ptx", "entry"};  // no GPU has capability 1.0
  LoadedPtx ptx(kernel);
  const std::string reason = ptx.supports("plain").reason;
  EXPECT_TRUE(matches(reason, "needs a GPU|is not compiled for sm_[0-9]+; make mojo ARCH=[0-9]+"));
  EXPECT_EQ(ptx.launch("plain", 1, {}, nullptr), cudaErrorNotSupported);
}

}  // namespace
}  // namespace reprolab
