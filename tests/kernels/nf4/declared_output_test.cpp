// The declared outputs of deviating kernels, compared with the reference for the scales that they
// read.
#include <cmath>

#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

const char *const algorithm1 = "shared_lut_algorithm1", *const as_published =
                                                            "packed_512_as_published";

/// The declared output, made in pieces of `piece` weights.
std::vector<std::uint16_t> declared(const char* kernel, const Tensor& tensor,
                                    std::int64_t piece = std::int64_t{1} << 40) {
  std::vector<std::uint16_t> output(tensor.expected.size(), 0xcdcd);
  const Problem host = host_problem(tensor.quantized, output.data());
  for (std::int64_t at = 0; at < host.n; at += piece) {
    const std::int64_t end = std::min(host.n, at + piece);
    kernel_named<Problem>(kernel).expected_output(host, at, end);
    EXPECT_TRUE(end == host.n || output[static_cast<std::size_t>(end)] == 0xcdcd) << "too many";
  }
  return output;
}

/// By the reference, where the scale of block b is `scale(b)`.
template <class Scale>
std::vector<std::uint16_t> with_scales(const reference::QuantizedTensor& tensor, Scale scale) {
  reference::QuantizedTensor other = tensor;
  other.nested.reset();
  for (std::size_t block = 0; block < other.absmax.size(); ++block) {
    other.absmax[block] = scale(block);
  }
  return reference::dequantize(other);
}

/// Algorithm 1 as printed: the weights of each tile of 512 take the scale whose index
/// is the tile's. For block sizes up to 512.
TEST(Algorithm1Declared, IsTheReferenceWithOneScalePerTileForPiecesOfAnySize) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    for (const bool nested : {false, true}) {
      for (const int block_size : {32, 64, 128, 256, 512}) {
        for (const std::int64_t n : {1, 511, 512, 513, 1025, 65537}) {
          const Tensor tensor = make_row(n, block_size, nested, type);
          const auto& absmax = tensor.quantized.absmax;
          const auto blocks_a_tile = static_cast<std::size_t>(512 / block_size);
          const auto output = declared(algorithm1, tensor);
          EXPECT_EQ(output,
                    with_scales(tensor.quantized,
                                [&](std::size_t block) { return absmax[block / blocks_a_tile]; }))
              << name(type) << ", block size " << block_size << ", " << n << " weights";
          if (n == 1025) {
            EXPECT_EQ(declared(algorithm1, tensor, 7), output);
          }
          if (n == 65537) {
            EXPECT_EQ(output == tensor.expected, block_size == 512);
          }
        }
      }
    }
  }
}

/// The post's final kernel computes nested scales by a fused multiply-add. It differs by one unit
/// in a few fp16 outputs of a million: how many depends on the data, here scales that all differ.
TEST(FusedScalesDeclared, IsTheReferenceWithNestedScalesRoundedOnce) {
  std::int64_t different = 0;
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    for (const int block_size : block_sizes) {
      for (const std::int64_t n : {1, 65, 4097, 65537, 1000003}) {
        Tensor tensor = make_row(n, block_size, true, type);
        auto& nested = *tensor.quantized.nested;
        for (std::size_t group = 0; group < nested.absmax.size(); ++group) {
          nested.absmax[group] *= 1 + 1e-5f * static_cast<float>(group);
        }
        reference::dequantize_scales(nested, tensor.quantized.absmax);
        tensor.expected = reference::dequantize(tensor.quantized);
        const auto output = declared(as_published, tensor);
        EXPECT_EQ(output, with_scales(tensor.quantized,
                                      [&](std::size_t block) {
                                        return std::fma(nested.map[nested.codes[block]],
                                                        nested.absmax[block / 256], nested.offset);
                                      }))
            << name(type) << ", block size " << block_size << ", " << n << " weights";
        const auto comparison = reference::compare_bits(tensor.expected, output);
        different += comparison.mismatches;
        EXPECT_LE(comparison.max_ulps, 1u);
      }
    }
    const Tensor plain = make_row(65537, 64, false, type);
    EXPECT_EQ(declared(as_published, plain), plain.expected) << name(type);
  }
  EXPECT_GT(different, 0);
  EXPECT_LT(different, 400);
}

}  // namespace
}  // namespace reprolab::nf4
