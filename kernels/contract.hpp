// The contract of a kernel about its output, for kernels of any family. Includes nothing: each
// kernel's file has it, and result files, which know no CUDA.
#pragma once

namespace reprolab {

/// Where a kernel states none, every bit of its output equals the reference's. Texts live as long
/// as the process.
struct Contract {
  enum class Kind { bit_exact, declared_deviation, within_bound };

  Kind kind = Kind::bit_exact;
  const char* text = "";  ///< In one sentence; empty if bit-exact.
  /// For a bound: the reading of the problem that the kernel computes, if the family has several;
  /// each reading has its own interval.
  const char* reading = "";
  /// For a bound: whether a row of a batch is bit for bit the same as the row alone.
  bool independent_of_batch = false;

  bool deviates() const { return kind == Kind::declared_deviation; }
};

/// The output differs from the reference's in a known way, exactly as Kernel::expected_output says.
struct DeclaredDeviation {
  const char* text;  ///< The difference and its reason.
  constexpr operator Contract() const { return {Contract::Kind::declared_deviation, text}; }
};

/// Every element lies in the interval that the family's reference proves for it, and is the same in
/// every run. For families whose kernels may differ in the order of roundings.
struct WithinBound {
  const char* text;  ///< The kernel's roundings and their order.
  const char* reading = "";
  bool independent_of_batch = false;
  constexpr operator Contract() const {
    return {Contract::Kind::within_bound, text, reading, independent_of_batch};
  }
};

}  // namespace reprolab
