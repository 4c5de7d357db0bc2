// What many_rows asks of a problem, and how its launches follow one another.
#pragma once

#include "kernels/nf4_product/many_rows.cuh"

namespace reprolab::nf4_product {

template <class Out, class Decode, int Rows, int Warpgroups, bool Nested>
cudaError_t launch_many_rows(const Problem& problem, cudaStream_t stream) {
  const Device device = current_device();
  const ManyRowsCut cut = many_rows_cut(problem, device);
  const ManyRowsWorkspace workspace(problem, cut);
  constexpr ManyRowsLayout layout(Rows, Warpgroups * 4);
  auto* const memory = static_cast<unsigned char*>(problem.workspace);
  const auto units = static_cast<int>(blocks_over(problem.k, unit_inputs));
  const ManyRows<Nested> work{.codes = problem.codes,
                              .input = problem.input,
                              .bias = problem.bias,
                              .output = problem.output,
                              .arranged = memory,
                              .part_sums = {reinterpret_cast<float*>(memory + workspace.arranged),
                                            cut.parts, problem.m, problem.n},
                              .m = problem.m,
                              .n = problem.n,
                              .k = problem.k,
                              .groups = cut.groups,
                              .units = units,
                              .activation_stages = layout.max_stages(device.shared_bytes),
                              .group_shares = {static_cast<int>(problem.n), cut.groups},
                              .part_shares = {units, cut.parts},
                              .scales = ScalesOf<Nested>(problem),
                              .table = table_of(problem)};
  const std::int64_t row_tiles = blocks_over(problem.m, Rows);
  if (const auto error =
          launch_kernel(arrange_activations<Out, Rows, Nested>,
                        {row_tiles * work.units * unit_blocks, std::min(Rows * 8, 256), 0, stream,
                         begins_early(problem, device)},
                        work);
      error != cudaSuccess) {
    return error;
  }
  // After the arrangement, which has waited, it reads nothing early but codes and scales.
  const auto error =
      launch_kernel(many_rows<Out, Decode, Rows, Warpgroups, Nested>,
                    {row_tiles * cut.groups * cut.parts, Warpgroups * 128,
                     layout.end(work.activation_stages), stream, device.capability >= 90},
                    work);
  return error != cudaSuccess ? error
                              : launch_add_parts<Out>(work.part_sums, problem, device, stream);
}

template <template <class> class Decode>
cudaError_t launch_many_rows(const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  return with_types(problem, [&]<class Out, bool Nested>() {
    // With 128 rows the sums need the registers of half as many threads.
    switch (row_tile_of(problem)) {
      case 16:
        return launch_many_rows<Out, Decode<Out>, 16, 4, Nested>(problem, stream);
      case 32:
        return launch_many_rows<Out, Decode<Out>, 32, 4, Nested>(problem, stream);
      case 64:
        return launch_many_rows<Out, Decode<Out>, 64, 4, Nested>(problem, stream);
      default:
        return launch_many_rows<Out, Decode<Out>, 128, 2, Nested>(problem, stream);
    }
  });
}

template <template <class> class Decode>
Support supports_many_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.block_size < block_inputs) return Support::no("needs blocks of 64 weights or more");
  constexpr int max_warps = 16;
  if (device.shared_bytes < ManyRowsLayout(64, max_warps).end(0)) {
    return Support::no("needs 224 KiB of shared memory in a block");
  }
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  return is_compiled(many_rows<__half, Decode<__half>, 32, 4, false>);
}

}  // namespace reprolab::nf4_product
