// The contract of a kernel about its output, for kernels of any family.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "kernels/contract.hpp"

namespace reprolab {

/// A kernel's contract (kernels/contract.hpp), without its proof.
struct Promise {
  using Kind = ContractKind;

  Kind kind = Kind::bit_exact;
  std::string text{};  ///< Empty if bit-exact.
  // As in WithinBound.
  std::string reading{};
  bool independent_of_batch = false;

  bool deviates() const { return kind == Kind::declared_deviation; }
};

/// Names in descriptions, in the order of ContractKind.
inline constexpr std::array<std::string_view, 3> contract_names = {
    "bit_exact", "declared_deviation", "within_bound"};

}  // namespace reprolab
