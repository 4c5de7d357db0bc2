#include <Eigen/Core>
#include <algorithm>

#include "reference/nf4/nf4.hpp"
#include "reference/nf4/nf4_sizes.hpp"
#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

/// One block's values, widened to fp32; stored on the stack.
using BlockValues = Eigen::Array<float, Eigen::Dynamic, 1, Eigen::ColMajor, max_block_size, 1>;
using BlockCodes =
    Eigen::Array<std::int32_t, Eigen::Dynamic, 1, Eigen::ColMajor, max_block_size, 1>;

template <float widen_bits(std::uint16_t)>
void load(const std::uint16_t* weights, BlockValues& values) {
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    values[i] = flush_subnormal(widen_bits(weights[i]));
  }
}

float greatest_magnitude(const BlockValues& values) {
  // The maximum of magnitudes is the maximum of their bits, which vectorizes. NaN counts as zero.
  std::int32_t greatest = 0;
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff;
    greatest = std::max(greatest, magnitude > 0x7f800000 ? 0 : magnitude);
  }
  return std::bit_cast<float>(greatest);
}

/// NaN (zero times the infinite reciprocal of zero) exceeds nothing: code 0.
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

template <float widen_bits(std::uint16_t)>
void quantize_as(std::span<const std::uint16_t> weights, int block_size,
                 std::span<std::uint8_t> codes, std::span<float> absmax, int threads) {
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
      load<widen_bits>(weights.data() + begin, values);
      absmax[block] = greatest_magnitude(values);
      values *= flush_subnormal(1.0f / absmax[block]);
      count_exceeded_midpoints(values, block_codes);
      pack(block_codes, codes.data() + begin / 2);
    }
  });
}

}  // namespace

void quantize(std::span<const std::uint16_t> weights, WeightType type, int block_size,
              std::span<std::uint8_t> codes, std::span<float> absmax, int threads) {
  require_nf4_sizes(weights.size(), block_size, codes.size(), absmax.size());
  if (type == WeightType::fp16) {
    quantize_as<widen_fp16>(weights, block_size, codes, absmax, threads);
  } else {
    quantize_as<widen_bf16>(weights, block_size, codes, absmax, threads);
  }
}

}  // namespace reprolab::reference
