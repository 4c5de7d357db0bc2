// What few_rows asks of a problem, and how it is launched.
#pragma once

#include <string>

#include "kernels/nf4_product/few_rows.cuh"

namespace reprolab::nf4_product {

template <class Out, class Decode, int Rows, bool Nested>
cudaError_t launch_few_rows(const Problem& problem, const Device& device, cudaStream_t stream) {
  const Cut cut = few_rows_cut(problem, device, Rows, sizeof(typename Decode::Entry));
  const FewRowsLayout layout(cut, Rows, problem.k, problem.block_size,
                             sizeof(typename Decode::Entry), device.shared_bytes);
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
                             .scales = ScalesOf<Nested>(problem),
                             .table = table_of(problem)};
  const auto launch = [&]<int Halves, bool Regular>() {
    return launch_kernel(few_rows<Out, Decode, Rows, Halves, Nested, Regular>,
                         {.blocks = std::int64_t{cut.groups} * cut.parts,
                          .threads = warps * 32,
                          .shared_bytes = layout.end,
                          .stream = stream,
                          .begins_early = begins_early(problem, device)},
                         work);
  };
  const std::int64_t blocks = problem.n * problem.k / problem.block_size;
  const bool is_regular = problem.block_size <= step && problem.k % (part_grain * step) == 0 &&
                          (!Nested || blocks % 16 == 0) && is_aligned(work.scales.of_blocks());
  if (problem.block_size < step) {
    return is_regular ? launch.template operator()<2, true>()
                      : launch.template operator()<2, false>();
  }
  return is_regular ? launch.template operator()<1, true>()
                    : launch.template operator()<1, false>();
}

template <template <class> class Decode, int Rows = 8>
cudaError_t launch_few_rows(const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  return with_types(problem, [&]<class Out, bool Nested>() {
    return launch_few_rows<Out, Decode<Out>, Rows, Nested>(problem, current_device(), stream);
  });
}

template <template <class> class Decode, int Rows = 8>
std::uint64_t few_rows_workspace(const Problem& problem) {
  return few_rows_workspace(problem, few_rows_cut(problem, current_device(), Rows,
                                                  sizeof(typename Decode<__half>::Entry)));
}

template <template <class> class Decode, int Rows = 8>
Support supports_few_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.m > Rows) {
    return Support::no("takes " + std::to_string(Rows) + " rows at most; many_rows takes more");
  }
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  if (few_rows_cut(problem, device, Rows, sizeof(typename Decode<__half>::Entry)).stages == 0) {
    return Support::no("needs 160 KiB of shared memory in a block");
  }
  return is_compiled(few_rows<__half, Decode<__half>, Rows, 1, false, false>, 80);
}

}  // namespace reprolab::nf4_product
