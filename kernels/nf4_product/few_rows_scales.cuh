// How few_rows' scales come to a stage: as they lie, or through warps that decode them.
#pragma once

#include <type_traits>

#include "kernels/nf4_product/few_rows_work.cuh"

namespace reprolab::nf4_product {

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
  /// A lane has every 32nd output, in all units of a stage: up to 10 in one, or 3 in each of four.
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

}  // namespace reprolab::nf4_product
