// Every kernel through the harness, as in bench and the experiments.
#include "tests/kernels/transpose/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

constexpr MatrixSpec specs[] = {
    {.rows = 128, .columns = 96},
    {.rows = 1024, .columns = 2048},
    {.rows = 100, .columns = 260, .padding = 4},
    {.rows = 129, .columns = 65, .padding = 3},
    {.rows = 67, .columns = 131},
    {.rows = 1, .columns = 4100},
    {.rows = 4100, .columns = 1},
};

class OnGpuTransposeVerification : public OnGpuEachTranspose {};

/// Every copy of several, on random data of several seeds and on constant data: the post checks
/// with those, on which the error of its published indices does not show in whole tiles.
TEST_P(OnGpuTransposeVerification, IsAsPromisedOnEveryKindOfData) {
  const Proof proof;
  const bool deviates = GetParam().promise.deviates();
  for (MatrixSpec spec : specs) {
    for (const std::uint64_t seed : {1, 2, 1234567}) {
      const auto found = proof.verify(GetParam(), TransposeWorkload(spec, seed, 10));
      const bool aligned = spec.rows % 4 == 0 && spec.columns % 4 == 0;
      if (found.outcome == Outcome::unsupported && (!aligned || deviates)) continue;
      EXPECT_EQ(name(found.outcome),
                name(deviates ? Outcome::deviation_as_declared : Outcome::bit_exact))
          << spec.name() << ", seed " << seed << ": " << found.reason;
    }
    const bool whole_tiles = spec.rows % 32 == 0 && spec.columns % 32 == 0;
    if (deviates && !whole_tiles) continue;
    spec.data = Data::constant;
    const auto found = proof.verify(GetParam(), TransposeWorkload(spec, 1, 3));
    if (found.outcome == Outcome::unsupported && !whole_tiles) continue;
    EXPECT_EQ(name(found.outcome), name(Outcome::bit_exact)) << spec.name() << ": " << found.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuTransposeVerification,
                         testing::ValuesIn(registered_variants<Problem>()), name_of);

}  // namespace
}  // namespace reprolab::transpose
