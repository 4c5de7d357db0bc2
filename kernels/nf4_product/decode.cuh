// Decodes codes to the operands of a matrix multiplication, by a table in shared memory that is
// indexed by a whole byte of codes: two weights by one permutation of bytes and one read.
#pragma once

#include <cstdint>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/scales.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "kernels/nf4_product/ptx.cuh"

namespace reprolab::nf4_product {

/// The start of a block's own shared memory: CUDA reserves one KiB per block (CUDA C++ Programming
/// Guide, "Compute Capabilities"), which may be the first.
inline constexpr int shared_begin = 1024;

/// Shared memory of a block: barriers; the table; the map of nested scales; then the stages of the
/// pipeline, from a multiple of 1024 on. The table has a row for every byte of codes, and in a row
/// a column for every lane, so that no two lanes read the same bank. Rows have 256 bytes, so that
/// one permutation of bytes makes an entry's address.
inline constexpr int barriers_begin = shared_begin;
inline constexpr int table_rows = 256, lanes = 32, row_bytes = 256;
inline constexpr int table_begin = barriers_begin + 1024;
inline constexpr int map_begin = table_begin + table_rows * row_bytes;
inline constexpr int stages_begin = map_begin + 1024;

/// A table of half the size has two entries in a row: that of a byte, and that of the byte with its
/// upper bit set. What follows it begins earlier.
inline constexpr int small_table_saves = table_rows / 2 * row_bytes;
template <class Decode>
inline constexpr int map_begin_of = map_begin - (Decode::has_small_table ? small_table_saves : 0);
template <class Decode>
inline constexpr int stages_begin_of = stages_begin -
                                       (Decode::has_small_table ? small_table_saves : 0);

/// Address 0 of shared memory. Layouts hold addresses of shared memory.
__device__ inline unsigned char* shared_origin(unsigned char* dynamic) {
  const std::uint32_t begin = shared_address(dynamic);
  if (begin > shared_begin) __trap();
  return dynamic - begin;
}

/// Multiplies by the table's entries, rounded to 16 bits, and scales the sum over a block of
/// weights in fp32. The relative error of an entry is at most 2^-12 in fp16, and 2^-9 in bf16,
/// where it equals the error of a weight that was rounded once.
template <class Out>
struct ScaledSums {
  static constexpr bool scales_sums = true, has_small_table = false;
  using Entry = std::uint32_t;
  using Scale = float;

  __device__ static Entry entry(float first, float second) {
    return nf4::packed<Out>(first, second);
  }
  __device__ static Scale scale(float scale) { return scale; }
  __device__ static std::uint32_t weights(Entry entry, Scale) { return entry; }
};

/// Rounds the table's entries, the scale, and their product to 16 bits: a weight may differ by one
/// or two units in the last place from one that was rounded once.
template <class Out>
struct RoundedProducts {
  static constexpr bool scales_sums = false, has_small_table = false;
  using Entry = std::uint32_t;
  using Scale = std::uint32_t;  ///< Twice.

  __device__ static Entry entry(float first, float second) {
    return nf4::packed<Out>(first, second);
  }
  __device__ static Scale scale(float scale) { return nf4::packed<Out>(scale, scale); }
  __device__ static std::uint32_t weights(Entry entry, Scale scale) {
    return multiply_pairs<Out>(entry, scale);
  }
};

/// Multiplies by exactly the 16-bit weights that dequantization writes.
template <class Out>
struct DequantizedWeights {
  static constexpr bool scales_sums = false, has_small_table = false;
  using Entry = float2;
  using Scale = float;

  __device__ static Entry entry(float first, float second) { return {first, second}; }
  __device__ static Scale scale(float scale) { return scale; }
  __device__ static std::uint32_t weights(Entry entry, Scale scale) {
    return nf4::packed<Out>(nf4::scaled(entry.x, scale), nf4::scaled(entry.y, scale));
  }
};

/// The same weights by a table of half the size, whose addresses take half an instruction more for
/// each byte. A column serves one lane or, if an entry has 8 bytes, two: half a warp at a time
/// loads 8 bytes per lane, so there are no bank conflicts.
template <class Decode>
struct SmallTable : Decode {
  static constexpr bool has_small_table = true;
};

/// The arrays of all scales.
template <bool Nested>
struct ScalesOf {
  const float* absmax;
  nf4::NestedScales nested;
  int shift, second_shift;  ///< log2 of weights per scale, and of scales per nested scale.

  explicit ScalesOf(const Problem& problem)
      : absmax(problem.absmax),
        nested(problem.nested),
        shift(nf4::log2_exact(problem.block_size)),
        second_shift(nf4::log2_exact(problem.nested.block_size)) {}
};

/// Writes the table, by the first 256 threads of a block or more; a barrier must follow.
template <class Decode>
__device__ void fill_table(unsigned char* table, const nf4::Table& values) {
  using Entry = typename Decode::Entry;
  constexpr bool is_small = Decode::has_small_table;
  constexpr int per_store = 16 / sizeof(Entry);
  constexpr int stores = is_small ? row_bytes / 2 / 16 : lanes / per_store;
  const float own = values.entry[threadIdx.x % 16];
  // The shuffle keeps 8-byte entries in registers; without it nvcc reloads them from kernel
  // parameters before each store, with divergent addresses, which serializes the warp. 4-byte
  // entries are not reloaded, and need fewer registers without the shuffle.
  const auto value = [&](int code) {
    return sizeof(Entry) == 8 ? __shfl_sync(~0u, own, code) : values.entry[code];
  };
  for (int byte = threadIdx.x; byte < table_rows; byte += blockDim.x) {
    const Entry entry = Decode::entry(value(byte / 16), value(threadIdx.x % 16));
    union {
      Entry entries[per_store];
      uint4 bits;
    } copies;
    for (int i = 0; i < per_store; ++i) copies.entries[i] = entry;
    for (int i = 0; i < stores; ++i) {
      const int column = (i + byte) % stores;  // neighbouring threads write different banks
      const int place =
          is_small ? byte % 128 * row_bytes + byte / 128 * (row_bytes / 2) : byte * row_bytes;
      *reinterpret_cast<uint4*>(table + place + column * 16) = copies.bits;
    }
  }
}

/// Loads 4 or 8 bytes at an offset in the table.
template <class T>
__device__ T read_table(std::uint32_t place) {
  T value;
  if constexpr (sizeof(T) == 4) {
    std::uint32_t bits;
    asm("ld.shared.b32 %0, [%1 + %2];" : "=r"(bits) : "r"(place), "n"(table_begin));
    value = bits;
  } else {
    asm("ld.shared.v2.f32 {%0, %1}, [%2 + %3];"
        : "=f"(value.x), "=f"(value.y)
        : "r"(place), "n"(table_begin));
  }
  return value;
}

/// Selects the row of the table that byte `byte` (0..3) of a word of codes looks up.
__device__ constexpr unsigned row_of_byte(unsigned byte) { return 0x7604 | byte << 4; }

/// Looks up bytes of codes in this lane's column of the table.
template <class Decode>
class LaneTable {
  using Entry = typename Decode::Entry;
  using Scale = typename Decode::Scale;

 public:
  __device__ explicit LaneTable(int lane) : first_(first_of(lane)) { keep(first_); }

  /// The same for the byte of the lane's position in its quad.
  __device__ unsigned row_of_own_byte() const { return row_of_byte(first_ / sizeof(Entry) % 4); }

  /// The pair of weights whose codes are a byte of `word`.
  __device__ std::uint32_t weights(std::uint32_t word, unsigned row_of_byte, Scale scale) const {
    return Decode::weights(read_table<Entry>(__byte_perm(word, first_, row_of_byte)), scale);
  }

  /// The 16 x 16 operand of weights whose codes are bytes `FirstByte` and the next of two words:
  /// `upper` has those of the lane's row of the operand, `lower` those 8 rows below it.
  template <int FirstByte>
  __device__ void decode(std::uint32_t (&weights_of)[4], std::uint32_t upper, std::uint32_t lower,
                         Scale upper_scale, Scale lower_scale) const {
    if constexpr (Decode::has_small_table) {
      weights_of[0] = Decode::weights(small_entry<FirstByte>(upper), upper_scale);
      weights_of[1] = Decode::weights(small_entry<FirstByte>(lower), lower_scale);
      weights_of[2] = Decode::weights(small_entry<FirstByte + 1>(upper), upper_scale);
      weights_of[3] = Decode::weights(small_entry<FirstByte + 1>(lower), lower_scale);
      return;
    }
    weights_of[0] = weights(upper, row_of_byte(FirstByte), upper_scale);
    weights_of[1] = weights(lower, row_of_byte(FirstByte), lower_scale);
    weights_of[2] = weights(upper, row_of_byte(FirstByte + 1), upper_scale);
    weights_of[3] = weights(lower, row_of_byte(FirstByte + 1), lower_scale);
  }
  /// The same for one byte of each of two words: the lane's own.
  __device__ void decode(std::uint32_t (&weights_of)[4], uint2 upper, uint2 lower,
                         unsigned row_of_own_byte, Scale upper_scale, Scale lower_scale) const {
    weights_of[0] = weights(upper.x, row_of_own_byte, upper_scale);
    weights_of[1] = weights(lower.x, row_of_own_byte, lower_scale);
    weights_of[2] = weights(upper.y, row_of_own_byte, upper_scale);
    weights_of[3] = weights(lower.y, row_of_own_byte, lower_scale);
  }

 private:
  /// The offset of the lane's column in a row; in a small table four times, in bytes below 128.
  __device__ static std::uint32_t first_of(int lane) {
    if constexpr (!Decode::has_small_table) return lane * sizeof(Entry);
    constexpr int columns = row_bytes / 2 / sizeof(Entry);
    return lane % columns * static_cast<int>(sizeof(Entry)) * 0x01010101u;
  }
  /// The entry of byte `Byte` of a word of codes, in a small table. Its lower seven bits select the
  /// row, its upper bit one of the row's two entries.
  template <int Byte>
  __device__ Entry small_entry(std::uint32_t word) const {
    const std::uint32_t rows = word & 0x7f7f7f7f, in_row = (word & 0x80808080) | first_;
    // `rows` has no byte with an upper bit, so its replicated sign is 0.
    return read_table<Entry>(permute_signed<0x8800 | Byte << 4 | (4 + Byte)>(rows, in_row));
  }

  std::uint32_t first_;
};

/// The same in registers, for entries of two 16-bit numbers: no loads from shared memory, but three
/// times as many instructions. A code selects a byte in __byte_perm(), which uses three bits of the
/// code; so the table has two halves, and the fourth bit selects one.
template <class Decode>
class RegisterTable {
 public:
  using Scale = typename Decode::Scale;
  static constexpr bool fits = sizeof(typename Decode::Entry) == 4;

  __device__ RegisterTable(const nf4::Table& values, int lane)
      : own_bytes_(0x40 + 0x11 * (static_cast<unsigned>(lane) % 4)) {
    if constexpr (fits) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t first = Decode::entry(values.entry[i * 4], values.entry[i * 4 + 1]);
        const std::uint32_t second =
            Decode::entry(values.entry[i * 4 + 2], values.entry[i * 4 + 3]);
        low_[i] = __byte_perm(first, second, 0x6420);
        high_[i] = __byte_perm(first, second, 0x7531);
      }
    }
  }
  /// As LaneTable::decode(), for the lane's own byte of each word.
  __device__ void decode(std::uint32_t (&weights_of)[4], uint2 upper, uint2 lower,
                         Scale upper_scale, Scale lower_scale) const {
    if constexpr (fits) {
      const std::uint32_t codes = __byte_perm(__byte_perm(upper.x, lower.x, own_bytes_),
                                              __byte_perm(upper.y, lower.y, own_bytes_), 0x5410);
      const std::uint32_t in_half = codes & 0x77777777, half = codes >> 3 & 0x11111111;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::uint32_t place = in_half >> i * 16;
        const std::uint32_t is_second = __byte_perm(0xff00, 0, half >> i * 16);  // bytes of 0 or ff
        const auto bytes = [&](const std::uint32_t(&table)[4]) {
          return (__byte_perm(table[0], table[1], place) & ~is_second) |
                 (__byte_perm(table[2], table[3], place) & is_second);
        };
        const std::uint32_t low = bytes(low_), high = bytes(high_);
        // The first weight's code is the upper four bits.
        weights_of[i * 2] = Decode::weights(__byte_perm(low, high, 0x4051), upper_scale);
        weights_of[i * 2 + 1] = Decode::weights(__byte_perm(low, high, 0x6273), lower_scale);
      }
    }
  }

 private:
  unsigned own_bytes_;              ///< Selects the lane's own byte of two words.
  std::uint32_t low_[4], high_[4];  ///< The entries' lower and upper bytes, four entries in each.
};

/// The map of nested scales in shared memory. If the table's entries leave half of each row free,
/// the map is stored there with a column for every lane; otherwise as one copy, with bank
/// conflicts.
template <class Decode>
class SharedMap {
  static constexpr int columns_begin = lanes * sizeof(typename Decode::Entry);
  static constexpr bool has_columns = !Decode::has_small_table && columns_begin * 2 <= row_bytes;
  static constexpr int begin = map_begin_of<Decode>;

 public:
  __device__ explicit SharedMap(int lane) : column_(columns_begin + lane * 4) {}

  /// Writes the map, by `Threads` threads; a barrier must follow.
  template <int Threads>
  __device__ static void fill(const float* map, int thread) {
    constexpr int rows = (table_rows + Threads - 1) / Threads, stores = lanes / 4;
    std::uint32_t entries[rows];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      entries[i] = __float_as_uint(__ldg(map + min(thread + i * Threads, table_rows - 1)));
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) keep(entries[i]);  // all loads are in flight at once
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int row = thread + i * Threads;
      if ((i + 1) * Threads > table_rows && row >= table_rows) break;
      const float entry = __uint_as_float(entries[i]);
      if constexpr (!has_columns) store_shared(begin + row * 4, entry);
#pragma unroll
      for (int j = 0; has_columns && j < stores; ++j) {
        const int column = (j + row) % stores;  // neighbouring threads write different banks
        store_shared(table_begin + row * row_bytes + columns_begin + column * 16,
                     {entry, entry, entry, entry});
      }
    }
  }
  /// The entry of byte `byte` of a word of codes.
  __device__ float entry(std::uint32_t word, int byte) const {
    if constexpr (has_columns) {
      float entry;
      asm volatile("ld.shared.f32 %0, [%1 + %2];"
                   : "=f"(entry)
                   : "r"(__byte_perm(word, column_, row_of_byte(byte))), "n"(table_begin));
      return entry;
    }
    return load_shared<float>(begin + (word >> byte * 8 & 0xff) * 4);
  }

 private:
  std::uint32_t column_;
};

/// The scales of the weights from `first` on, plain or nested, each read in two steps, so that the
/// load can be in flight for long before its use. Weights are counted from `first` in 31 bits.
template <bool Nested>
class Scales {
 public:
  struct Loaded {
    float plain_or_second = 0;
    std::uint32_t code = 0;
  };

  __device__ Scales(const ScalesOf<Nested>& of, std::int64_t first) : of_(of), shift_(of.shift) {
    const std::int64_t block = first >> of.shift;
    before_ = static_cast<unsigned>(first - (block << of.shift));
    if constexpr (Nested) {
      codes_ = of.nested.codes + block;
      absmax_ = of.nested.absmax + (block >> of.second_shift);
      blocks_before_ = static_cast<unsigned>(block - (block >> of.second_shift << of.second_shift));
    } else {
      absmax_ = of.absmax + block;
    }
    keep(absmax_);
    keep(shift_);
  }

  __device__ Loaded load(unsigned weight) const {
    const unsigned block = (before_ + weight) >> shift_;
    if constexpr (!Nested) return {__ldg(absmax_ + block), 0};
    return {__ldg(absmax_ + ((blocks_before_ + block) >> of_.second_shift)), __ldg(codes_ + block)};
  }
  __device__ float value(Loaded loaded) const { return value(loaded, of_.nested.map); }
  /// With a copy of the map of nested scales.
  __device__ float value(Loaded loaded, const float* map) const {
    if constexpr (!Nested) return loaded.plain_or_second;
    return nf4::nested_scale(map[loaded.code], loaded.plain_or_second, of_.nested.offset);
  }

 private:
  const ScalesOf<Nested>& of_;
  int shift_;
  const float* absmax_ = nullptr;
  const std::uint8_t* codes_ = nullptr;
  unsigned before_ = 0, blocks_before_ = 0;  // of `first`, in its block and in that of blocks
};

}  // namespace reprolab::nf4_product
