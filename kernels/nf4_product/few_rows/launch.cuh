// The requirements of few_rows on a problem, and its launch.
#pragma once

#include "kernels/nf4_product/few_rows/kernel.cuh"
#include "kernels/tensor_map.hpp"

namespace reprolab::nf4_product {

/// Whether the numbers need decoding: they are not the fp32 scales that a stage has for each step.
inline bool needs_decoding(const Problem& problem) {
  return problem.is_nested() || problem.block_size > step_k;
}

inline ScaleRows scale_rows(const Problem& problem, const FewRowsTiling& tiling) {
  const bool is_nested = problem.is_nested();
  const void* const numbers = is_nested ? static_cast<const void*>(problem.nested.codes)
                                        : static_cast<const void*>(problem.absmax);
  constexpr std::int64_t max_k = 1 << 26;  // a block's groups of weights are counted in 31 bits
  if (problem.k % tile_k != 0 || problem.k > max_k || !is_aligned(numbers)) {
    return ScaleRows::any;
  }
  if (is_nested && (problem.block_size > step_k || problem.nested.block_size < 8)) {
    return ScaleRows::any;
  }
  const int number_bytes = is_nested ? 1 : 4;
  const std::int64_t row_bytes = problem.k / problem.block_size * number_bytes;
  const bool has_rows = problem.k % problem.block_size == 0 && row_bytes % 16 == 0;
  const int stage_bytes = tiling.stage_k_tiles() * tile_k / problem.block_size * number_bytes;
  const bool fits = !needs_decoding(problem) || stage_bytes <= tile_scales(problem.block_size) * 4;
  return has_rows && fits ? ScaleRows::copied : ScaleRows::whole;
}

template <bool Nested>
cudaError_t describe_weights(const Problem& problem, FewRowsArguments<Nested>& args) {
  const auto stage_k_tiles = static_cast<unsigned>(args.tiling.stage_k_tiles());
  const auto box_n = static_cast<unsigned>(args.boxes.n_tiles * tile_n);
  const cudaError_t error = describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                                      .first = problem.codes,
                                      .rows = problem.n,
                                      .columns = problem.k / 2,
                                      .stride_bytes = problem.k / 2,
                                      .tile_rows = box_n,
                                      .tile_columns = tile_k_bytes,
                                      .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                                      .copied_tiles = stage_k_tiles > 1 ? stage_k_tiles : 0,
                                      .tile_bytes = tile_k_bytes},
                                     args.codes_map);
  if (error != cudaSuccess || args.scale_rows != ScaleRows::copied) return error;
  const std::int64_t numbers = problem.k / problem.block_size;
  const auto copied_bytes = static_cast<unsigned>(4 * tile_scales(problem.block_size));
  return describe({.type = Nested ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                   .first = Nested ? static_cast<const void*>(problem.nested.codes)
                                   : static_cast<const void*>(problem.absmax),
                   .rows = problem.n,
                   .columns = numbers,
                   .stride_bytes = numbers * (Nested ? 1 : 4),
                   .tile_rows = box_n,
                   .tile_columns = copied_bytes / (Nested ? 1 : 4),
                   .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                   .copied_tiles = needs_decoding(problem) ? 0 : stage_k_tiles,
                   .tile_bytes = copied_bytes},
                  args.scales_map);
}

template <bool Nested>
cudaError_t describe_activations(const Problem& problem, int tile_m,
                                 FewRowsArguments<Nested>& args) {
  const auto stage_k_tiles = static_cast<unsigned>(args.tiling.stage_k_tiles());
  return describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
                   .first = problem.input,
                   .rows = problem.m,
                   .columns = problem.k,
                   .stride_bytes = problem.k * 2,
                   .tile_rows = static_cast<unsigned>(tile_m),
                   .tile_columns = step_k,
                   .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                   .copied_tiles = stage_k_tiles * tile_steps,
                   .tile_bytes = step_bytes},
                  args.activations_map);
}

/// A plan: everything of a launch except the arrays that change between launches.
template <class Out, class Decode, int ScalesPerStep, int MTiles, bool Nested>
class FewRowsPlan {
 public:
  explicit FewRowsPlan(const Problem& problem)
      : args_(arguments_of(problem, current_device())),
        has_maps_(current_device().capability >= 90) {
    if (has_maps_) error_ = describe_weights(problem, args_);
    if (error_ == cudaSuccess) error_ = allow_shared_memory(kernel, args_.layout.end);
  }

  cudaError_t operator()(const Problem& problem, cudaStream_t stream) const {
    if (error_ != cudaSuccess) return error_;
    auto* const memory = static_cast<unsigned char*>(problem.workspace);
    FewRowsArguments<Nested> args = args_;
    args.input = static_cast<const std::uint16_t*>(problem.input);
    args.output = problem.output;
    args.partial_sums = {reinterpret_cast<float*>(memory + arrivals_bytes(args.tiling)),
                         args.tiling.split_k, problem.m, problem.n};
    args.arrivals = Arrivals::of_next_launch(memory);
    if (has_maps_) {
      const auto error = describe_activations(problem, tile_m, args);
      if (error != cudaSuccess) return error;
    }
    return launch_kernel(kernel,
                         {.blocks = std::int64_t{args.tiling.n_blocks} * args.tiling.split_k,
                          .threads = threads,
                          .shared_bytes = args.layout.end,
                          .stream = stream,
                          .programmatic_launch = problem.weights_ready},
                         args);
  }

 private:
  static constexpr auto* kernel = few_rows<Out, Decode, ScalesPerStep, MTiles, Nested>;
  static constexpr int tile_m = MTiles * 8;

  static FewRowsArguments<Nested> arguments_of(const Problem& problem, const Device& device) {
    const StageMemory memory = stage_memory<Decode>(device);
    const FewRowsTiling tiling = few_rows_tiling(problem, device, memory);
    return {.codes = problem.codes,
            .bias = problem.bias,
            .n = problem.n,
            .k = problem.k,
            .m = static_cast<int>(problem.m),
            .tiling = tiling,
            .boxes = Boxes(tiling, memory.has_small_stages),
            .n_split = {static_cast<int>(blocks_over(problem.n, tile_n)), tiling.n_blocks},
            .k_split = {static_cast<int>(stages_over(problem.k, tiling)), tiling.split_k},
            .layout = FewRowsLayout(tiling, tile_m, tile_scales(problem.block_size), memory),
            .scale_rows = scale_rows(problem, tiling),
            .scales = ScalesOf<Nested>(problem),
            .table = table_of(problem)};
  }

  FewRowsArguments<Nested> args_;
  bool has_maps_;
  cudaError_t error_ = cudaSuccess;
};

/// Calls `use` with the problem's plan, and returns its result.
template <template <class> class Decode, class Use>
auto with_few_rows_plan(const Problem& problem, const Use& use) {
  return with_types(problem, [&]<class Out, bool Nested>() {
    const auto with = [&]<int ScalesPerStep>() {
      return problem.m <= 8 ? use(FewRowsPlan<Out, Decode<Out>, ScalesPerStep, 1, Nested>(problem))
                            : use(FewRowsPlan<Out, Decode<Out>, ScalesPerStep, 2, Nested>(problem));
    };
    return problem.block_size < step_k ? with.template operator()<2>()
                                       : with.template operator()<1>();
  });
}

/// The rows from `first` on, as many as one launch multiplies.
inline Problem slice_of_m(const Problem& problem, std::int64_t first) {
  Problem slice = problem;
  slice.m = std::min<std::int64_t>(max_m, problem.m - first);
  // The launch before that of a later slice does not write weights.
  slice.weights_ready = problem.weights_ready || first > 0;
  slice.input = static_cast<const std::uint16_t*>(problem.input) + first * problem.k;
  slice.output = static_cast<std::uint16_t*>(problem.output) + first * problem.n;
  return slice;
}

template <class Decode>
std::uint64_t few_rows_workspace(const Problem& problem) {
  const Device device = current_device();
  const FewRowsTiling tiling =
      few_rows_tiling(slice_of_m(problem, 0), device, stage_memory<Decode>(device));
  if (tiling.split_k <= 1) return 0;
  return static_cast<std::uint64_t>(
      arrivals_bytes(tiling) +
      PartialSums::bytes(tiling.split_k, slice_of_m(problem, 0).m, problem.n));
}

/// One launch after the other for slices of 16 rows, in the same workspace.
template <template <class> class Decode>
Launcher<Problem> plan_few_rows(const Problem& problem) {
  const auto plan_of = [](const Problem& slice) {
    return with_few_rows_plan<Decode>(slice,
                                      [](const auto& plan) { return Launcher<Problem>(plan); });
  };
  if (problem.m <= max_m) return plan_of(problem);
  const std::int64_t last = (problem.m - 1) / max_m * max_m;
  return [last, first_plan = plan_of(slice_of_m(problem, 0)),
          last_plan = plan_of(slice_of_m(problem, last))](const Problem& launched,
                                                          cudaStream_t stream) {
    for (std::int64_t first = 0; first < last; first += max_m) {
      const auto error = first_plan(slice_of_m(launched, first), stream);
      if (error != cudaSuccess) return error;
    }
    return last_plan(slice_of_m(launched, last), stream);
  };
}

template <template <class> class Decode>
cudaError_t launch_few_rows(const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  if (problem.m > max_m) return plan_few_rows<Decode>(problem)(problem, stream);
  return with_few_rows_plan<Decode>(problem,
                                    [&](const auto& plan) { return plan(problem, stream); });
}

template <template <class> class Decode>
Support supports_few_rows_in_slices(const Problem& problem) {
  const Device device = current_device();
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  if (device.capability >= 90 && tensor_map_encoder() == nullptr) {
    return Support::no("needs a driver of CUDA 12.0 or newer");
  }
  if (max_block_tiles(problem, stage_memory<Decode<__half>>(device)) == 0) {
    return Support::no(
        Decode<__half>::has_small_table
            ? "needs 90 KiB of shared memory in a block"
            : "needs 122 KiB of shared memory in a block; few_rows_99kib needs less");
  }
  return is_compiled(few_rows<__half, Decode<__half>, 1, 1, false>, 80);
}

template <template <class> class Decode>
Support supports_few_rows(const Problem& problem) {
  if (problem.m > max_m) return Support::no("supports M <= 16; many_rows supports more");
  return supports_few_rows_in_slices<Decode>(problem);
}

}  // namespace reprolab::nf4_product
