// The contract of a kernel about its output. Includes no CUDA: result files state contracts, too.
#pragma once

#include <cstdint>

namespace reprolab {

/// Every bit of the output equals the reference's.
struct BitExact {};

/// The output differs from the reference's in a known way.
template <class Problem>
struct DeclaredDeviation {
  const char* text;  ///< The difference and its reason, in one sentence.

  /// Writes to elements [begin, end) of `host.output` exactly the bits that the kernel is declared
  /// to produce (all pointers of `host` are host memory). Elements that it does not write are those
  /// that the kernel is declared to leave unwritten.
  void (*expected_output)(const Problem& host, std::int64_t begin, std::int64_t end);
};

/// Every element lies in the interval that the family's reference proves for it, and is the same in
/// every run. For families whose kernels may differ in the order of roundings.
struct WithinBound {
  const char* text;  ///< The kernel's roundings and their order, in one sentence.
  /// The family's reading of a problem that the kernel computes, if there are several; each reading
  /// has its own interval.
  const char* reading = "";
  /// Whether a row of a batch is bit for bit the same as the row alone.
  bool independent_of_batch = false;
};

enum class ContractKind { bit_exact, declared_deviation, within_bound };

/// The contract of a kernel about its output: one of the three above.
template <class Problem>
struct Contract {
  Contract(BitExact = {}) {}
  Contract(const DeclaredDeviation<Problem>& declared)
      : kind(ContractKind::declared_deviation), deviation(declared) {}
  Contract(const WithinBound& proven) : kind(ContractKind::within_bound), bound(proven) {}

  ContractKind kind = ContractKind::bit_exact;
  DeclaredDeviation<Problem> deviation{"", nullptr};
  WithinBound bound{""};
};

}  // namespace reprolab
