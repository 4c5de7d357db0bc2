// Compares the output that the deviating kernel declares with the reference, given scales arranged
// as the paper's Algorithm 1 reads them.
#include "harness/nf4/workload.hpp"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

/// What Algorithm 1 as printed computes: the weights of each tile of 512 take the scale whose index
/// is the tile's. Computed by the reference from rearranged scales; for block sizes up to 512.
std::vector<std::uint16_t> algorithm1_output(const reference::QuantizedTensor& tensor) {
  reference::QuantizedTensor printed = tensor;
  printed.nested.reset();
  const auto blocks_a_tile = static_cast<std::size_t>(512 / tensor.block_size);
  for (std::size_t block = 0; block < tensor.absmax.size(); ++block) {
    printed.absmax[block] = tensor.absmax[block / blocks_a_tile];
  }
  return reference::dequantize(printed);
}

std::vector<std::uint16_t> declared(const Tensor& tensor, std::int64_t piece) {
  const auto write = declared_deviation<Problem>("shared_lut_algorithm1").expected_output;
  std::vector<std::uint16_t> output(tensor.expected.size(), 0xcdcd);
  const Problem host = host_problem(tensor.quantized, output.data());
  for (std::int64_t at = 0; at < host.n; at += piece) {
    write(host, at, std::min(host.n, at + piece));
  }
  return output;
}

TEST(Algorithm1Declared, IsTheReferenceWithOneScaleATile) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    for (const bool nested : {false, true}) {
      for (const int block_size : {32, 64, 128, 256, 512}) {
        for (const std::int64_t n : {1, 511, 512, 513, 1025, 65537}) {
          const Tensor tensor = make_row(n, block_size, nested, type);
          EXPECT_EQ(declared(tensor, n), algorithm1_output(tensor.quantized))
              << name(type) << ", block size " << block_size << ", " << n << " weights";
        }
      }
    }
  }
}

TEST(Algorithm1Declared, WritesOnlyTheElementsAskedFor) {
  const Tensor tensor = make_row(5000);
  EXPECT_EQ(declared(tensor, 7), declared(tensor, 5000));
  std::vector<std::uint16_t> output(5000, 0xcdcd);
  declared_deviation<Problem>("shared_lut_algorithm1")
      .expected_output(host_problem(tensor.quantized, output.data()), 100, 101);
  EXPECT_EQ(std::ranges::count(output, 0xcdcd), 4999);
}

TEST(Algorithm1Declared, IsExactWhereATileIsOneBlockAndWrongWhereItIsNot) {
  const Tensor one_block = make_row(65537, 512), eight_blocks = make_row(65537, 64);
  EXPECT_EQ(declared(one_block, 65537), one_block.expected);
  EXPECT_NE(declared(eight_blocks, 65537), eight_blocks.expected);
}

}  // namespace
}  // namespace reprolab::nf4
