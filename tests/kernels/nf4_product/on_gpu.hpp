// How the GPU tests run a product kernel on data.
#pragma once

#include "tests/kernels/nf4_product/testing.hpp"
#include "tests/kernels/on_gpu.hpp"

namespace reprolab::nf4_product {

inline ProductWorkload make_workload(const ProductSpec& spec, int buffer_sets = 1,
                                     std::uint64_t seed = 1) {
  return {plan(spec, {}).facts, spec, seed, buffer_sets};
}

/// Fails the test unless every one of `kernels` is within its bound on `spec`, or refuses it.
inline void expect_promised(const Proof& proof, const std::vector<VariantInfo>& kernels,
                            const ProductSpec& spec, int buffer_sets = 1) {
  const ProductWorkload workload = make_workload(spec, buffer_sets);
  for (const VariantInfo& kernel : kernels) {
    const bool runs = workload.supports(kernel.name).ok;
    const Verification found = proof.verify(kernel, workload);
    EXPECT_EQ(name(found.outcome), name(runs ? Outcome::within_bound : Outcome::unsupported))
        << kernel.name << " on " << spec.name() << ": " << found.reason;
  }
}

}  // namespace reprolab::nf4_product
