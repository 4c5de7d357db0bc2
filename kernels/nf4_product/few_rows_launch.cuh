// What few_rows asks of a problem, and how it is launched.
#pragma once

#include "kernels/nf4_product/few_rows.cuh"
#include "kernels/tensor_map.hpp"

namespace reprolab::nf4_product {

/// Whether scales are not copied to a stage as the fp32 numbers that it has for each step.
inline bool needs_decoding(const Problem& problem) {
  return problem.is_nested() || problem.block_size > step;
}

/// Numbers are what scales are, or the codes of.
inline ScaleRows scale_rows(const Problem& problem, const Cut& cut) {
  const bool is_nested = problem.is_nested();
  const void* const numbers = is_nested ? static_cast<const void*>(problem.nested.codes)
                                        : static_cast<const void*>(problem.absmax);
  constexpr std::int64_t max_k = 1 << 26;  // a block's groups of weights are counted in 31 bits
  if (problem.k % unit_inputs != 0 || problem.k > max_k || !is_aligned(numbers)) {
    return ScaleRows::any;
  }
  if (is_nested && (problem.block_size > step || problem.nested.block_size < 8)) {
    return ScaleRows::any;
  }
  const int number_bytes = is_nested ? 1 : 4;
  const std::int64_t row_bytes = problem.k / problem.block_size * number_bytes;
  const bool has_rows = problem.k % problem.block_size == 0 && row_bytes % 16 == 0;
  const int stage_bytes = cut.stage_units() * unit_inputs / problem.block_size * number_bytes;
  const bool fits = !needs_decoding(problem) || stage_bytes <= unit_scales(problem.block_size) * 4;
  return has_rows && fits ? ScaleRows::copied : ScaleRows::whole;
}

template <bool Nested>
cudaError_t describe_weights(const Problem& problem, FewRows<Nested>& work) {
  const auto stage_units = static_cast<unsigned>(work.cut.stage_units());
  const auto box_outputs = static_cast<unsigned>(work.boxes.tiles * tile);
  const cudaError_t error = describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                                      .first = problem.codes,
                                      .rows = problem.n,
                                      .columns = problem.k / 2,
                                      .stride_bytes = problem.k / 2,
                                      .tile_rows = box_outputs,
                                      .tile_columns = unit_bytes,
                                      .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                                      .copied_tiles = stage_units > 1 ? stage_units : 0,
                                      .tile_bytes = unit_bytes},
                                     work.codes_map);
  if (error != cudaSuccess || work.scale_rows != ScaleRows::copied) return error;
  const std::int64_t numbers = problem.k / problem.block_size;
  const auto copied_bytes = static_cast<unsigned>(4 * unit_scales(problem.block_size));
  return describe({.type = Nested ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                   .first = Nested ? static_cast<const void*>(problem.nested.codes)
                                   : static_cast<const void*>(problem.absmax),
                   .rows = problem.n,
                   .columns = numbers,
                   .stride_bytes = numbers * (Nested ? 1 : 4),
                   .tile_rows = box_outputs,
                   .tile_columns = copied_bytes / (Nested ? 1 : 4),
                   .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                   .copied_tiles = needs_decoding(problem) ? 0 : stage_units,
                   .tile_bytes = copied_bytes},
                  work.scales_map);
}

template <bool Nested>
cudaError_t describe_activations(const Problem& problem, int rows, FewRows<Nested>& work) {
  const auto stage_units = static_cast<unsigned>(work.cut.stage_units());
  return describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
                   .first = problem.input,
                   .rows = problem.m,
                   .columns = problem.k,
                   .stride_bytes = problem.k * 2,
                   .tile_rows = static_cast<unsigned>(rows),
                   .tile_columns = step,
                   .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                   .copied_tiles = stage_units * unit_steps,
                   .tile_bytes = step_bytes},
                  work.activations_map);
}

/// A plan: all of a launch but the arrays that change from one to the next.
template <class Out, class Decode, int Halves, int RowTiles, bool Nested>
class FewRowsPlan {
 public:
  explicit FewRowsPlan(const Problem& problem) : FewRowsPlan(problem, current_device()) {}

  cudaError_t operator()(const Problem& problem, cudaStream_t stream) const {
    if (error_ != cudaSuccess) return error_;
    auto* const memory = static_cast<unsigned char*>(problem.workspace);
    FewRows<Nested> work = work_;
    work.input = static_cast<const std::uint16_t*>(problem.input);
    work.output = problem.output;
    work.part_sums = {reinterpret_cast<float*>(memory + arrivals_bytes(work.cut)), work.cut.parts,
                      problem.m, problem.n};
    work.arrivals = Arrivals::of_next_launch(memory);
    if (has_maps_) {
      const auto error = describe_activations(problem, rows, work);
      if (error != cudaSuccess) return error;
    }
    return launch_kernel(kernel,
                         {.blocks = std::int64_t{work.cut.groups} * work.cut.parts,
                          .threads = threads,
                          .shared_bytes = work.layout.end,
                          .stream = stream,
                          .begins_early = problem.weights_are_settled},
                         work);
  }

 private:
  static constexpr auto* kernel = few_rows<Out, Decode, Halves, RowTiles, Nested>;
  static constexpr int rows = RowTiles * 8;

  FewRowsPlan(const Problem& problem, const Device& device)
      : FewRowsPlan(problem, device, few_rows_cut(problem, device)) {}
  FewRowsPlan(const Problem& problem, const Device& device, const Cut& cut)
      : work_{.codes_map = {},
              .activations_map = {},
              .scales_map = {},
              .codes = problem.codes,
              .input = nullptr,
              .bias = problem.bias,
              .output = nullptr,
              .part_sums = {},
              .arrivals = {},
              .n = problem.n,
              .k = problem.k,
              .m = static_cast<int>(problem.m),
              .cut = cut,
              .boxes = Boxes(cut),
              .groups = {static_cast<int>(blocks_over(problem.n, tile)), cut.groups},
              .parts = {static_cast<int>(stages_over(problem.k, cut)), cut.parts},
              .layout =
                  FewRowsLayout(cut, rows, unit_scales(problem.block_size), device.shared_bytes),
              .scale_rows = scale_rows(problem, cut),
              .scales = ScalesOf<Nested>(problem),
              .table = table_of(problem)},
        has_maps_(device.capability >= 90) {
    if (has_maps_) error_ = describe_weights(problem, work_);
    if (error_ == cudaSuccess) error_ = allow_shared_memory(kernel, work_.layout.end);
  }

  FewRows<Nested> work_;
  bool has_maps_;
  cudaError_t error_ = cudaSuccess;
};

/// What `use` makes of the problem's plan.
template <template <class> class Decode, class Use>
auto with_few_rows_plan(const Problem& problem, const Use& use) {
  return with_types(problem, [&]<class Out, bool Nested>() {
    const auto with = [&]<int Halves>() {
      return problem.m <= 8 ? use(FewRowsPlan<Out, Decode<Out>, Halves, 1, Nested>(problem))
                            : use(FewRowsPlan<Out, Decode<Out>, Halves, 2, Nested>(problem));
    };
    return problem.block_size < step ? with.template operator()<2>()
                                     : with.template operator()<1>();
  });
}

template <template <class> class Decode>
cudaError_t launch_few_rows(const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  return with_few_rows_plan<Decode>(problem,
                                    [&](const auto& plan) { return plan(problem, stream); });
}

template <template <class> class Decode>
Launcher<Problem> plan_few_rows(const Problem& problem) {
  return with_few_rows_plan<Decode>(problem,
                                    [](const auto& plan) { return Launcher<Problem>(plan); });
}

template <template <class> class Decode>
Support supports_few_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.m > max_rows) return Support::no("takes 16 rows at most; many_rows takes more");
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  if (device.capability >= 90 && tensor_map_encoder() == nullptr) {
    return Support::no("needs a driver of CUDA 12.0 or newer");
  }
  if (!has_room({.tiles = 1}, problem, device)) {
    return Support::no("needs 147 KiB of shared memory in a block");
  }
  return is_compiled(few_rows<__half, Decode<__half>, 1, 1, false>, 80);
}

}  // namespace reprolab::nf4_product
