// Shared by the tests of the product kernels.
#pragma once

#include <vector>

#include "harness/nf4_product/workload.hpp"
#include "tests/kernels/testing.hpp"

namespace reprolab::nf4_product {

inline std::vector<VariantInfo> registered_kernels() { return kernels_of_files<Problem>(); }

inline ProductWorkload make_workload(const ProductSpec& spec, int buffer_sets = 1,
                                     std::uint64_t seed = 1) {
  return {plan(spec, {}).facts, spec, seed, buffer_sets};
}

}  // namespace reprolab::nf4_product
