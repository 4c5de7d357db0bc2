// Every run gives the same bits, right or wrong.
#include "tests/kernels/transpose/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

class OnGpuTransposeDeterminism : public OnGpuEachTranspose {};

TEST_P(OnGpuTransposeDeterminism, TenLaunchesAreEqualBitForBit) {
  const Proof proof;
  for (const MatrixSpec& spec : {MatrixSpec{.rows = 1000, .columns = 1004},
                                 MatrixSpec{.rows = 3000, .columns = 2052, .padding = 4}}) {
    const TransposeWorkload workload(spec, 1, 3);  // buffer sets 0 and 2 hold the same matrix
    const auto& facts = workload.facts();
    const auto run = [&](int buffer_set) {
      profiling::check(cudaMemsetAsync(workload.output(buffer_set), poison_byte,
                                       facts.output_bytes(), proof.stream()),
                       "poisoning an output");
      profiling::check(workload.launch(GetParam().name, buffer_set, proof.stream()),
                       GetParam().name);
    };
    ASSERT_TRUE(workload.supports(GetParam().name).ok);
    run(0);
    for (int launch = 2; launch <= 10; ++launch) {
      run(2);
      const auto found = proof.comparison().compare(workload.output(0), workload.output(2),
                                                    facts.elements, facts.element_bytes);
      EXPECT_TRUE(found.equal()) << facts.name << ", launch " << launch << ": " << found.mismatches
                                 << " elements differ, the first at " << found.first_mismatch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuTransposeDeterminism,
                         testing::ValuesIn(registered_variants<Problem>()), name_of);

}  // namespace
}  // namespace reprolab::transpose
