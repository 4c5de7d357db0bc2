// What many_rows asks of a problem, and how its launches follow one another.
#pragma once

#include "kernels/nf4_product/many_rows.cuh"
#include "kernels/tensor_map.hpp"

namespace reprolab::nf4_product {

/// Warpgroups that multiply in a block of threads. From 128 rows on the sums need the registers of
/// half as many threads, unless they are few otherwise.
template <class Decode>
constexpr int warpgroups_of(int rows) {
  const bool needs_few = !Decode::scales_sums && sizeof(typename Decode::Entry) == 4;
  return rows < 128 || (rows == 128 && needs_few) ? 4 : 2;
}

/// There are registers for the sums of 256 rows where those of one block of inputs need no second
/// place.
template <class Decode>
constexpr bool takes_256_rows = !Decode::scales_sums;

/// Rows that a block takes at most.
template <template <class> class Decode>
int max_row_tile(const Problem& problem, const Device& device) {
  using Half = Decode<__half>;
  if constexpr (takes_256_rows<Half>) {
    const auto* const kernel =
        reinterpret_cast<const void*>(many_rows<__half, Half, 256, 2, false>);
    if (problem.m > 128 && device.capability == 90 && is_compiled_for(90, kernel)) return 256;
  }
  return 128;
}

inline std::uint64_t many_rows_workspace(const Problem& problem) {
  const ManyRowsCut cut = many_rows_cut(problem, current_device());
  return static_cast<std::uint64_t>(TileSums(cut.parts, problem).bytes());
}

/// A plan: all of a launch but the arrays that change from one to the next.
template <class Out, class Decode, int Rows, bool Nested>
class ManyRowsPlan {
 public:
  ManyRowsPlan(const Problem& problem, const Device& device)
      : ManyRowsPlan(problem, many_rows_cut(problem, device)) {}

  cudaError_t operator()(const Problem& problem, cudaStream_t stream) const {
    if (error_ != cudaSuccess) return error_;
    ManyRows<Nested> work = work_;
    const int parts = work.tile_sums.parts;
    work.output = problem.output;
    work.tile_sums = {parts, problem};
    if (const auto error = describe_activations(problem, work); error != cudaSuccess) return error;
    const std::int64_t row_tiles = blocks_over(problem.m, Rows);
    // Before the launch before has ended it reads nothing but codes and scales.
    const auto error =
        launch_kernel(kernel,
                      {row_tiles * work.output_shares.groups * parts, warpgroups * 128,
                       layout.end(), stream, problem.weights_are_settled},
                      work);
    if (error != cudaSuccess || parts == 1) return error;
    constexpr int threads = 256;
    return launch_kernel(
        add_parts<Out>,
        {.blocks = blocks_over(work.tile_sums.rows * work.tile_sums.columns * lanes, threads),
         .threads = threads,
         .shared_bytes = 0,
         .stream = stream,
         .begins_early = true},
        work.tile_sums, problem.output, problem.bias, problem.m, problem.n);
  }

 private:
  static constexpr int warpgroups = warpgroups_of<Decode>(Rows);
  static constexpr ManyRowsLayout layout{Rows, warpgroups * 4};
  static constexpr auto* kernel = many_rows<Out, Decode, Rows, warpgroups, Nested>;

  ManyRowsPlan(const Problem& problem, const ManyRowsCut& cut)
      : work_{.codes = {},
              .activations = {},
              .bias = problem.bias,
              .output = nullptr,
              .tile_sums = {cut.parts, problem},
              .m = problem.m,
              .n = problem.n,
              .k = problem.k,
              .output_shares = {static_cast<int>(problem.n), cut.groups, may_share(problem)},
              .part_shares = {static_cast<int>(blocks_over(problem.k, unit_inputs)), cut.parts},
              .scales = ScalesOf<Nested>(problem),
              .table = table_of(problem)} {
    error_ = describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                       .first = problem.codes,
                       .rows = problem.n,
                       .columns = problem.k / 2,
                       .stride_bytes = problem.k / 2,
                       .tile_rows = warpgroup_outputs,
                       .tile_columns = code_pitch,
                       .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
                      work_.codes);
    if (error_ == cudaSuccess) error_ = allow_shared_memory(kernel, layout.end());
  }
  /// What a group shares may lie anywhere after its own: all weights are counted in 31 bits then.
  static bool may_share(const Problem& problem) {
    return may_share_rows(Rows) && problem.n * problem.k < std::int64_t{1} << 31;
  }
  static cudaError_t describe_activations(const Problem& problem, ManyRows<Nested>& work) {
    return describe({.type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
                     .first = problem.input,
                     .rows = problem.m,
                     .columns = problem.k,
                     .stride_bytes = problem.k * 2,
                     .tile_rows = Rows,
                     .tile_columns = block_inputs,
                     .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
                    work.activations);
  }

  ManyRows<Nested> work_;
  cudaError_t error_ = cudaSuccess;
};

/// What `use` makes of the problem's plan.
template <template <class> class Decode, class Use>
auto with_many_rows_plan(const Problem& problem, const Use& use) {
  const Device device = current_device();
  return with_types(problem, [&]<class Out, bool Nested>() {
    const auto with = [&]<int Rows>() {
      return use(ManyRowsPlan<Out, Decode<Out>, Rows, Nested>(problem, device));
    };
    switch (row_tile_of(problem, max_row_tile<Decode>(problem, device))) {
      case 16:
        return with.template operator()<16>();
      case 32:
        return with.template operator()<32>();
      case 64:
        return with.template operator()<64>();
      case 256:
        if constexpr (takes_256_rows<Decode<Out>>) return with.template operator()<256>();
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
  if (problem.block_size < block_inputs) return Support::no("needs blocks of 64 weights or more");
  if (device.capability < 90) return Support::no("needs compute capability 9.0 or newer");
  if (tensor_map_encoder() == nullptr) return Support::no("needs a driver of CUDA 12.0 or newer");
  if (device.shared_bytes < ManyRowsLayout::shared_bytes) {
    return Support::no("needs 227 KiB of shared memory in a block");
  }
  if (problem.k > max_inputs) return Support::no("needs k up to 2^26");
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  return is_compiled(many_rows<__half, Decode<__half>, 32, 4, false>, 90);
}

}  // namespace reprolab::nf4_product
