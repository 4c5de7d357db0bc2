// What few_rows asks of a problem, and how it is launched.
#pragma once

#include "kernels/nf4_product/few_rows.cuh"

namespace reprolab::nf4_product {

template <class Out, class Decode, bool Nested>
cudaError_t launch_few_rows(const Problem& problem, const Device& device, cudaStream_t stream) {
  const Cut cut = few_rows_cut(problem, device, sizeof(typename Decode::Entry));
  const FewRowsLayout layout(cut, problem.k, problem.block_size, sizeof(typename Decode::Entry),
                             device.shared_bytes);
  auto* const memory = static_cast<unsigned char*>(problem.workspace);
  const FewRows<Nested> work{.codes = problem.codes,
                             .input = problem.input,
                             .bias = problem.bias,
                             .output = problem.output,
                             .part_sums = {reinterpret_cast<float*>(memory + arrivals_bytes(cut)),
                                           cut.parts, problem.m, problem.n},
                             .arrivals = Arrivals::of_next_launch(memory),
                             .n = problem.n,
                             .k = problem.k,
                             .m = static_cast<int>(problem.m),
                             .cut = cut,
                             .groups = {static_cast<int>(blocks_over(problem.n, tile)), cut.groups},
                             .parts = part_shares(problem.k, cut.parts),
                             .layout = layout,
                             .scales = StageScales<Nested>(problem),
                             .table = table_of(problem)};
  const auto launch = [&]<bool RowsOfScales>() {
    const auto launch_halves = [&]<int Halves>() {
      return launch_kernel(few_rows<Out, Decode, Halves, Nested, RowsOfScales>,
                           {.blocks = std::int64_t{cut.groups} * cut.parts,
                            .threads = warps * 32,
                            .shared_bytes = layout.end,
                            .stream = stream,
                            .begins_early = begins_early(problem, device)},
                           work);
    };
    return problem.block_size < step ? launch_halves.template operator()<2>()
                                     : launch_halves.template operator()<1>();
  };
  if constexpr (!Nested) {
    if (has_rows_of_scales(problem)) return launch.template operator()<true>();
  }
  return launch.template operator()<false>();
}

template <template <class> class Decode>
cudaError_t launch_few_rows(const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  return with_types(problem, [&]<class Out, bool Nested>() {
    return launch_few_rows<Out, Decode<Out>, Nested>(problem, current_device(), stream);
  });
}

template <template <class> class Decode>
std::uint64_t few_rows_workspace(const Problem& problem) {
  return few_rows_workspace(
      problem, few_rows_cut(problem, current_device(), sizeof(typename Decode<__half>::Entry)));
}

template <template <class> class Decode>
Support supports_few_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.m > max_rows) return Support::no("takes 8 rows at most; many_rows takes more");
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  if (!is_aligned(problem.is_nested() ? static_cast<const void*>(problem.nested.codes)
                                      : static_cast<const void*>(problem.absmax))) {
    return Support::no("needs scales, or the codes of nested ones, aligned to 16 bytes");
  }
  if (problem.is_nested() && problem.nested.block_size < 256) {
    return Support::no("needs blocks of 256 nested scales or more");
  }
  if (few_rows_cut(problem, device, sizeof(typename Decode<__half>::Entry)).stages == 0) {
    return Support::no("needs 160 KiB of shared memory in a block");
  }
  return is_compiled(few_rows<__half, Decode<__half>, 1, false, false>, 80);
}

}  // namespace reprolab::nf4_product
