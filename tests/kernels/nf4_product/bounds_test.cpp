// Every kernel within its bound: types, block sizes, kinds of scales, shapes that no tile divides,
// numbers of rows, with and without bias, on data that detect each sort of fault. Verification also
// runs a kernel 20 times, and each row alone.
#include <optional>

#include "kernels/registry.hpp"
#include "tests/kernels/nf4_product/testing.hpp"

namespace reprolab::nf4_product {
namespace {

using reference::WeightType;

class OnGpuKernelProducts : public OnGpuTest {
 protected:
  /// Fails the test unless every kernel is within its bound on `spec`, or refuses it.
  void expect(const ProductSpec& spec) {
    const ProductWorkload workload = make_workload(spec);
    if (!proof_) proof_.emplace();
    for (const VariantInfo& kernel : registered_kernels()) {
      const bool runs = workload.supports(kernel.name).ok;
      const Verification verdict = proof_->verify(kernel, workload);
      EXPECT_EQ(name(verdict.outcome), name(runs ? Outcome::within_bound : Outcome::unsupported))
          << kernel.name << ", " << spec.name() << ": " << verdict.reason;
    }
  }

 private:
  std::optional<Proof> proof_;  // its tests of itself take longer than a verification
};

constexpr InputData all_data[] = {InputData::normal, InputData::sparse, InputData::one_hot};

TEST_F(OnGpuKernelProducts, AreWithinTheirBoundAtEveryTypeBlockSizeAndKindOfScales) {
  int number = 0;  // of a product: each block size and kind of scales meets each sort of data
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    for (const bool nested : {false, true}) {
      for (const int block_size : {32, 64, 128, 256, 512, 1024, 2048, 4096}) {
        const InputData data = all_data[number++ % std::size(all_data)];
        expect({.weights = {.rows = 192,
                            .columns = 4096,
                            .block_size = block_size,
                            .nested = nested,
                            .output = type},
                .m = data == InputData::normal ? 5 : 13,
                .bias = nested,
                .data = data});
      }
    }
  }
}

TEST_F(OnGpuKernelProducts, AreWithinTheirBoundAtEveryNumberOfRows) {
  WeightType type = WeightType::fp16, other = WeightType::bf16;
  for (const std::int64_t m :
       {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 128, 200, 512}) {
    std::swap(type, other);
    expect({.weights = {.rows = 320, .columns = 1024, .output = type},
            .m = m,
            .bias = m % 2 == 0,
            .data = m % 3 == 0 ? InputData::normal : InputData::sparse});
  }
}

/// Odd multiples of a block, odd numbers of outputs, and rows that are not whole blocks.
TEST_F(OnGpuKernelProducts, AreWithinTheirBoundAtShapesThatNoTileDivides) {
  constexpr std::pair<std::int64_t, std::int64_t> shapes[] = {
      {1, 64},    {1, 1},      {16, 64},   {17, 192},  {63, 320},   {65, 4160}, {129, 8256},
      {1000, 96}, {1023, 448}, {3, 28672}, {333, 130}, {4097, 576}, {64, 14336}};
  int number = 0;  // of a product: each number of rows meets both kinds of scales
  for (const auto& [n, k] : shapes) {
    for (const std::int64_t m : {1, 7, 100}) {
      expect({.weights = {.rows = n, .columns = k, .nested = number++ % 2 == 1},
              .m = m,
              .bias = true,
              .data = InputData::sparse});
    }
  }
}

/// Blocks of weights, and of nested scales, that end within a row.
TEST_F(OnGpuKernelProducts, AreWithinTheirBoundIfBlocksCrossRows) {
  constexpr std::pair<std::int64_t, std::int64_t> shapes[] = {{17, 192}, {65, 4160}, {48, 1280}};
  for (const auto& [n, k] : shapes) {
    for (const int block_size : {128, 512, 4096}) {
      for (const bool nested : {false, true}) {
        expect({.weights = {.rows = n, .columns = k, .block_size = block_size, .nested = nested},
                .m = nested == (block_size == 512) ? 3 : 33,
                .data = InputData::sparse});
      }
    }
  }
}

/// M tiles that are full, nearly full, or of one row; and N larger than one wave of blocks, with a
/// small K: of 132 multiprocessors four, two or none share a remaining tile.
TEST_F(OnGpuKernelProducts, AreWithinTheirBoundWithManyRows) {
  constexpr std::pair<std::int64_t, std::int64_t> shapes[] = {
      {1, 64}, {17, 192}, {65, 320}, {129, 4160}};
  for (const std::int64_t m : {129, 256, 385, 1000}) {
    for (const auto& [n, k] : shapes) {
      expect({.weights = {.rows = n, .columns = k, .nested = m % 2 == 0},
              .m = m,
              .bias = true,
              .data = InputData::sparse});
    }
  }
  for (const std::int64_t m : {12, 200}) {
    for (const std::int64_t n : {25'700, 28'700, 50'000}) {
      expect({.weights = {.rows = n, .columns = 64}, .m = m});
    }
  }
}

/// Blocks of several N tiles: of 132 multiprocessors 4, 7 and 14 each, in one or more K tiles.
TEST_F(OnGpuKernelProducts, AreWithinTheirBoundWithManyOutputs) {
  constexpr std::pair<std::int64_t, std::int64_t> shapes[] = {
      {6'500, 1536}, {14'400, 1536}, {28'700, 320}};
  for (const auto& [n, k] : shapes) {
    expect({.weights = {.rows = n, .columns = k}, .m = 16, .bias = true});
    expect({.weights = {.rows = n, .columns = k, .nested = true}, .m = 3});
    expect({.weights = {.rows = n, .columns = k, .block_size = 32}, .m = 9});
  }
}

/// If an array does not start at a multiple of 256 bytes, a kernel is right or refuses.
TEST_F(OnGpuKernelProducts, AreWithinTheirBoundOrRefuseUnalignedArrays) {
  for (const int offset : {1, 2, 4, 8, 16}) {
    for (const std::int64_t m : {1, 4, 32}) {
      expect({.weights = {.rows = 96, .columns = 576, .offset = offset}, .m = m, .bias = true});
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4_product
