// The arguments of few_rows, a block's barriers and its range of tiles; and how scales reach a
// stage: copied as they are, or through warps that decode them.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <type_traits>

#include "kernels/nf4_product/few_rows/tiling.hpp"

namespace reprolab::nf4_product {

/// How scales are loaded into a stage. `number`: a scale or, with nested scales, its 8-bit code.
enum class ScaleRows {
  copied,  ///< Along K, tiles are aligned to blocks of weights, or blocks to tiles, and the TMA
           ///< copies a stage's numbers to where the scales of its first K tile will be.
  whole,   ///< Tiles are aligned as above, but the decoder warps read the numbers.
  any      ///< The decoder warps find the number of each scale.
};

/// The maps are used from compute capability 9.0 on.
template <bool Nested>
struct FewRowsArguments {
  CUtensorMap codes_map;        ///< Boxes of n_tiles x a stage's K tiles.
  CUtensorMap activations_map;  ///< Boxes of tile_m x a stage's steps.
  CUtensorMap scales_map;       ///< As codes_map, for the numbers, if they are copied.
  const std::uint8_t* codes;
  const std::uint16_t* input;
  const void* bias;
  void* output;
  PartialSums partial_sums;  ///< With split-K.
  Arrivals arrivals;
  std::int64_t n, k;
  int m;
  FewRowsTiling tiling;
  Boxes boxes;
  EvenSplit n_split, k_split;  ///< How N tiles are split over blocks, and stages over slices.
  FewRowsLayout layout;
  ScaleRows scale_rows;
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// The barriers of a block: arrays with one for each stage.
struct FewRowsBarriers {
  std::uint64_t *full, *empty;
  std::uint64_t* scales_full;  ///< For copied numbers that are decoded before the stage is full.

  __device__ explicit FewRowsBarriers(unsigned char* shared)
      : full(reinterpret_cast<std::uint64_t*>(shared + barriers_begin)),
        empty(full + max_stages),
        scales_full(empty + max_stages) {}

  /// Called by one thread for each stage. `readers`: the number of warps that read it.
  __device__ void init(int stage, bool decodes_scales, int readers) const {
    init_barrier(&full[stage], (has_bulk_copies ? 1 : 32) + (decodes_scales ? 1 : 0));
    init_barrier(&empty[stage], readers);
    init_barrier(&scales_full[stage], 1);
    fence_async_proxy();
  }
};

/// The tiles of a block: n_tiles x k_tiles.
struct TileRange {
  std::int64_t first_n;
  int n_tiles, n;  ///< The last tile may be partial.
  int first_k_tile, k_tiles;

  template <bool Nested>
  __device__ TileRange(const FewRowsArguments<Nested>& args, int n_block, int slice)
      : first_n(std::int64_t{args.n_split.begin(n_block)} * tile_n),
        n_tiles(args.n_split.size(n_block)),
        first_k_tile(args.k_split.begin(slice) << args.tiling.stage_shift) {
    const auto all_k_tiles = static_cast<int>((args.k + tile_k - 1) / tile_k);
    k_tiles = min(args.k_split.size(slice) << args.tiling.stage_shift, all_k_tiles - first_k_tile);
    n = static_cast<int>(min(std::int64_t{n_tiles} * tile_n, args.n - first_n));
  }
};

/// The N tiles of a team: consecutive ones, or one of each small stage.
template <class Decode>
struct TeamTiles {
  int first, count, step;
  int place;  ///< Of the first one's sums in shared memory, after the main loop.

  template <bool Nested>
  __device__ TeamTiles(const FewRowsArguments<Nested>& args, const TileRange& range, int team) {
    if constexpr (has_small_stages<Decode>) {
      first = team, step = args.boxes.n_tiles;
      count = team < step && team < range.n_tiles ? (range.n_tiles - team - 1) / step + 1 : 0;
      place = team * args.boxes.count;
    } else {
      const EvenSplit split(range.n_tiles, teams >> args.tiling.stage_shift);
      place = first = split.begin(team), step = 1;
      count = split.size(team);
    }
  }
};

/// The scales of a stage, which the math warps read as fp32, `ScalesPerStep` for each step. A
/// number is a scale or, if nested, the code of one.
template <int ScalesPerStep, bool Nested>
struct StageScales {
  static constexpr int count = tile_steps * ScalesPerStep;  ///< Per column in a K tile.
  static constexpr int k_each = step_k / ScalesPerStep;
  static constexpr int per_copy = Nested ? 16 : 4;  ///< Numbers in 16 bytes.

  const FewRowsArguments<Nested>& args;

  __device__ bool are_copied() const {
    return has_bulk_copies && args.scale_rows == ScaleRows::copied;
  }
  /// Whether the decoder warps write them to the stage, from copied numbers or their own loads.
  __device__ bool are_decoded() const { return !are_copied() || needs_decoding(); }
  /// Whether a K tile needs at most two words of numbers and one second-level scale.
  __device__ bool are_whole() const {
    return needs_decoding() && args.scale_rows != ScaleRows::any;
  }
  __device__ bool needs_decoding() const { return Nested || 1 << args.scales.shift > k_each; }
  /// The first number of a K tile in a row of weights.
  __device__ int first_number(int k_tile) const {
    return k_tile * (tile_k / 32) >> (args.scales.shift - 5);
  }
  /// Numbers that need decoding are copied once for all K tiles of a stage, starting at a multiple
  /// of 16 bytes: as many bytes as the fp32 scales of one K tile need.
  __device__ int first_copied(int k_tile) const {
    return first_number(k_tile) / per_copy * per_copy;
  }
};

/// An array with an element per 2^shift groups of 32 weights. Groups are counted in 31 bits,
/// relative to the first.
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

/// A decoder warp, which writes the scales of a stage for each column in each K tile.
template <class Decode, int ScalesPerStep, bool Nested>
class ScaleDecoder {
  using Number = std::conditional_t<Nested, std::uint8_t, float>;
  static constexpr int count = StageScales<ScalesPerStep, Nested>::count;
  static constexpr int k_each = StageScales<ScalesPerStep, Nested>::k_each;
  static constexpr int per_copy = StageScales<ScalesPerStep, Nested>::per_copy;
  static constexpr int row_bytes = count * 4;
  /// A lane has every 32nd column, in all K tiles of a stage: up to 10 in one, or 3 in each of
  /// four; in a small stage, up to 2 in one, or 1 in each of two or four.
  static constexpr int max_rows = has_small_stages<Decode> ? 4 : 12;
  static constexpr int at_once =
      4 / ScalesPerStep;  ///< Loaded together, so that their latencies overlap.
  static_assert(has_small_stages<Decode> ? teams * tile_n <= max_rows * 32
                                         : teams * max_team_tiles * tile_n <= (max_rows - 2) * 32);

 public:
  __device__ ScaleDecoder(const FewRowsArguments<Nested>& args, const TileRange& range, int lane)
      : of_(args.scales),
        scales_{args},
        range_(range),
        map_(lane),
        numbers_(numbers(args.scales), first_group(args, range), args.scales.shift - 5),
        seconds_(args.scales.nested.absmax, first_group(args, range),
                 args.scales.shift - 5 + args.scales.second_shift),
        lane_(lane),
        stage_n_(args.layout.stage_n),
        shift_(args.tiling.stage_shift),
        row_groups_(static_cast<unsigned>(args.k / 32)),
        lane_group_(lane * row_groups_),
        lane_place_(lane * row_bytes),
        k_(args.k) {}

  /// Starts the loads of a stage for decode(): second-level scales, and numbers that are not
  /// copied. `stage`: along K. `first_column`: of the stage, from the block's first.
  __device__ void read(int stage, int first_column = 0) {
    if (!scales_.are_whole()) return;
#pragma unroll
    for (int i = 0; Nested && i < max_rows; ++i) {
      const Row row(*this, i);
      if (!row.may_be_in_stage()) break;
      if (row.exists(stage, first_column))
        second_[i] = __ldg(seconds_.at(row.group(stage, first_column)));
    }
#pragma unroll
    for (int i = 0; !scales_.are_copied() && i < max_rows; ++i) {
      const Row row(*this, i);
      if (!row.may_be_in_stage()) break;
      if (!row.exists(stage, first_column)) continue;
      const Number* const numbers = numbers_.at(row.group(stage, first_column));
      if constexpr (Nested) {
        const auto* const words = reinterpret_cast<const std::uint32_t*>(numbers);
        words_[i][0] = __ldg(words), words_[i][1] = __ldg(words + ScalesPerStep - 1);
      } else {
        words_[i][0] = __float_as_uint(__ldg(numbers));
        words_[i][1] = __float_as_uint(__ldg(numbers + has_two_words()));
      }
    }
  }

  /// Writes the scales of a stage: past the end of K, 0 or nothing.
  __device__ void decode(int stage, std::uint32_t to, int first_column = 0) {
    if (!scales_.are_whole()) {
#pragma unroll 1
      for (int i = 0; Row(*this, i).may_be_in_stage(); ++i) {
        if (const Row row(*this, i); row.exists(stage, first_column))
          read_and_decode(stage, first_column, row, to);
      }
      return;
    }
    const int first_k_tile = range_.first_k_tile + (stage << shift_);
    const int first_copied = scales_.first_copied(first_k_tile);
    // The TMA writes the numbers of a column into the space of its decoded scales of the first K
    // tile.
#pragma unroll
    for (int i = 0; scales_.are_copied() && i < max_rows; ++i) {
      const Row row(*this, i);
      if (!row.may_be_in_stage()) break;
      if (!row.is_in_stage()) continue;
      const int number = scales_.first_number(first_k_tile + row.k_tile) - first_copied;
      const std::uint32_t word = to + row.place_in_tile() + number * (16 / per_copy);
      words_[i][0] = load_shared<std::uint32_t>(word);
      if (has_two_words()) words_[i][1] = load_shared<std::uint32_t>(word + 4);
    }
#pragma unroll
    for (int first = 0; first < max_rows; first += at_once) {
      if (!Row(*this, first).may_be_in_stage()) break;
      float scales[at_once][count];
#pragma unroll
      for (int a = 0; a < at_once; ++a) {
        const std::uint32_t(&words)[2] = words_[first + a];
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if constexpr (Nested) {
            scales[a][j] = map_.entry(words[j / 4], j % 4);
          } else {
            const bool is_first = j * k_each < 1 << of_.shift;
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
        for (int j = 0; row.is_in_stage() && j < count; j += 4) {
          store_shared(to + row.place() + j * 4,
                       {scales[a][j], scales[a][j + 1], scales[a][j + 2], scales[a][j + 3]});
        }
      }
    }
  }

 private:
  /// The scales of a column in a K tile of a stage.
  struct Row {
    const ScaleDecoder& of;
    int k_tile, first_n;  ///< For lane 0.

    __device__ Row(const ScaleDecoder& of, int i)
        : of(of), k_tile(i & ((1 << of.shift_) - 1)), first_n((i >> of.shift_) * 32) {}
    __device__ int n() const { return first_n + of.lane_; }
    /// For any lane.
    __device__ bool may_be_in_stage() const { return first_n < of.stage_n_; }
    __device__ bool is_in_stage() const { return of.lane_ < of.stage_n_ - first_n; }
    __device__ bool exists(int stage, int first_column) const {
      return of.lane_ < of.range_.n - first_column - first_n &&
             k_tile < of.range_.k_tiles - (stage << of.shift_);
    }
    __device__ unsigned group(int stage, int first_column) const {
      return of.lane_group_ + static_cast<unsigned>(first_column + first_n) * of.row_groups_ +
             static_cast<unsigned>((stage << of.shift_) + k_tile) * (tile_k / 32);
    }
    __device__ std::uint32_t place_in_tile() const { return of.lane_place_ + first_n * row_bytes; }
    __device__ std::uint32_t place() const {
      return place_in_tile() + k_tile * of.stage_n_ * row_bytes;
    }
  };

  __device__ static const Number* numbers(const ScalesOf<Nested>& scales) {
    if constexpr (Nested) {
      return scales.nested.codes;
    } else {
      return scales.absmax;
    }
  }
  __device__ static std::int64_t first_group(const FewRowsArguments<Nested>& args,
                                             const TileRange& range) {
    return (range.first_n * args.k + std::int64_t{range.first_k_tile} * tile_k) / 32;
  }
  /// Otherwise one word contains all numbers of a K tile.
  __device__ bool has_two_words() const {
    return Nested ? ScalesPerStep == 2 : 1 << of_.shift < tile_k;
  }

  __device__ void read_and_decode(int stage, int first_column, const Row& row,
                                  std::uint32_t to) const {
    const int k_tile = range_.first_k_tile + (stage << shift_) + row.k_tile;
    const std::int64_t weight =
        (range_.first_n + first_column + row.n()) * k_ + std::int64_t{k_tile} * tile_k;
    const int existing = static_cast<int>(k_ / k_each) - k_tile * count;
#pragma unroll 1
    for (int j = 0; j < count; ++j) {
      const std::int64_t number = (weight + j * k_each) >> of_.shift;
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
      store_shared(to + row.place() + j * 4, scale);
    }
  }

  const ScalesOf<Nested>& of_;
  StageScales<ScalesPerStep, Nested> scales_;
  const TileRange& range_;
  SharedMap<Decode> map_;
  PerGroups<Number> numbers_;
  PerGroups<float> seconds_;
  int lane_, stage_n_, shift_;
  unsigned row_groups_, lane_group_, lane_place_;
  std::int64_t k_;
  std::uint32_t words_[max_rows][2] = {};
  float second_[max_rows] = {};
};

}  // namespace reprolab::nf4_product
