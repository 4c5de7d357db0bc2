// What many_rows asks of a problem, and how its launches follow one another.
#pragma once

#include "kernels/nf4_product/many_rows.cuh"

namespace reprolab::nf4_product {

/// Rows that a block takes at most. For 256 there are registers where the sums of wgmma need no
/// second place for those of one block of inputs.
template <template <class> class Decode>
int max_row_tile(const Problem& problem, const Device& device) {
  using Half = Decode<__half>;
  if constexpr (!Half::scales_sums) {
    const auto* const kernel =
        reinterpret_cast<const void*>(many_rows<__half, Half, 256, 2, false>);
    if (problem.m > 128 && device.capability == 90 && is_compiled_for(90, kernel)) return 256;
  }
  return 128;
}

template <template <class> class Decode>
std::uint64_t many_rows_workspace(const Problem& problem) {
  const Device device = current_device();
  const int rows = row_tile_of(problem, max_row_tile<Decode>(problem, device));
  const ManyRowsWorkspace workspace(problem, many_rows_cut(problem, device), rows);
  return static_cast<std::uint64_t>(workspace.arranged + workspace.part_sums);
}

template <class Out, class Decode, int Rows, int Warpgroups, bool Nested>
cudaError_t launch_many_rows(const Problem& problem, const Device& device, cudaStream_t stream) {
  const ManyRowsCut cut = many_rows_cut(problem, device);
  const ManyRowsWorkspace workspace(problem, cut, Rows);
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
  const Device device = current_device();
  return with_types(problem, [&]<class Out, bool Nested>() {
    const auto launch = [&]<int Rows, int Warpgroups>() {
      return launch_many_rows<Out, Decode<Out>, Rows, Warpgroups, Nested>(problem, device, stream);
    };
    // From 128 rows on the sums need the registers of half as many threads.
    switch (row_tile_of(problem, max_row_tile<Decode>(problem, device))) {
      case 16:
        return launch.template operator()<16, 4>();
      case 32:
        return launch.template operator()<32, 4>();
      case 64:
        return launch.template operator()<64, 4>();
      case 128:
        return launch.template operator()<128, 2>();
    }
    if constexpr (!Decode<Out>::scales_sums) return launch.template operator()<256, 2>();
    return cudaErrorInvalidValue;
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
