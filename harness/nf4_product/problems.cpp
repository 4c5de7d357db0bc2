#include "harness/nf4_product/problems.hpp"

namespace reprolab::nf4_product {

Problem problem_of(const ProductSpec& spec, const nf4::Problem& matrix, const void* input,
                   const void* bias) {
  return {.codes = matrix.codes,
          .absmax = matrix.absmax,
          .nested = matrix.nested,
          .table = matrix.table,
          .block_size = matrix.block_size,
          .input = input,
          .bias = spec.bias ? bias : nullptr,
          .output = matrix.output,
          .m = spec.m,
          .n = spec.n(),
          .k = spec.k(),
          .type = matrix.output_type};
}

Problem without_memory(const ProductSpec& spec) {
  // Never read. Only the addresses matter.
  alignas(256) static constexpr std::uint16_t memory[nf4::max_offset + 1] = {};
  const void* const begin = memory + spec.weights.offset;
  return problem_of(spec, nf4::without_memory(spec.weights), begin, begin);
}

Offer offer(const Kernel<Problem>& kernel, Problem problem, const void* weights) {
  const Support without = kernel.supports(problem);
  if (without.ok) return {without, false};
  problem.weights = weights;
  return kernel.supports(problem).ok ? Offer{Support::yes(), true} : Offer{without, false};
}

}  // namespace reprolab::nf4_product
