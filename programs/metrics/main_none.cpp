// The build without CUPTI's headers.
#include "harness/errors.hpp"

int main() {
  return reprolab::run_program("metrics", []() -> int {
    throw reprolab::UsageError(
        "built without CUPTI's range profiler: install the CUDA toolkit, 12.6 update 2 or newer "
        "(package cuda-cupti-dev), then `make clean`, and again");
  });
}
