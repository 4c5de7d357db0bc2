// Transpose kernels of other languages: the transpose's part of their manifests, their rows, and
// their outputs.
#include "harness/transpose/compiled_kernels.hpp"

#include "harness/compiled_kernels.hpp"
#include "tests/compiled_files.hpp"
#include "tests/kernels/transpose/on_gpu.hpp"
#include "tests/text.hpp"

namespace reprolab::transpose {
namespace {

const auto read = [](const auto& folder, const auto& root) {
  return compiled_kernels.read(folder, root);
};
const Json sound =
    toy_manifest("transpose", {"fp32"}, {{"swizzle_bytes", 128}, {"counterpart", "tma_batched"}});

PtxKernel read_one(const std::string& manifest) {
  return CompiledFiles().add("sm_90/toy.json", manifest).read(read).at(0);
}

TEST(CompiledTransposes, RefusesWhatItsCounterpartRefusesAndOtherGpus) {
  PtxKernel toy = read_one(sound.dump());
  toy.name = "toy_for_no_gpu";
  toy.variants = {{10, toy.variants.at(90)}};  // no GPU has capability 1.0
  add_ptx_kernel(toy);
  const auto& row = kernel_named<Problem>("toy_for_no_gpu");
  const auto& counterpart = kernel_named<Problem>("tma_batched");
  const Problem aligned{.rows = 64, .columns = 96, .in_stride = 100, .out_stride = 68};
  for (Problem problem : {aligned, Problem{.rows = 63, .columns = 96, .in_stride = 96},
                          Problem{.in_stride = std::int64_t{1} << 38}}) {
    if (const Support support = counterpart.supports(problem); !support.ok) {
      EXPECT_STREQ(row.supports(problem).reason, support.reason);
    } else {
      EXPECT_TRUE(matches(row.supports(problem).reason,
                          "is not compiled for sm_[0-9]+; make mojo ARCH=[0-9]+"));
      EXPECT_EQ(row.launch(problem, nullptr), cudaErrorNotSupported);
    }
  }
  EXPECT_EQ(row.launch(Problem{}, nullptr), cudaSuccess) << "an empty matrix has no tiles";
}

/// Every kernel that was built here and that this GPU runs.
class OnGpuCompiledTransposes : public OnGpuTest {
 protected:
  void SetUp() override {
    OnGpuTest::SetUp();
    if (IsSkipped()) return;
    require_compiled_kernels();
    for (const PtxKernel& kernel : read(compiled_folder(), project_root())) {
      const Support support = kernel_named<Problem>(kernel.name).supports(Problem{});
      if (!support.ok) GTEST_SKIP() << "NOT TESTED, " << kernel.name << ": " << support.reason;
      kernels_.push_back(variant_named<Problem>(kernel.name));
    }
    if (kernels_.empty()) GTEST_SKIP() << "NOT TESTED, mojo: not built; make mojo";
  }

  std::vector<VariantInfo> kernels_;
};

TEST_F(OnGpuCompiledTransposes, TransposeEveryAlignedMatrixUpTo132) {
  constexpr std::int64_t longest = 132, words = longest * (longest + 8);
  for (const auto& kernel : kernels_) {
    if (kernel.promise.deviates()) continue;
    ManyMatrices matrices(kernel, words, words);
    for (std::int64_t rows = 4; rows <= longest; rows += 4) {
      for (std::int64_t columns = 4; columns <= longest; columns += 4) {
        matrices.run(tight(rows, columns));
        matrices.run(
            {.rows = rows, .columns = columns, .in_stride = columns + 4, .out_stride = rows + 8});
      }
    }
    EXPECT_EQ(matrices.expect_transposed(), 2 * 33 * 33) << kernel.name;
  }
}

}  // namespace
}  // namespace reprolab::transpose
