// The swept shapes of the streaming kernel: they include those in streaming.cu, and are exact.
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

const std::string source_file = "experiments/streaming/shapes.cu";

/// By the name of the kernel, the shape's type as written in the code.
std::map<std::string, std::string> shapes() {
  std::map<std::string, std::string> code;
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    if (kernel.source_file == source_file) code[name] = kernel.lineage;
  }
  return code;
}

TEST(StreamingShapes, HaveThoseThatTheKernelChooses) {
  std::ifstream file(CHOSEN_IN);
  const std::string code{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> swept;
  for (const auto& [name, shape] : shapes()) {
    EXPECT_TRUE(swept.insert(shape).second) << name << " is another's " << shape;
  }
  const std::regex shape("(StreamShape|NothingAhead)<[^<>]*>");
  int chosen = 0;
  for (std::sregex_iterator match(code.begin(), code.end(), shape), none; match != none; ++match) {
    EXPECT_TRUE(swept.contains(match->str())) << match->str() << " is not swept";
    ++chosen;
  }
  EXPECT_GT(chosen, 0) << CHOSEN_IN;
}

class OnGpuStreamingShapes : public OnGpuTest {};

/// Lengths around a warp, a tile and a burst of words, and one beyond the prefetch distance.
TEST_F(OnGpuStreamingShapes, AreExactAtEveryLength) {
  const Proof proof;
  for (const std::int64_t n : {1, 255, 8192, 8193, 65537, 524287, 20000003}) {
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
TEST_F(OnGpuStreamingShapes, AreExactForEveryBlockSizeWhereverTheArraysBegin) {
  const Proof proof;
  for (const int block_size : {32, 64, 128, 256, 512, 4096}) {
    for (const bool nested : {false, true}) {
      const Tensor tensor = make_row(70001, block_size, nested);
      for (const int offset : {0, 1, 6, 8, 32}) {
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
}

}  // namespace
}  // namespace reprolab::nf4
