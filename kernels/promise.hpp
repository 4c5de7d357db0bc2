// The promise of a kernel of any family about its output.
#pragma once

#include <string>

namespace reprolab {

/// A kernel's contract (kernels/registry.hpp), without what it is proved by.
struct Promise {
  enum class Kind { bit_exact, declared_deviation, within_bound };

  Kind kind = Kind::bit_exact;
  std::string text{};  ///< Empty where there is nothing to say: bit-exact.
  // As in WithinBound.
  std::string reading{};
  bool independent_of_batch = false;

  bool deviates() const { return kind == Kind::declared_deviation; }
};

}  // namespace reprolab
