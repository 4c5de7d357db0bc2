#include "reference/nf4/nf4.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <stdexcept>

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

/// Number of blocks that one thread takes at a time: about 64 Ki weights.
constexpr std::int64_t blocks_per_chunk(int block_size) { return 65536 / block_size; }

/// One block's values, widened to fp32; stored on the stack.
using BlockValues = Eigen::Array<float, Eigen::Dynamic, 1, Eigen::ColMajor, max_block_size, 1>;
using BlockCodes =
    Eigen::Array<std::int32_t, Eigen::Dynamic, 1, Eigen::ColMajor, max_block_size, 1>;

float greatest_magnitude(const BlockValues& values) {
  // The maximum of magnitudes is the maximum of their bits, which vectorizes. NaN counts as zero.
  std::int32_t greatest = 0;
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff;
    greatest = std::max(greatest, magnitude > 0x7f800000 ? 0 : magnitude);
  }
  return std::bit_cast<float>(greatest);
}

/// NaN (zero times the infinite reciprocal of zero) exceeds no midpoint: code 0.
void count_exceeded_midpoints(const BlockValues& scaled, BlockCodes& codes) {
  for (Eigen::Index i = 0; i < scaled.size(); ++i) {
    std::int32_t code = 0;
    for (const float midpoint : standard_midpoints) code += scaled[i] > midpoint;
    codes[i] = code;
  }
}

void pack(const BlockCodes& codes, std::uint8_t* bytes) {
  const Eigen::Index pairs = codes.size() / 2;
  for (Eigen::Index pair = 0; pair < pairs; ++pair) {
    bytes[pair] = static_cast<std::uint8_t>(codes[2 * pair] << 4 | codes[2 * pair + 1]);
  }
  if (codes.size() % 2 != 0) {
    bytes[pairs] = static_cast<std::uint8_t>(codes[codes.size() - 1] << 4 | 7);
  }
}

}  // namespace

void require_nf4_sizes(std::size_t weights, int block_size, std::size_t code_byte_count,
                       std::size_t absmax_count) {
  const auto n = static_cast<std::int64_t>(weights);
  if (!is_block_size(block_size)) {
    throw std::invalid_argument(
        fmt::format("block size {} is not a power of two from 32 to 4096", block_size));
  }
  if (static_cast<std::int64_t>(code_byte_count) != code_bytes(n)) {
    throw std::invalid_argument(fmt::format("{} weights need {} bytes of codes, not {}", n,
                                            code_bytes(n), code_byte_count));
  }
  if (static_cast<std::int64_t>(absmax_count) != block_count(n, block_size)) {
    throw std::invalid_argument(fmt::format("{} weights in blocks of {} need {} scales, not {}", n,
                                            block_size, block_count(n, block_size), absmax_count));
  }
}

void dequantize(std::span<const std::uint8_t> codes, std::span<const float> absmax,
                const Nf4Table& table, int block_size, WeightType type,
                std::span<std::uint16_t> output, int threads) {
  require_nf4_sizes(output.size(), block_size, codes.size(), absmax.size());
  const auto n = static_cast<std::int64_t>(output.size());
  const auto blocks = static_cast<std::int64_t>(absmax.size());
  parallel_for(blocks, blocks_per_chunk(block_size), threads, [&](auto first, auto last) {
    for (std::int64_t block = first; block < last; ++block) {
      const float scale = flush_subnormal(absmax[block]);
      std::array<std::uint16_t, 16> outputs;  // a block has one scale, hence only 16 of them
      for (int code = 0; code < 16; ++code) {
        outputs[code] = round_to(type, flush_subnormal(flush_subnormal(table[code]) * scale));
      }
      const std::int64_t begin = block * block_size;
      const std::int64_t count = std::min<std::int64_t>(block_size, n - begin);
      const std::uint8_t* byte = codes.data() + begin / 2;
      std::uint16_t* out = output.data() + begin;
      for (std::int64_t pair = 0; pair < count / 2; ++pair) {
        out[2 * pair] = outputs[byte[pair] >> 4];
        out[2 * pair + 1] = outputs[byte[pair] & 15];
      }
      if (count % 2 != 0) out[count - 1] = outputs[byte[count / 2] >> 4];
    }
  });
}

void quantize(std::span<const std::uint16_t> weights, WeightType type, int block_size,
              std::span<std::uint8_t> codes, std::span<float> absmax, int threads) {
  require_nf4_sizes(weights.size(), block_size, codes.size(), absmax.size());
  const auto n = static_cast<std::int64_t>(weights.size());
  const auto blocks = static_cast<std::int64_t>(absmax.size());
  parallel_for(blocks, blocks_per_chunk(block_size), threads, [&](auto first, auto last) {
    BlockValues values;
    BlockCodes block_codes;
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t begin = block * block_size;
      const std::int64_t count = std::min<std::int64_t>(block_size, n - begin);
      values.resize(count);
      block_codes.resize(count);
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = flush_subnormal(widen(type, weights[begin + i]));
      }
      absmax[block] = greatest_magnitude(values);
      values *= flush_subnormal(1.0f / absmax[block]);
      count_exceeded_midpoints(values, block_codes);
      pack(block_codes, codes.data() + begin / 2);
    }
  });
}

}  // namespace reprolab::reference
