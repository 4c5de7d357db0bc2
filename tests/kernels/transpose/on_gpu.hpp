// Runs a transpose kernel in GPU tests: by the harness's verifier, or on matrices with the place
// check.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "tests/kernels/testing.hpp"
#include "tests/kernels/transpose/place_check.hpp"

namespace reprolab::transpose {

/// The same for each kernel that this GPU can run.
class OnGpuEachTranspose : public OnGpuEachKernel {
 protected:
  void SetUp() override {
    OnGpuEachKernel::SetUp();
    if (IsSkipped()) return;
    // In an empty problem every row is aligned, so a refusal can only be due to the GPU.
    const Support support = kernel_named<Problem>(GetParam().name).supports(Problem{});
    if (!support.ok) GTEST_SKIP() << "NOT TESTED, " << support.reason;
  }
};

/// The bit-exact kernels, including cuBLAS's.
inline std::vector<VariantInfo> exact_kernels() {
  auto kernels = registered_variants<Problem>();
  std::erase_if(kernels, [](const VariantInfo& kernel) { return kernel.promise.deviates(); });
  return kernels;
}

inline std::string describe(const Placement& matrix) {
  return fmt::format("{} x {}, strides {} and {}, offsets {} and {}", matrix.rows, matrix.columns,
                     matrix.in_stride, matrix.out_stride, matrix.in_offset, matrix.out_offset);
}

/// One kernel on many matrices.
class ManyMatrices {
 public:
  /// For matrices of at most these numbers of words, padding between rows included.
  ManyMatrices(const VariantInfo& kernel, std::int64_t input_words, std::int64_t output_words)
      : kernel_(kernel_named<Problem>(kernel.name)),
        // A peer may multiply by one.
        check_(kernel_.origin.kind == Origin::Kind::peer ? Words::finite : Words::any, input_words,
               output_words, stream_.get()) {}

  /// Enqueues a run, unless the kernel does not support the matrix.
  void run(const Placement& matrix) {
    const Problem problem = check_.problem(matrix);
    if (!kernel_.supports(problem).ok) return;
    check_.poison(matrix);
    profiling::check(kernel_.launch(problem, stream_.get()), kernel_.name + ": launch");
    check_.check(matrix);
    pending_.push_back(matrix);
    ++count_;
    if (pending_.size() == PlaceCheck::max_checks) read();
  }

  /// Fails the test if an output is not a transpose, if a gap or guard was changed, or if an input
  /// was changed. Returns how many matrices were run.
  int expect_transposed() {
    read();
    EXPECT_EQ(check_.changed_input_words(), 0) << kernel_.name << " writes to its input";
    return count_;
  }

  /// The failed checks; for tests of wrong kernels.
  std::vector<Wrong> wrong() {
    auto results = check_.results();
    std::erase_if(results, [](const Wrong& one) { return one.words == 0; });
    pending_.clear();
    return results;
  }

 private:
  void read() {
    const auto results = check_.results();
    int shown = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].words == 0) continue;
      if (++shown > 5) break;  // of up to 1024
      ADD_FAILURE() << kernel_.name << " on " << describe(pending_[i]) << ": " << results[i].words
                    << " words are wrong, the first at " << results[i].first
                    << " from the output's start";
    }
    pending_.clear();
  }

  const Kernel<Problem>& kernel_;
  profiling::Stream stream_;
  PlaceCheck check_;
  std::vector<Placement> pending_;
  int count_ = 0;
};

}  // namespace reprolab::transpose
