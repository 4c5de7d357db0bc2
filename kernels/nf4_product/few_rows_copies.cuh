// What few_rows is given, and how it fills the stages of its ring.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/nf4_product/few_rows_cut.hpp"

namespace reprolab::nf4_product {

/// How scales can come to a stage.
enum class ScaleRows {
  copied,  ///< Units begin at multiples of a scale's weights, or the other way round, and the
           ///< accelerator can copy the numbers of each row of weights.
  whole,   ///< The first of that.
  any
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
  Shares groups, parts;  ///< How tiles, and units of inputs, are shared.
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

  /// By one thread.
  __device__ void init(int stages, bool decodes_scales) const {
    const int fillers = (has_bulk_copies ? 1 : copiers + decoders) + (decodes_scales ? 1 : 0);
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      init_barrier(&filled[i], fillers);
      init_barrier(&used[i], warps);
      init_barrier(&copied[i], 1);
    }
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
        first_unit(work.parts.begin(part)),
        units(work.parts.size(part)) {
    outputs = static_cast<int>(min(std::int64_t{tiles} * tile, work.n - first_output));
  }
};

/// Waits for all decoders.
__device__ inline void sync_decoders() {
  asm volatile("bar.sync 1, %0;" ::"n"(decoders) : "memory");
}

/// The scales of a stage, which are used as fp32 numbers, `Halves` for each step. A number is a
/// scale or, if nested, the code of one.
template <int Halves, bool Nested>
struct StageScales {
  static constexpr int count = unit_steps * Halves;  ///< Of an output in a unit.
  static constexpr int inputs_each = step / Halves;
  static constexpr int per_copy = Nested ? 16 : 4;  ///< Numbers in 16 bytes.

  const FewRows<Nested>& work;

  __device__ bool are_copied() const {
    return has_bulk_copies && work.scale_rows == ScaleRows::copied;
  }
  /// Whether decoders write them to the stage, from what was copied or else from what they read.
  __device__ bool are_decoded() const { return !are_copied() || needs_decoding(); }
  /// Whether a decoder needs two words of numbers for a unit, or less, and one second scale.
  __device__ bool are_whole() const {
    return needs_decoding() && work.scale_rows != ScaleRows::any;
  }
  __device__ bool needs_decoding() const { return Nested || 1 << work.scales.shift > inputs_each; }
  /// A unit's first number in a row. Copies begin at multiples of 16 bytes, and have as many bytes
  /// as fp32 scales.
  __device__ int first_number(int unit) const {
    return unit * (unit_inputs / 32) >> (work.scales.shift - 5);
  }
  __device__ int first_copied(int unit) const { return first_number(unit) / per_copy * per_copy; }
};

/// What a decoder does: it writes the scales of some outputs in a unit to each stage.
template <int Halves, bool Nested>
class ScaleDecoder {
  static constexpr int count = StageScales<Halves, Nested>::count;
  static constexpr int inputs_each = StageScales<Halves, Nested>::inputs_each;
  static constexpr int per_copy = StageScales<Halves, Nested>::per_copy;
  static constexpr int most = (teams * max_team_tiles * tile + decoders - 1) / decoders;

 public:
  /// `map`: a copy of that of nested ones.
  __device__ ScaleDecoder(const FewRows<Nested>& work, const Share& share, int decoder,
                          const float* map)
      : of_(work.scales),
        scales_{work},
        decoder_(decoder),
        rows_(work.layout.outputs << work.cut.stage_shift),
        first_unit_(share.first_unit),
        stage_shift_(work.cut.stage_shift),
        map_(map) {
    const int last_step =
        min(static_cast<int>(work.k / step), (share.first_unit + share.units) * unit_steps);
#pragma unroll
    for (int i = 0; i < most; ++i) {
      int output = row(i);
      for (units_[i] = 0; output >= work.layout.outputs; output -= work.layout.outputs) {
        ++units_[i];
      }
      const int unit = share.first_unit + units_[i];
      first_[i] = (share.first_output + output) * work.k + std::int64_t{unit} * unit_inputs;
      steps_[i] = row(i) < rows_ && output < share.outputs ? last_step - unit * unit_steps : 0;
    }
  }

  /// Reads what the next decode() needs of a stage: nested second scales, and numbers that are not
  /// copied.
  __device__ void read(int stage) {
    if (!scales_.are_whole()) return;
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (existing(i, stage) <= 0) continue;
      const std::int64_t number = weight(i, stage) >> of_.shift;
      if constexpr (Nested) {
        numbers_[i].second = second_of(number);
      }
      if (scales_.are_copied()) continue;
      if constexpr (Nested) {
        const auto* const words = reinterpret_cast<const std::uint32_t*>(of_.nested.codes + number);
        numbers_[i].word = __ldg(words), numbers_[i].next = __ldg(words + Halves - 1);
      } else {
        numbers_[i].word = __float_as_uint(__ldg(of_.absmax + number));
        numbers_[i].next = __float_as_uint(__ldg(of_.absmax + number + has_next()));
      }
    }
  }

  /// Writes those of a stage.
  __device__ void decode(int stage, std::uint32_t to) {
    if (!scales_.are_whole()) {
      read_and_decode(stage, to);
      return;
    }
    // All that is read first, so that the latencies overlap.
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (!scales_.are_copied() || existing(i, stage) <= 0) continue;
      const int first = scales_.first_number(unit(i, stage)) % per_copy;
      const std::uint32_t from = to + place(i) + first * (Nested ? 1 : 4);
      numbers_[i].word = read_stage<std::uint32_t>(from);
      numbers_[i].next = has_next() ? read_stage<std::uint32_t>(from + 4) : numbers_[i].word;
    }
    float scales[most][count];
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (row(i) >= rows_) break;
      const Numbers& numbers = numbers_[i];
#pragma unroll
      for (int j = 0; j < count; ++j) {
        if constexpr (Nested) {
          scales[i][j] = map_[(j < 4 ? numbers.word : numbers.next) >> j % 4 * 8 & 0xff];
        } else {
          const bool is_first = j * inputs_each < 1 << of_.shift;
          scales[i][j] = __uint_as_float(is_first ? numbers.word : numbers.next);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (row(i) >= rows_) break;
      const bool exist = existing(i, stage) > 0;
#pragma unroll
      for (int j = 0; j < count; ++j) {
        if constexpr (Nested) {
          scales[i][j] = nf4::nested_scale(scales[i][j], numbers_[i].second, of_.nested.offset);
        }
        if (!exist) scales[i][j] = 0;
      }
      write(to + place(i), scales[i]);
    }
  }

 private:
  struct Numbers {
    std::uint32_t word = 0, next = 0;
    float second = 0;
  };

  __device__ int row(int i) const { return decoder_ + i * decoders; }
  __device__ std::uint32_t place(int i) const { return row(i) * count * 4; }
  __device__ int unit(int i, int stage) const {
    return first_unit_ + units_[i] + (stage << stage_shift_);
  }
  /// The first.
  __device__ std::int64_t weight(int i, int stage) const {
    return first_[i] + (std::int64_t{stage} << stage_shift_) * unit_inputs;
  }
  /// Scales that exist: all, if at least `count`.
  __device__ int existing(int i, int stage) const {
    return (steps_[i] - (stage << stage_shift_) * unit_steps) * Halves;
  }
  __device__ bool has_next() const { return Nested ? Halves == 2 : 1 << of_.shift < unit_inputs; }
  __device__ float second_of(std::int64_t number) const {
    return __ldg(of_.nested.absmax + (number >> of_.second_shift));
  }
  __device__ void read_and_decode(int stage, std::uint32_t to) const {
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (row(i) >= rows_) break;
#pragma unroll 1
      for (int j = 0; j < count; ++j) {
        const std::int64_t number = (weight(i, stage) + j * inputs_each) >> of_.shift;
        float scale = 0;
        if (j < existing(i, stage)) {
          if constexpr (Nested) {
            scale = nf4::nested_scale(map_[__ldg(of_.nested.codes + number)], second_of(number),
                                      of_.nested.offset);
          } else {
            scale = __ldg(of_.absmax + number);
          }
        }
        write_stage(to + place(i) + j * 4, scale);
      }
    }
  }
  __device__ static void write(std::uint32_t to, const float (&scales)[count]) {
#pragma unroll
    for (int j = 0; j < count; j += 4) {
      write_stage(to + j * 4, {scales[j], scales[j + 1], scales[j + 2], scales[j + 3]});
    }
  }

  const ScalesOf<Nested>& of_;
  StageScales<Halves, Nested> scales_;
  int decoder_, rows_, first_unit_, stage_shift_;
  const float* map_;
  int units_[most];           // of the stage, before that of a row
  std::int64_t first_[most];  // weights, of the first stage
  int steps_[most];           // of the row of weights and the part, from there on
  Numbers numbers_[most];
};

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
    std::uint64_t* const scales_filled = decodes_scales ? &barriers_.copied[at] : filled;
    const int bytes = layout_.codes_bytes + layout_.activations_bytes;
    arrive_expecting(filled, bytes + (copies_scales && !decodes_scales ? layout_.scales_bytes : 0));
    if (copies_scales && decodes_scales) arrive_expecting(scales_filled, layout_.scales_bytes);
    const int unit = first_unit(stage), stage_units = work_.cut.stage_units();
#pragma unroll 1
    for (int box = 0; box < work_.boxes.count; ++box) {
      const int output = box * work_.boxes.tiles * tile;
      const int row = static_cast<int>(share_.first_output) + output;
      const unsigned to = layout_.codes + at * layout_.codes_bytes + output * unit_bytes;
      if (stage_units == 1) {
        bulk_load_tile(to, &work_.codes_map, row, unit * unit_bytes, shared_address(filled));
      } else {  // then there is one box
        bulk_load_tiles(to, &work_.codes_map, row, unit, shared_address(filled));
      }
      if (!copies_scales) continue;
#pragma unroll 1
      for (int i = 0; i < stage_units; ++i) {
        bulk_load_tile(layout_.scales + at * layout_.scales_bytes +
                           (i * layout_.outputs + output) * scale_bytes,
                       &work_.scales_map, row, scales_.first_copied(unit + i),
                       shared_address(scales_filled));
      }
    }
  }

  /// By one thread: has it copy the activations.
  __device__ void copy_activations(int stage, int at) const {
    bulk_load_tiles(layout_.activations + at * layout_.activations_bytes, &work_.activations_map, 0,
                    first_unit(stage) * unit_steps, shared_address(&barriers_.filled[at]));
  }

  /// Below 9.0, by all copiers and decoders, of which this is number `thread`: codes and
  /// activations, in parts of 16 bytes.
  __device__ void copy_without_accelerator(int stage, int at, int thread) const {
    static_assert(unit_bytes == step_bytes);
    constexpr int row_parts = unit_bytes / 16, rows_at_once = (copiers + decoders) / row_parts;
    constexpr int rows = RowTiles * 8;
    const int p = thread % row_parts, stage_units = work_.cut.stage_units();
    for (int i = thread / row_parts; i < stage_units * layout_.outputs; i += rows_at_once) {
      const int output = i % layout_.outputs, unit = first_unit(stage) + i / layout_.outputs;
      const std::int64_t byte = std::int64_t{unit} * unit_bytes + p * 16;
      if (output >= share_.outputs) continue;
      copy_16(layout_.codes + at * layout_.codes_bytes + i * unit_bytes + (p ^ i % 8) * 16,
              work_.codes + (share_.first_output + output) * (work_.k / 2) + byte,
              byte < work_.k / 2 ? 16 : 0);
    }
    for (int i = thread / row_parts; i < stage_units * unit_steps * rows; i += rows_at_once) {
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
