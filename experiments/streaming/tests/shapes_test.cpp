// The swept shapes of the streaming kernel are exact.
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

const std::string source_file = "experiments/streaming/shapes.cu";

class OnGpuKernelStreamingShapes : public OnGpuTest {};

/// Lengths around a warp, a tile and a burst of words, and one beyond the prefetch distance.
TEST_F(OnGpuKernelStreamingShapes, AreExactAtEveryLength) {
  const Proof proof;
  for (const std::int64_t n : {255, 8193, 524287, 20000003}) {
    for (const bool nested : {false, true}) {
      const Tensor tensor = make_row(n, 64, nested);
      for (const VariantInfo& kernel : registered_variants<Problem>()) {
        if (kernel.source_file != source_file) continue;
        const Verification verification = proof.verify(kernel, tensor);
        EXPECT_EQ(name(verification.outcome), "bit_exact")
            << kernel.name << ", " << n << verification.reason;
      }
    }
  }
}

/// Blocks shorter and longer than what a warp decodes at once; aligned words that start with a
/// block or inside one, words with two scales, and words of codes that are split in two.
TEST_F(OnGpuKernelStreamingShapes, AreExactForEveryBlockSizeWhereverTheArraysBegin) {
  const Proof proof;
  bool nested = false;  // the kinds of scales alternate: each meets each block size and offset
  for (const int block_size : {32, 256, 4096}) {
    for (const int offset : {0, 1, 6, 8, 32}) {
      nested = !nested;
      const Tensor tensor = make_row(70001, block_size, nested);
      const Nf4Workload workload(facts_of(tensor), {tensor}, 1, offset);
      for (const VariantInfo& kernel : registered_variants<Problem>()) {
        if (kernel.source_file != source_file) continue;
        const Verification verification = proof.verify(kernel, workload);
        EXPECT_EQ(name(verification.outcome), "bit_exact")
            << kernel.name << ", " << tensor.quantized.name << ", offset " << offset << ": "
            << verification.reason;
      }
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
