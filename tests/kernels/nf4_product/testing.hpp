// Shared by the tests of the product kernels.
#pragma once

#include <vector>

#include "harness/nf4_product/workload.hpp"
#include "tests/kernels/testing.hpp"

namespace reprolab::nf4_product {

/// All kernels that are registered by their files, without the peers that tests add.
inline std::vector<VariantInfo> registered_kernels() {
  auto kernels = registered_variants<Problem>();
  std::erase_if(kernels, [](const VariantInfo& kernel) {
    return kernel.source_file == "kernels/nf4_product/bitsandbytes_peer.cu";
  });
  return kernels;
}

/// A product whose arrays are all there, and whose numbers nobody reads.
inline Problem a_problem() { return without_memory({.weights = {.rows = 64, .columns = 128}}); }

inline ProductWorkload make_workload(const ProductSpec& spec, int buffer_sets = 1,
                                     std::uint64_t seed = 1) {
  return {plan(spec, {}).facts, spec, seed, buffer_sets};
}

}  // namespace reprolab::nf4_product
