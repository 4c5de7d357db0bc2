#include <Eigen/Core>
#include <algorithm>

#include "reference/nf4/nf4.hpp"
#include "reference/nf4/nf4_sizes.hpp"
#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

using Table = Eigen::Array<float, 16, 1>;
using Outputs = std::array<std::uint16_t, 16>;

/// A block has one scale, hence only 16 possible outputs.
template <std::uint16_t round(float)>
Outputs outputs_of(const Table& table, float absmax) {
  const Table products = (table * flush_subnormal(absmax)).unaryExpr(&flush_subnormal);
  Outputs outputs{};
  for (int code = 0; code < 16; ++code) outputs[code] = round(products[code]);
  return outputs;
}

template <std::uint16_t round(float)>
void dequantize_as(std::span<const std::uint8_t> codes, std::span<const float> absmax,
                   const Table& table, int block_size, std::span<std::uint16_t> output,
                   int threads) {
  const auto n = static_cast<std::int64_t>(output.size());
  const auto blocks = static_cast<std::int64_t>(absmax.size());
  parallel_for(blocks, blocks_per_chunk(block_size), threads, [&](auto first, auto last) {
    for (std::int64_t block = first; block < last; ++block) {
      const Outputs outputs = outputs_of<round>(table, absmax[block]);
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

}  // namespace

void dequantize(std::span<const std::uint8_t> codes, std::span<const float> absmax,
                const Nf4Table& table, int block_size, WeightType type,
                std::span<std::uint16_t> output, int threads) {
  require_nf4_sizes(output.size(), block_size, codes.size(), absmax.size());
  const Table values = Eigen::Map<const Table>(table.data()).unaryExpr(&flush_subnormal);
  if (type == WeightType::fp16) {
    dequantize_as<round_to_fp16>(codes, absmax, values, block_size, output, threads);
  } else {
    dequantize_as<round_to_bf16>(codes, absmax, values, block_size, output, threads);
  }
}

}  // namespace reprolab::reference
