// How few_rows fills the stages of its ring.
#pragma once

#include "kernels/nf4_product/few_rows_scales.cuh"

namespace reprolab::nf4_product {

/// How a stage of the ring is filled with codes, scales and activations.
template <int Halves, int RowTiles, bool Nested>
class StageCopies {
  static constexpr int scale_bytes = unit_steps * Halves * 4;  ///< Of an output, in a unit.

 public:
  __device__ StageCopies(const FewRows<Nested>& work, const Share& share,
                         const FewRowsBarriers& barriers, const StageScales<Halves, Nested>& scales)
      : work_(work), layout_(work.layout), share_(share), barriers_(barriers), scales_(scales) {}

  /// By one thread: has the accelerator copy codes and scales of a stage to place `at`.
  __device__ void copy_weights(int stage, int at) const {
    const bool copies_scales = scales_.are_copied(), decodes_scales = scales_.are_decoded();
    std::uint64_t* const filled = &barriers_.filled[at];
    std::uint64_t* const copied = &barriers_.copied[at];
    const int bytes = layout_.codes_bytes + layout_.activations_bytes;
    arrive_expecting(filled, bytes + (copies_scales && !decodes_scales ? layout_.scales_bytes : 0));
    if (copies_scales && decodes_scales) arrive_expecting(copied, layout_.outputs * scale_bytes);
    const int unit = first_unit(stage);
#pragma unroll 1
    for (int box = 0; box < work_.boxes.count; ++box) {
      const int output = box * work_.boxes.tiles * tile;
      const int row = static_cast<int>(share_.first_output) + output;
      const unsigned codes = layout_.codes + at * layout_.codes_bytes + output * unit_bytes;
      if (work_.cut.stage_shift == 0) {
        bulk_load_tile(codes, &work_.codes_map, row, unit * unit_bytes, shared_address(filled));
      } else {  // then there is one box
        bulk_load_tiles(codes, &work_.codes_map, row, unit, shared_address(filled));
      }
      if (!copies_scales) continue;
      const unsigned scales = layout_.scales + at * layout_.scales_bytes + output * scale_bytes;
      if (decodes_scales) {
        bulk_load_tile(scales, &work_.scales_map, row, scales_.first_copied(unit),
                       shared_address(copied));
      } else {
        bulk_load_tiles(scales, &work_.scales_map, row, unit, shared_address(filled));
      }
    }
  }

  /// By one thread: has it copy the activations.
  __device__ void copy_activations(int stage, int at) const {
    bulk_load_tiles(layout_.activations + at * layout_.activations_bytes, &work_.activations_map, 0,
                    first_unit(stage) * unit_steps, shared_address(&barriers_.filled[at]));
  }

  /// Below 9.0, by a warp: codes and activations, in parts of 16 bytes.
  __device__ void copy_without_accelerator(int stage, int at, int lane) const {
    static_assert(unit_bytes == step_bytes);
    constexpr int row_parts = unit_bytes / 16, rows_at_once = 32 / row_parts;
    constexpr int rows = RowTiles * 8;
    const int p = lane % row_parts, stage_units = work_.cut.stage_units();
    for (int i = lane / row_parts; i < stage_units * layout_.outputs; i += rows_at_once) {
      const int output = i % layout_.outputs, unit = first_unit(stage) + i / layout_.outputs;
      const std::int64_t byte = std::int64_t{unit} * unit_bytes + p * 16;
      if (output >= share_.outputs) continue;
      copy_16(layout_.codes + at * layout_.codes_bytes + i * unit_bytes + (p ^ i % 8) * 16,
              work_.codes + (share_.first_output + output) * (work_.k / 2) + byte,
              byte < work_.k / 2 ? 16 : 0);
    }
    for (int i = lane / row_parts; i < stage_units * unit_steps * rows; i += rows_at_once) {
      const int row = i % rows;
      const std::int64_t in_row =
          (std::int64_t{first_unit(stage)} * unit_steps + i / rows) * step + p * 8;
      const bool exists = row < work_.m && in_row < work_.k;
      copy_16(layout_.activations + at * layout_.activations_bytes + i * step_bytes +
                  (p ^ row % 8) * 16,
              work_.input + (exists ? row * work_.k + in_row : 0), exists ? 16 : 0);
    }
    arrive_after_copies(&barriers_.filled[at]);
  }

 private:
  __device__ int first_unit(int stage) const {
    return share_.first_unit + (stage << work_.cut.stage_shift);
  }

  const FewRows<Nested>& work_;
  const FewRowsLayout& layout_;
  const Share& share_;
  const FewRowsBarriers& barriers_;
  const StageScales<Halves, Nested>& scales_;
};

}  // namespace reprolab::nf4_product
