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

  /// By one thread.
  __device__ void init(int stages, bool decodes_scales) const {
    const int fillers = (has_bulk_copies ? 1 : 32) + (decodes_scales ? 1 : 0);
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
        first_unit(work.parts.begin(part) << work.cut.stage_shift) {
    const auto all_units = static_cast<int>((work.k + unit_inputs - 1) / unit_inputs);
    units = min(work.parts.size(part) << work.cut.stage_shift, all_units - first_unit);
    outputs = static_cast<int>(min(std::int64_t{tiles} * tile, work.n - first_output));
  }
};

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
  /// A unit's first number in a row.
  __device__ int first_number(int unit) const {
    return unit * (unit_inputs / 32) >> (work.scales.shift - 5);
  }
  /// Those that need decoding are copied once for all units of a stage, from a multiple of 16
  /// bytes on: as many bytes as the fp32 scales of a unit have.
  __device__ int first_copied(int unit) const { return first_number(unit) / per_copy * per_copy; }
};

/// An array that has an element for each of 2^shift groups of 32 weights. Groups are counted in 31
/// bits from a first one on.
template <class T>
class PerGroups {
 public:
  __device__ PerGroups(const T* array, std::int64_t first_group, int shift)
      : first_(array + (first_group >> shift)),
        before_(static_cast<unsigned>(first_group - (first_group >> shift << shift))),
        shift_(shift) {}
  __device__ const T* at(unsigned group) const { return first_ + ((before_ + group) >> shift_); }

 private:
  const T* first_;
  unsigned before_;
  int shift_;
};

/// What a warp of decoders does: it writes the scales of a stage, of each output in each unit.
template <class Entry, int Halves, bool Nested>
class ScaleDecoder {
  using Number = std::conditional_t<Nested, std::uint8_t, float>;
  static constexpr int count = StageScales<Halves, Nested>::count;
  static constexpr int inputs_each = StageScales<Halves, Nested>::inputs_each;
  static constexpr int per_copy = StageScales<Halves, Nested>::per_copy;
  static constexpr int row_bytes = count * 4;
  /// A lane has every 32nd output, in all units of a stage.
  static constexpr int most = 12;
  static constexpr int at_once = 4 / Halves;  ///< So that their latencies overlap.
  static_assert(teams * max_team_tiles * tile <= (most - 2) * 32);

 public:
  __device__ ScaleDecoder(const FewRows<Nested>& work, const Share& share, int lane)
      : of_(work.scales),
        scales_{work},
        share_(share),
        map_(lane),
        numbers_(numbers(work.scales), first_group(work, share), work.scales.shift - 5),
        seconds_(work.scales.nested.absmax, first_group(work, share),
                 work.scales.shift - 5 + work.scales.second_shift),
        lane_(lane),
        outputs_(work.layout.outputs),
        shift_(work.cut.stage_shift),
        row_groups_(static_cast<unsigned>(work.k / 32)),
        lanes_group_(lane * row_groups_),
        lanes_place_(lane * row_bytes),
        k_(work.k) {}

  /// Begins to read what decode() will need of a stage: nested second scales, and numbers that are
  /// not copied.
  __device__ void read(int stage) {
    if (!scales_.are_whole()) return;
#pragma unroll
    for (int i = 0; Nested && i < most; ++i) {
      const Row row(*this, i);
      if (!row.may_be_in_block()) break;
      if (row.exists(stage)) second_[i] = __ldg(seconds_.at(row.group(stage)));
    }
#pragma unroll
    for (int i = 0; !scales_.are_copied() && i < most; ++i) {
      const Row row(*this, i);
      if (!row.may_be_in_block()) break;
      if (!row.exists(stage)) continue;
      const Number* const numbers = numbers_.at(row.group(stage));
      if constexpr (Nested) {
        const auto* const words = reinterpret_cast<const std::uint32_t*>(numbers);
        words_[i][0] = __ldg(words), words_[i][1] = __ldg(words + Halves - 1);
      } else {
        words_[i][0] = __float_as_uint(__ldg(numbers));
        words_[i][1] = __float_as_uint(__ldg(numbers + has_two_words()));
      }
    }
  }

  /// Writes those of a stage. What does not exist is not written, or 0 where others of a unit do.
  __device__ void decode(int stage, std::uint32_t to) {
    if (!scales_.are_whole()) {
#pragma unroll 1
      for (int i = 0; Row(*this, i).may_be_in_block(); ++i) {
        if (const Row row(*this, i); row.exists(stage)) read_and_decode(stage, row, to);
      }
      return;
    }
    const int first_unit = share_.first_unit + (stage << shift_);
    const int first_copied = scales_.first_copied(first_unit);
    // What was copied of an output is where its scales in the first unit will be.
#pragma unroll
    for (int i = 0; scales_.are_copied() && i < most; ++i) {
      const Row row(*this, i);
      if (!row.may_be_in_block()) break;
      if (!row.is_in_block()) continue;
      const int number = scales_.first_number(first_unit + row.unit) - first_copied;
      const std::uint32_t word = to + row.place_in_unit() + number * (16 / per_copy);
      words_[i][0] = read_stage<std::uint32_t>(word);
      if (has_two_words()) words_[i][1] = read_stage<std::uint32_t>(word + 4);
    }
#pragma unroll
    for (int first = 0; first < most; first += at_once) {
      if (!Row(*this, first).may_be_in_block()) break;
      float scales[at_once][count];
#pragma unroll
      for (int a = 0; a < at_once; ++a) {
        const std::uint32_t(&words)[2] = words_[first + a];
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if constexpr (Nested) {
            scales[a][j] = map_.entry(words[j / 4], j % 4);
          } else {
            const bool is_first = j * inputs_each < 1 << of_.shift;
            scales[a][j] = __uint_as_float(is_first ? words[0] : words[1]);
          }
        }
      }
#pragma unroll
      for (int a = 0; a < at_once; ++a) {
        const Row row(*this, first + a);
#pragma unroll
        for (int j = 0; Nested && j < count; ++j) {
          scales[a][j] = nf4::nested_scale(scales[a][j], second_[first + a], of_.nested.offset);
        }
#pragma unroll
        for (int j = 0; row.is_in_block() && j < count; j += 4) {
          write_stage(to + row.place() + j * 4,
                      {scales[a][j], scales[a][j + 1], scales[a][j + 2], scales[a][j + 3]});
        }
      }
    }
  }

 private:
  /// The scales of an output in a unit of a stage.
  struct Row {
    const ScaleDecoder& of;
    int unit, first_output;  ///< That of lane 0.

    __device__ Row(const ScaleDecoder& of, int i)
        : of(of), unit(i & ((1 << of.shift_) - 1)), first_output((i >> of.shift_) * 32) {}
    __device__ int output() const { return first_output + of.lane_; }
    /// Of any lane.
    __device__ bool may_be_in_block() const { return first_output < of.outputs_; }
    __device__ bool is_in_block() const { return of.lane_ < of.outputs_ - first_output; }
    __device__ bool exists(int stage) const {
      return of.lane_ < of.share_.outputs - first_output &&
             unit < of.share_.units - (stage << of.shift_);
    }
    __device__ unsigned group(int stage) const {
      return of.lanes_group_ + static_cast<unsigned>(first_output) * of.row_groups_ +
             static_cast<unsigned>((stage << of.shift_) + unit) * (unit_inputs / 32);
    }
    __device__ std::uint32_t place_in_unit() const {
      return of.lanes_place_ + first_output * row_bytes;
    }
    __device__ std::uint32_t place() const {
      return place_in_unit() + unit * of.outputs_ * row_bytes;
    }
  };

  __device__ static const Number* numbers(const ScalesOf<Nested>& scales) {
    if constexpr (Nested) {
      return scales.nested.codes;
    } else {
      return scales.absmax;
    }
  }
  __device__ static std::int64_t first_group(const FewRows<Nested>& work, const Share& share) {
    return (share.first_output * work.k + std::int64_t{share.first_unit} * unit_inputs) / 32;
  }
  /// Else one word has all of a row's numbers.
  __device__ bool has_two_words() const {
    return Nested ? Halves == 2 : 1 << of_.shift < unit_inputs;
  }

  __device__ void read_and_decode(int stage, const Row& row, std::uint32_t to) const {
    const int unit = share_.first_unit + (stage << shift_) + row.unit;
    const std::int64_t weight =
        (share_.first_output + row.output()) * k_ + std::int64_t{unit} * unit_inputs;
    const int existing = static_cast<int>(k_ / inputs_each) - unit * count;
#pragma unroll 1
    for (int j = 0; j < count; ++j) {
      const std::int64_t number = (weight + j * inputs_each) >> of_.shift;
      float scale = 0;
      if (j < existing) {
        if constexpr (Nested) {
          scale = nf4::nested_scale(map_.entry(__ldg(of_.nested.codes + number), 0),
                                    __ldg(of_.nested.absmax + (number >> of_.second_shift)),
                                    of_.nested.offset);
        } else {
          scale = __ldg(of_.absmax + number);
        }
      }
      write_stage(to + row.place() + j * 4, scale);
    }
  }

  const ScalesOf<Nested>& of_;
  StageScales<Halves, Nested> scales_;
  const Share& share_;
  SharedMap<Entry> map_;
  PerGroups<Number> numbers_;
  PerGroups<float> seconds_;
  int lane_, outputs_, shift_;
  unsigned row_groups_, lanes_group_, lanes_place_;
  std::int64_t k_;
  std::uint32_t words_[most][2] = {};
  float second_[most] = {};
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
