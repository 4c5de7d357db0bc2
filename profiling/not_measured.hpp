// A fault of the harness itself: no kernel is to blame.
#pragma once

#include <stdexcept>

namespace reprolab {

/// Thrown if memory for the harness's own buffers runs out, or if CUPTI loses records or refuses a
/// call. Rows that it affects are not_measured.
struct NotMeasured : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace reprolab
