// A small replayed forward pass. Times are only checked to exist and to agree with each other.
#include "programs/replay/replay.hpp"

#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

/// Two layers of small matrices; q and o have equally many weights but not the same shape.
const Model tiny{"tiny",
                 2,
                 {{"q", 512, 256},
                  {"k", 128, 256},
                  {"v", 128, 256},
                  {"o", 256, 512},
                  {"gate", 768, 256},
                  {"up", 768, 256},
                  {"down", 256, 768}}};

VariantInfo kernel(const std::string& name) {
  const auto all = registered_kernels();
  return *std::ranges::find(all, name, &VariantInfo::name);
}

using profiling::InstrumentKind;

/// A model in device memory, and what replays it. The instrument is made before any CUDA call.
struct Bench {
  explicit Bench(InstrumentKind kind = InstrumentKind::none, const TensorSpec& format = {},
                 const Model& model = tiny, std::int64_t layers = 2)
      : instrument((reference::self_test_comparison(), profiling::make_instrument(kind))),
        comparisons(stream.get()),
        replay(model, format, layers, 64, 1, "test", comparisons, stream.get()) {}

  Verification verify(const std::string& name) { return replay.verify(kernel(name), *instrument); }

  std::unique_ptr<profiling::Instrument> instrument;
  profiling::Stream stream;
  Comparisons comparisons;
  Replay replay;
};

class OnGpuReplay : public OnGpuTest {};

TEST_F(OnGpuReplay, AKernelThatBreaksIsReportedWithItsMatrixOrReason) {
  Bench bench;
  const Verification swapped = bench.verify("test_swapped_nibbles");
  EXPECT_EQ(swapped.outcome, Outcome::mismatch);
  EXPECT_TRUE(contains(swapped.reason, " weights differ; first at index "));
  const Verification copies = bench.replay.verify_copies(kernel("test_swapped_nibbles"));
  EXPECT_EQ(copies.outcome, Outcome::mismatch);
  EXPECT_TRUE(begins(copies.reason, "tiny.q: "));
  EXPECT_EQ(bench.verify("test_too_many_threads").outcome, Outcome::launch_failed);
  EXPECT_EQ(bench.verify("test_supports_nothing").outcome, Outcome::unsupported);
  EXPECT_EQ(bench.verify("test_deviates_not").outcome, Outcome::mismatch);
  EXPECT_EQ(bench.verify("test_sound").outcome, Outcome::bit_exact);
}

/// A kernel that is wrong in a timed pass is detected in that pass.
TEST_F(OnGpuReplay, APassComparesSomeOfItsOwnOutputs) {
  Bench bench;
  const auto wrong = bench.replay.pass(kernel("test_swapped_nibbles"), 2, *bench.instrument);
  EXPECT_EQ(wrong.written.outcome, Outcome::mismatch);
  EXPECT_TRUE(
      matches(wrong.written.reason, "[0-9]+ weights differ in the 8 outputs that were compared"));
  const auto failed = bench.replay.pass(kernel("test_too_many_threads"), 2, *bench.instrument);
  EXPECT_EQ(failed.written.outcome, Outcome::launch_failed);
  // Which of CUDA's messages it is depends on the CUDA version.
  EXPECT_TRUE(matches(failed.written.reason,
                      "launch: invalid .* \\(cudaErrorInvalid(Value|Configuration)\\)"));
  const auto right = bench.replay.pass(kernel("test_sound"), 2, *bench.instrument);
  EXPECT_EQ(name(right.written.outcome), "not_verified") << right.written.reason;
}

/// If fewer layers are resident than the model has, they are reused cyclically.
TEST_F(OnGpuReplay, OneResidentLayerServesAWholePass) {
  Bench bench(InstrumentKind::activity, {}, tiny, 1);
  ASSERT_EQ(bench.verify("shared_lut").outcome, Outcome::bit_exact);
  EXPECT_EQ(bench.replay.pass(kernel("shared_lut"), 2, *bench.instrument).sample.launched.size(),
            14u);
}

}  // namespace
}  // namespace reprolab::nf4
