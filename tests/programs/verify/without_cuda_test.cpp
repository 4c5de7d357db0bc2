// verify in a build without CUDA, which has no kernels.
#include "tests/programs/program.hpp"

namespace reprolab {
namespace {

class VerifyWithoutCuda : public Programs {};

TEST_F(VerifyWithoutCuda, RefusesKernelsAndPeers) {
  for (const char* option : {"--kernel shared_lut", "--peer a.so"}) {
    expect_refusal(built("verify"), std::string(GOLDEN_FILE " ") + option);
  }
}

}  // namespace
}  // namespace reprolab
