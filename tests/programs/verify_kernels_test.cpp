// verify in the CUDA build: its kernels, or why none runs. Its other tests are in tests/verify.
#include "profiling/machine.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

class VerifyKernels : public Programs {
 protected:
  void expect_refused(const std::string& arguments, const std::string& line) const {
    expect_refusal(VERIFY, GOLDEN_FILE " " + arguments, "verify: " + line);
  }
};

TEST_F(VerifyKernels, WithoutADeviceTheReferenceIsStillProven) {
  const Finished found = run_without_gpu(VERIFY, GOLDEN_FILE);
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(has_match(found.out, "\nkernels: none run \\(no device: [^\n]*\\)\n"));
  EXPECT_TRUE(has_match(found.out, "\n  reference  bit_exact 86\n"));
}

TEST_F(VerifyKernels, WithoutADeviceAskingForKernelsIsRefused) {
  const Finished found = run_without_gpu(VERIFY, GOLDEN_FILE " --kernel 'shared*'");
  EXPECT_EQ(found.status, 2);
  EXPECT_TRUE(matches(found.err, "verify: --kernel and --peer need a GPU: no device: [^\n]*\n"));
}

TEST_F(VerifyKernels, BadSelectionsAreRefusedInOneLine) {
  expect_refused("--kernel nothing", no_such_kernel("nothing", {"nf4"}));
  expect_refused("--peer /nonexistent/a.so",
                 "peer /nonexistent/a.so: no such file; give the path of "
                 "libbitsandbytes_cuda*.so");
}

class OnGpuVerifyKernels : public VerifyKernels {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::find_gpu(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }
};

/// Compares what bitsandbytes itself wrote with every kernel.
TEST_F(OnGpuVerifyKernels, EveryKernelIsAsPromisedOnTheGoldenVectors) {
  const Finished found = run(VERIFY, GOLDEN_FILE);
  EXPECT_EQ(found.status, 0) << found.out;
  EXPECT_EQ(found.err, "");
  for (const auto& kernel : kernel_names_in_cuda("nf4")) {
    EXPECT_TRUE(has_match(found.out, fmt::format("\n  {} +bit_exact [0-9]+", kernel)));
  }
  for (const char* kernel : {"branch_tree", "shared_lut", "packed_store", "streaming"}) {
    EXPECT_TRUE(has_match(found.out, fmt::format("\n  {} +bit_exact 86\n", kernel)));
  }
  EXPECT_TRUE(has_match(found.out, "\n  shared_lut_algorithm1 .*deviation_as_declared "));
}

}  // namespace
}  // namespace reprolab
