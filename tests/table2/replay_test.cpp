// A forward pass replayed, small. Times are only asked to be there, and to agree with each other.
#include "experiments/table2/replay.hpp"

#include "reference/compare.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/message_of.hpp"
#include "tests/text.hpp"

namespace reprolab::table2 {
namespace {

/// Two layers of small matrices; q and o have equally many weights but not the same shape.
const nf4::Model tiny{"tiny",
                      2,
                      {{"q", 512, 256},
                       {"k", 128, 256},
                       {"v", 128, 256},
                       {"o", 256, 512},
                       {"gate", 768, 256},
                       {"up", 768, 256},
                       {"down", 256, 768}}};

VariantInfo kernel(const std::string& name) {
  const auto all = nf4::registered_kernels();
  return *std::ranges::find(all, name, &VariantInfo::name);
}

/// A recorder that was started before the first CUDA call, a stream, and a proven comparison.
class OnGpuReplay : public OnGpuTest {
 protected:
  struct Bench {
    Bench() : comparison(stream.get()) { reference::prove_comparison(); }
    profiling::Stream stream;
    DeviceComparison comparison;
  };
};

TEST_F(OnGpuReplay, HoldsEveryLayerAndItsWeights) {
  const Bench bench;
  const Replay replay(tiny, 64, 1, bench.comparison, bench.stream.get());
  EXPECT_EQ(replay.layers_resident(), 2);
  EXPECT_EQ(replay.weights_resident(), tiny.weights());
}

TEST_F(OnGpuReplay, EveryKernelVerifiesAsPromisedBeforeAndAfterPasses) {
  const Bench bench;
  Replay replay(tiny, 64, 1, bench.comparison, bench.stream.get());
  for (const auto& variant : nf4::registered_kernels()) {
    if (variant.name.starts_with("test_")) continue;
    const Outcome expected =
        variant.deviation.empty() ? Outcome::bit_exact : Outcome::deviation_as_declared;
    const Verification found = replay.verify(variant);
    EXPECT_EQ(name(found.outcome), name(expected)) << variant.name << ": " << found.reason;
    EXPECT_EQ(found.reason.empty(), variant.deviation.empty()) << variant.name;
    for (const int batch : {2, 64}) replay.pass(variant, batch, nullptr);
    EXPECT_EQ(name(replay.verify_copies(variant).outcome), name(expected)) << variant.name;
  }
}

TEST_F(OnGpuReplay, AKernelThatBreaksIsReportedWithItsMatrixOrReason) {
  const Bench bench;
  Replay replay(tiny, 64, 1, bench.comparison, bench.stream.get());
  const Verification swapped = replay.verify(kernel("test_swapped_nibbles"));
  EXPECT_EQ(swapped.outcome, Outcome::mismatch);
  EXPECT_TRUE(contains(swapped.reason, " weights differ; first at index "));
  const Verification copies = replay.verify_copies(kernel("test_swapped_nibbles"));
  EXPECT_EQ(copies.outcome, Outcome::mismatch);
  EXPECT_TRUE(begins(copies.reason, "tiny.q: "));
  EXPECT_EQ(replay.verify(kernel("test_too_many_threads")).outcome, Outcome::launch_failed);
  EXPECT_EQ(replay.verify(kernel("test_supports_nothing")).outcome, Outcome::unsupported);
  EXPECT_EQ(replay.verify(kernel("test_deviates_not")).outcome, Outcome::mismatch);
  EXPECT_EQ(replay.verify(kernel("test_sound")).outcome, Outcome::bit_exact);
}

TEST_F(OnGpuReplay, APassHasTimesOfBothHalvesUnderARecorderAndNoneWithout) {
  profiling::ActivityRecorder recorder;
  recorder.start();
  const Bench bench;
  Replay replay(tiny, 64, 1, bench.comparison, bench.stream.get());
  const VariantInfo shared_lut = kernel("shared_lut");
  ASSERT_EQ(replay.verify(shared_lut).outcome, Outcome::bit_exact);
  recorder.flush();
  for (const int batch : {2, 64}) {
    const PassTime time = replay.pass(shared_lut, batch, &recorder);
    EXPECT_GT(time.dequantize_us, 0);
    EXPECT_GT(time.product_us, 0);
  }
  const PassTime unwatched = replay.pass(shared_lut, 2, nullptr);
  EXPECT_EQ(unwatched.dequantize_us, 0);
  EXPECT_EQ(unwatched.product_us, 0);
}

/// Of our kernels, which take one launch each; a library may take several.
TEST_F(OnGpuReplay, RecordsThatDoNotAccountForEveryLaunchAreAnError) {
  profiling::ActivityRecorder recorder;
  recorder.start();
  const Bench bench;
  Replay replay(tiny, 64, 1, bench.comparison, bench.stream.get());
  VariantInfo twice = kernel("test_launches_twice");
  const char* text =
      "tiny: CUPTI recorded 28 kernels of 14 launches of test_launches_twice; a time without the "
      "rest would be worth nothing, so run again";
  EXPECT_EQ(message_of<std::runtime_error>([&] { replay.pass(twice, 2, &recorder); }), text);
  EXPECT_EQ(message_of<std::runtime_error>([&] { replay.check_instruments(twice, recorder); }),
            text);
  EXPECT_NO_THROW(replay.pass(twice, 2, nullptr));
  twice.role = Role::peer;
  EXPECT_GT(replay.pass(twice, 2, &recorder).dequantize_us, 0);
}

/// Two clocks on the same kernels. Layers of an 8B model, so that what the events add at the ends
/// is little against the span.
TEST_F(OnGpuReplay, EventsAndActivityAgreeOnAPassOfDequantizations) {
  const nf4::Model model{"eight-b",
                         16,
                         {{"q", 4096, 4096},
                          {"k", 1024, 4096},
                          {"v", 1024, 4096},
                          {"o", 4096, 4096},
                          {"gate", 14336, 4096},
                          {"up", 14336, 4096},
                          {"down", 4096, 14336}}};
  profiling::ActivityRecorder recorder;
  recorder.start();
  const Bench bench;
  Replay replay(model, 2, 1, bench.comparison, bench.stream.get());
  for (const char* name : {"branch_tree", "shared_lut"}) {
    ASSERT_EQ(replay.verify(kernel(name)).outcome, Outcome::bit_exact);
    replay.pass(kernel(name), 2, &recorder);
    const InstrumentCheck check = replay.check_instruments(kernel(name), recorder);
    EXPECT_EQ(check.name, std::string("eight-b/") + name + ": events against activity");
    EXPECT_EQ(check.unit, "us");
    EXPECT_EQ(check.allowed_percent, 1.0);
    EXPECT_GT(check.second, 0);
    EXPECT_TRUE(check.passed()) << check.first << " us and " << check.second << " us";
  }
}

}  // namespace
}  // namespace reprolab::table2
