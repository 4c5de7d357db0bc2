// What few_rows is given, and what a block owns of it.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/nf4_product/few_rows_cut.hpp"

namespace reprolab::nf4_product {

/// How scales can come to a stage.
enum class ScaleRows {
  copied,  ///< Units begin at multiples of a scale's weights, or the other way round, and the
           ///< accelerator can copy the numbers that a stage needs of each row of weights to where
           ///< the scales of its first unit will be.
  whole,   ///< Units begin as above, but decoders read the numbers themselves.
  any      ///< Decoders look for each scale by itself.
};

/// What the kernel is given. The accelerator's maps are used from compute capability 9.0 on.
template <bool Nested>
struct FewRows {
  CUtensorMap codes_map;        ///< In boxes of outputs and a stage's units.
  CUtensorMap activations_map;  ///< In tiles of rows and a stage's steps.
  CUtensorMap scales_map;       ///< Likewise of codes, if scales are copied: of numbers.
  const std::uint8_t* codes;
  const std::uint16_t* input;
  const void* bias;
  void* output;
  PartSums part_sums;  ///< If there are several.
  Arrivals arrivals;
  std::int64_t n, k;
  int m;
  Cut cut;
  Boxes boxes;
  Shares groups, parts;  ///< How tiles, and stages of inputs, are shared.
  FewRowsLayout layout;
  ScaleRows scale_rows;
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// The barriers of a block, one of each for each stage.
struct FewRowsBarriers {
  std::uint64_t *filled, *used;
  std::uint64_t* copied;  ///< Scales that are decoded before the stage counts as filled.

  __device__ explicit FewRowsBarriers(unsigned char* shared)
      : filled(reinterpret_cast<std::uint64_t*>(shared + barriers_begin)),
        used(filled + max_stages),
        copied(used + max_stages) {}

  /// Those of a stage, by one thread.
  __device__ void init(int stage, bool decodes_scales) const {
    init_barrier(&filled[stage], (has_bulk_copies ? 1 : 32) + (decodes_scales ? 1 : 0));
    init_barrier(&used[stage], warps);
    init_barrier(&copied[stage], 1);
    order_before_bulk_copies();
  }
};

/// What a block owns.
struct Share {
  std::int64_t first_output;
  int tiles, outputs;  ///< The last tile may not be whole.
  int first_unit, units;

  template <bool Nested>
  __device__ Share(const FewRows<Nested>& work, int group, int part)
      : first_output(std::int64_t{work.groups.begin(group)} * tile),
        tiles(work.groups.size(group)),
        first_unit(work.parts.begin(part) << work.cut.stage_shift) {
    const auto all_units = static_cast<int>((work.k + unit_inputs - 1) / unit_inputs);
    units = min(work.parts.size(part) << work.cut.stage_shift, all_units - first_unit);
    outputs = static_cast<int>(min(std::int64_t{tiles} * tile, work.n - first_output));
  }
};

}  // namespace reprolab::nf4_product
