// The requirements of many_rows on a problem, and its launches.
#pragma once

#include "kernels/nf4_product/many_rows/kernel.cuh"
#include "kernels/tensor_map.hpp"

namespace reprolab::nf4_product {

/// Warpgroups of a block. From an M tile of 128 on, the sums need twice the registers per thread,
/// so half as many threads fit, unless little else needs registers.
template <class Decode>
constexpr int warpgroups_of(int tile_m) {
  const bool needs_few = !Decode::scales_sums && sizeof(typename Decode::Entry) == 4;
  return tile_m < 128 || (tile_m == 128 && needs_few) ? 4 : 2;
}

/// The sums of 256 rows fit in registers if there is no second accumulator for the sums of a step.
template <class Decode>
constexpr bool supports_tile_m_256 = !Decode::scales_sums;

/// The largest M tile.
template <template <class> class Decode>
int max_tile_m(const Problem& problem, const Device& device) {
  using Half = Decode<__half>;
  if constexpr (supports_tile_m_256<Half>) {
    const auto* const kernel =
        reinterpret_cast<const void*>(many_rows<__half, Half, 256, 2, false>);
    if (problem.m > 128 && device.capability == 90 && is_compiled_for(90, kernel)) return 256;
  }
  return 128;
}

inline std::uint64_t many_rows_workspace(const Problem& problem) {
  const ManyRowsTiling tiling = many_rows_tiling(problem, current_device());
  return static_cast<std::uint64_t>(PartialTiles(tiling.split_k, problem).bytes());
}

/// A plan: everything of a launch except the arrays that change between launches.
template <class Out, class Decode, int TileM, bool Nested>
class ManyRowsPlan {
 public:
  ManyRowsPlan(const Problem& problem, const Device& device)
      : ManyRowsPlan(problem, many_rows_tiling(problem, device)) {}

  cudaError_t operator()(const Problem& problem, cudaStream_t stream) const {
    if (error_ != cudaSuccess) return error_;
    ManyRowsArguments<Nested> args = args_;
    const int split_k = args.partial_tiles.split_k;
    args.output = problem.output;
    args.partial_tiles = {split_k, problem};
    if (const auto error = describe_activations(problem, args); error != cudaSuccess) return error;
    const std::int64_t m_tiles = blocks_over(problem.m, TileM);
    // Until the previous launch has completed, it reads only codes and scales.
    const auto error = launch_kernel(kernel,
                                     {m_tiles * args.n_split.n_blocks * split_k, warpgroups * 128,
                                      layout.end(), stream, problem.weights_ready},
                                     args);
    if (error != cudaSuccess || split_k == 1) return error;
    constexpr int threads = 256;
    return launch_kernel(
        add_slices<Out>,
        {.blocks =
             blocks_over(args.partial_tiles.rows * args.partial_tiles.columns * lanes, threads),
         .threads = threads,
         .shared_bytes = 0,
         .stream = stream,
         .programmatic_launch = true},
        args.partial_tiles, problem.output, problem.bias, problem.m, problem.n);
  }

 private:
  static constexpr int warpgroups = warpgroups_of<Decode>(TileM);
  static constexpr ManyRowsLayout layout{TileM, warpgroups * 4};
  static constexpr auto* kernel = many_rows<Out, Decode, TileM, warpgroups, Nested>;

  ManyRowsPlan(const Problem& problem, const ManyRowsTiling& tiling)
      : args_{.bias = problem.bias,
              .partial_tiles = {tiling.split_k, problem},
              .m = problem.m,
              .n = problem.n,
              .k = problem.k,
              .n_split = {static_cast<int>(problem.n), tiling.n_blocks, may_share(problem)},
              .k_split = {static_cast<int>(blocks_over(problem.k, tile_k)), tiling.split_k},
              .scales = ScalesOf<Nested>(problem),
              .table = table_of(problem)} {
    error_ = describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                       .first = problem.codes,
                       .rows = problem.n,
                       .columns = problem.k / 2,
                       .stride_bytes = problem.k / 2,
                       .tile_rows = warpgroup_n,
                       .tile_columns = tile_k_bytes,
                       .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
                      args_.codes);
    if (error_ == cudaSuccess) error_ = allow_shared_memory(kernel, layout.end());
  }
  /// The shared columns of a block may be far from its own, so 31 bits must count all weights.
  static bool may_share(const Problem& problem) {
    return may_share_m(TileM) && problem.n * problem.k < std::int64_t{1} << 31;
  }
  static cudaError_t describe_activations(const Problem& problem, ManyRowsArguments<Nested>& args) {
    return describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
                     .first = problem.input,
                     .rows = problem.m,
                     .columns = problem.k,
                     .stride_bytes = problem.k * 2,
                     .tile_rows = TileM,
                     .tile_columns = step_k,
                     .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
                    args.activations);
  }

  ManyRowsArguments<Nested> args_;
  cudaError_t error_ = cudaSuccess;
};

/// Calls `use` with the problem's plan, and returns its result.
template <template <class> class Decode, class Use>
auto with_many_rows_plan(const Problem& problem, const Use& use) {
  const Device device = current_device();
  return with_types(problem, [&]<class Out, bool Nested>() {
    const auto with = [&]<int TileM>() {
      return use(ManyRowsPlan<Out, Decode<Out>, TileM, Nested>(problem, device));
    };
    switch (tile_m_of(problem, max_tile_m<Decode>(problem, device))) {
      case 16:
        return with.template operator()<16>();
      case 32:
        return with.template operator()<32>();
      case 64:
        return with.template operator()<64>();
      case 256:
        if constexpr (supports_tile_m_256<Decode<Out>>) return with.template operator()<256>();
    }
    return with.template operator()<128>();
  });
}

template <template <class> class Decode>
cudaError_t launch_many_rows(const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  return with_many_rows_plan<Decode>(problem,
                                     [&](const auto& plan) { return plan(problem, stream); });
}

template <template <class> class Decode>
Launcher<Problem> plan_many_rows(const Problem& problem) {
  return with_many_rows_plan<Decode>(problem,
                                     [](const auto& plan) { return Launcher<Problem>(plan); });
}

template <template <class> class Decode>
Support supports_many_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.block_size < step_k) return Support::no("needs blocks of 64 weights or more");
  if (device.capability < 90) return Support::no("needs compute capability 9.0 or newer");
  if (tensor_map_encoder() == nullptr) return Support::no("needs a driver of CUDA 12.0 or newer");
  if (device.shared_bytes < ManyRowsLayout::shared_bytes) {
    return Support::no("needs 227 KiB of shared memory in a block");
  }
  if (problem.k > max_k) return Support::no("needs k up to 2^26");
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  return is_compiled(many_rows<__half, Decode<__half>, 32, 4, false>, 90);
}

}  // namespace reprolab::nf4_product
