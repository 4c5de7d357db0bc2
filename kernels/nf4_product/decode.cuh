// From codes to the operands of a matrix multiplication, by a table in shared memory that a whole
// byte of codes looks up: two weights by one permutation of bytes and one read.
#pragma once

#include <cstdint>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/scales.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "kernels/nf4_product/ptx.cuh"

namespace reprolab::nf4_product {

/// A table has a row for every byte, and in a row a column for every lane, so that no two lanes
/// read the same bank. With rows of 256 bytes the offset of an entry is the byte of codes above the
/// lane's own byte: one permutation makes it. GPUs with 100 KiB of shared memory get rows of half
/// the length where entries are 4 bytes long.
inline constexpr int table_rows = 256, lanes = 32;
inline constexpr int row_bytes = 256;

/// Multiplies by the table's entries, rounded to 16 bits, and scales the sum over a block of
/// weights in fp32. In fp16 an entry is wrong by 2^-12 of itself at most, in bf16 by 2^-9: there as
/// much as a weight that was rounded once.
template <class Out>
struct ScaledSums {
  static constexpr bool scales_sums = true;
  using Entry = std::uint32_t;

  __device__ static Entry entry(float first, float second) { return pair_of<Out>(first, second); }
  __device__ static std::uint32_t weights(Entry entry, float) { return entry; }
};

/// Multiplies by exactly the 16-bit weights that dequantization writes.
template <class Out>
struct DequantizedWeights {
  static constexpr bool scales_sums = false;
  using Entry = float2;

  __device__ static Entry entry(float first, float second) { return {first, second}; }
  __device__ static std::uint32_t weights(Entry entry, float scale) {
    return pair_of<Out>(nf4::scaled(entry.x, scale), nf4::scaled(entry.y, scale));
  }
};

/// Writes the table, by all threads of a block; a barrier must follow.
template <class Decode>
__device__ void fill_table(unsigned char* table, const nf4::Table& values) {
  using Entry = typename Decode::Entry;
  constexpr int per_store = 16 / sizeof(Entry), stores = lanes / per_store;
  for (int byte = threadIdx.x; byte < table_rows; byte += blockDim.x) {
    const Entry entry = Decode::entry(values.entry[byte / 16], values.entry[byte % 16]);
    union {
      Entry entries[per_store];
      uint4 bits;
    } copies;
    for (int i = 0; i < per_store; ++i) copies.entries[i] = entry;
    for (int i = 0; i < stores; ++i) {
      const int column = (i + byte) % stores;  // neighbouring threads write other banks
      *reinterpret_cast<uint4*>(table + byte * row_bytes + column * 16) = copies.bits;
    }
  }
}

/// Looks bytes of codes up in the column of the table that belongs to this lane.
template <class Decode>
class LaneTable {
 public:
  __device__ LaneTable(const unsigned char* table, int lane)
      : table_(address_in_shared(table)), column_(lane * sizeof(typename Decode::Entry)) {}

  /// The pair of weights whose codes are byte `Byte` (0..3) of `word`.
  template <int Byte>
  __device__ std::uint32_t weights(std::uint32_t word, float scale) const {
    constexpr unsigned above_column = 0x5504 | Byte << 4;
    const std::uint32_t offset = permuted(word, column_, above_column);
    return Decode::weights(read_shared<typename Decode::Entry>(table_ + offset), scale);
  }

 private:
  std::uint32_t table_, column_;
};

/// The scale of each block of weights, plain or nested, read in two steps so that the first can be
/// under way for long.
struct Scales {
  const float* absmax = nullptr;
  nf4::NestedScales nested;
  int shift = 0, second_shift = 0;  ///< log2 of weights per scale, and of scales per second one.

  struct Loaded {
    float plain_or_second = 0;
    std::uint32_t code = 0;
  };

  explicit Scales(const Problem& problem)
      : absmax(problem.absmax),
        nested(problem.nested),
        shift(nf4::log2_exact(problem.block_size)),
        second_shift(nf4::log2_exact(problem.nested.block_size)) {}

  __device__ Loaded load(std::int64_t weight) const {
    const std::int64_t block = weight >> shift;
    if (nested.codes == nullptr) return {__ldg(absmax + block), 0};
    return {__ldg(nested.absmax + (block >> second_shift)), __ldg(nested.codes + block)};
  }
  __device__ float value(Loaded loaded) const {
    if (nested.codes == nullptr) return loaded.plain_or_second;
    return nf4::nested_scale(__ldg(nested.map + loaded.code), loaded.plain_or_second,
                             nested.offset);
  }
  /// Asks L2 for the scales of weights [begin, end): lane `lane` of `count` for its share.
  __device__ void prefetch(std::int64_t begin, std::int64_t end, int lane, int count) const {
    constexpr std::int64_t line = 128;
    const char* first = nested.codes == nullptr
                            ? reinterpret_cast<const char*>(absmax + (begin >> shift))
                            : reinterpret_cast<const char*>(nested.codes + (begin >> shift));
    const std::int64_t bytes =
        (((end - 1) >> shift) - (begin >> shift) + 1) * (nested.codes == nullptr ? 4 : 1);
    for (std::int64_t i = lane * line; i < bytes + line - 1; i += count * line) {
      prefetch_line(first + (i < bytes ? i : bytes - 1));
    }
  }
};

}  // namespace reprolab::nf4_product
