// NF4 kernels of other languages: NF4's part of their manifests, their rows, and their outputs.
#include "harness/nf4/compiled_kernels.hpp"

#include "harness/compiled_kernels.hpp"
#include "tests/compiled_files.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

const auto read = [](const auto& folder, const auto& root) {
  return compiled_kernels.read(folder, root);
};
const Json sound = toy_manifest(
    "nf4", {"fp16", "bf16", "fp16_nested", "bf16_nested"},
    {{"weights_per_block", 2048}, {"pointer_alignment", 16}, {"weights_multiple", 16}});

TEST(CompiledNf4, AKernelHasItsFacts) {
  const auto kernels = CompiledFiles().add("sm_90/toy.json", sound.dump()).read(read);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].weights_per_block, 2048);
  EXPECT_EQ(kernels[0].pointer_alignment, 16);
  EXPECT_EQ(kernels[0].weights_multiple, 16);
  EXPECT_EQ(kernels[0].variants.at(90).size(), 4u);
  CompiledFiles()
      .add("sm_90/toy.json", with(sound, "/weights_per_block", "x"))
      .expect_refusal(read);
}

TEST(CompiledNf4, ARowSaysItsCompilerAndWhatItCannotRun) {
  PtxKernel toy = CompiledFiles().add("sm_10/toy.json", sound.dump()).read(read).at(0);
  toy.name = "mojo_toy";
  add_ptx_kernel(toy);
  const auto& row = kernel_named<Problem>("mojo_toy");
  EXPECT_EQ(row.origin.kind, Origin::Kind::compiler);
  EXPECT_EQ(row.origin.maker, "Mojo (max-core 1.2.3)");
  EXPECT_EQ(row.source_file, "toy.mojo");

  Problem problem;
  problem.table = reference::standard_table;
  problem.n = 17;
  EXPECT_TRUE(contains(row.supports(problem).reason, "multiples"));
  problem.n = std::int64_t{1} << 31;
  EXPECT_TRUE(contains(row.supports(problem).reason, "weights"));
  problem.n = 32;
  problem.absmax = reinterpret_cast<const float*>(std::uintptr_t{24});
  EXPECT_TRUE(contains(row.supports(problem).reason, "compiled"));
  problem.absmax = nullptr;
  // No GPU has capability 1.0.
  EXPECT_TRUE(matches(row.supports(problem).reason,
                      "needs a GPU|is not compiled for sm_[0-9]+; make mojo ARCH=[0-9]+"));
  problem.table[3] = 0.5f;
  EXPECT_TRUE(contains(row.supports(problem).reason, "checkpoint"));
}

/// Every kernel that was built here, at sizes within and across its blocks.
class OnGpuCompiledNf4 : public OnGpuTest {};

TEST_F(OnGpuCompiledNf4, AreBitExactAtEverySizeThatTheySupport) {
  const auto built = read(compiled_folder(), project_root());
  if (built.empty()) GTEST_SKIP() << "make mojo; make triton";
  const Proof proof;
  compiled_kernels.load();
  const std::int64_t sizes[] = {1,    2,    31,   32,   64,    65,    511,     512,
                                1024, 2047, 2048, 4097, 65536, 65537, 1000003, 1 << 24};
  for (const PtxKernel& kernel : built) {
    const VariantInfo row = variant_named<Problem>(kernel.name);
    for (const int block_size : {32, 64, 4096}) {
      for (const auto type : {reference::WeightType::fp16, reference::WeightType::bf16}) {
        for (const bool nested : {false, true}) {
          int ran = 0;
          for (const std::int64_t n : sizes) {
            if (n > 1000003 && block_size != 64) continue;
            const Tensor tensor = make_row(n, block_size, nested, type);
            const Verification verdict = proof.verify(row, tensor);
            if (verdict.outcome == Outcome::unsupported && n % kernel.weights_multiple != 0)
              continue;
            EXPECT_EQ(name(verdict.outcome), name(Outcome::bit_exact))
                << kernel.name << ", " << n << " weights, " << tensor.quantized.name << ": "
                << verdict.reason;
            EXPECT_TRUE(writes_outside(kernel.name, tensor).empty()) << kernel.name << ", " << n;
            ++ran;
          }
          EXPECT_GT(ran, 4) << kernel.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
