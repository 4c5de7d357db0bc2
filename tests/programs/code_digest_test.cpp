// The program `code_digest`, which needs no GPU.
#include "tests/programs/program.hpp"

namespace reprolab {
namespace {

class CodeDigestProgram : public Programs {};

TEST_F(CodeDigestProgram, RefusesInOneLine) {
  for (const char* files : {"", "/nonexistent/a.so", "/dev/null"}) {
    expect_refusal(built("code_digest"), files);
  }
}

}  // namespace
}  // namespace reprolab
