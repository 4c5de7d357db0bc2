// Lengths that 31 and 32 bits cannot count. Quantizing so much on the host would take too long: a
// verified tile is repeated on the device, so its output must repeat as well.
#include <map>

#include "tests/kernels/nf4/long_problem.hpp"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

/// Whole blocks at both levels of scales; no power of two, so that an index of 32 bits that
/// overflows reads other weights.
constexpr std::int64_t rows = 4032, columns = 4096, tile_weights = rows * columns;

class OnGpuLongLengths : public OnGpuEachKernel {};

profiling::DeviceBuffer on_device(const std::vector<std::uint16_t>& bits) {
  return repeated(bits, bits.size());
}

/// The expected tiles of the output, in order. There is one, also for a declared deviation within
/// each quantization block; but Algorithm 1 advances through the scales 8 times as slowly, so its
/// output repeats after 8 tiles.
std::vector<profiling::DeviceBuffer> expected_tiles(const VariantInfo& kernel, const Tensor& tile) {
  std::vector<profiling::DeviceBuffer> expected;
  if (kernel.name != "shared_lut_algorithm1") {
    expected.push_back(
        on_device(!kernel.contract.deviates() ? tile.expected : declared_output(kernel, tile)));
    return expected;
  }
  const std::size_t blocks = tile.quantized.absmax.size();
  for (std::size_t phase = 0; phase < 8; ++phase) {
    reference::QuantizedTensor printed = tile.quantized;
    printed.nested.reset();
    for (std::size_t block = 0; block < blocks; ++block) {
      printed.absmax[block] = tile.quantized.absmax[(phase * blocks + block) / 8];
    }
    expected.push_back(on_device(reference::dequantize(printed)));
  }
  return expected;
}

void expect_repeated(const VariantInfo& kernel, const Tensor& tile, std::int64_t n,
                     const Proof& proof, int output_at = 0) {
  const LongProblem problem(tile.quantized, n, output_at);
  const Support support = kernel_named<Problem>(kernel.name).supports(problem.view);
  if (!support.ok) GTEST_SKIP() << "NOT TESTED, unsupported: " << support.reason;
  ASSERT_EQ(kernel_named<Problem>(kernel.name).launch(problem.view, proof.stream()), cudaSuccess);
  const auto expected = expected_tiles(kernel, tile);
  for (std::int64_t at = 0; at < n; at += tile_weights) {
    const auto phase = static_cast<std::size_t>(at / tile_weights) % expected.size();
    proof.comparison().enqueue(expected[phase].data(),
                               problem.output.as<std::uint16_t>() + output_at + at,
                               std::min(tile_weights, n - at), 2);
  }
  const auto difference = proof.comparison().collect();
  EXPECT_TRUE(difference.equal()) << kernel.name << ", " << n
                                  << " weights: " << difference.mismatches
                                  << " differ from their tile's";
}

void expect_long(const VariantInfo& kernel, std::int64_t n, int output_at = 0) {
  const Proof proof;
  const std::string why =
      lacks_memory(static_cast<std::uint64_t>(2.5625 * static_cast<double>(n)) + (1u << 30));
  if (!why.empty()) GTEST_SKIP() << why;
  for (const bool nested : {false, true}) {
    static std::map<bool, Tensor> tiles;  // which are quantized once
    if (!tiles.contains(nested)) {
      tiles[nested] = make_tensor({.rows = rows, .columns = columns, .nested = nested}, 1);
    }
    expect_repeated(kernel, tiles[nested], n, proof, output_at);
  }
}

TEST_P(OnGpuLongLengths, Past31And32BitsRepeatTheTile) {
  for (const std::int64_t n : {(std::int64_t{1} << 31) + 1025, (std::int64_t{1} << 32) + 77}) {
    expect_long(GetParam(), n);
  }
}

class OnGpuKernelStreamingLongLengths : public OnGpuTest {};

/// Each of the kernel's shapes, in both widths of indices: on unaligned words, and on aligned words
/// that start inside a block.
TEST_F(OnGpuKernelStreamingLongLengths, SupportAnyAlignment) {
  const VariantInfo streaming = variant_named<Problem>("streaming");
  for (const std::int64_t n :
       {std::int64_t{5'000'001}, std::int64_t{8'500'000}, std::int64_t{12'000'003},
        std::int64_t{30'000'001}, std::int64_t{60'000'000}, (std::int64_t{1} << 32) + 77}) {
    for (const int output_at : {1, 8, 32}) {
      SCOPED_TRACE(testing::Message() << n << " weights, output at " << output_at);
      expect_long(streaming, n, output_at);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuLongLengths, testing::ValuesIn(registered_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::nf4
