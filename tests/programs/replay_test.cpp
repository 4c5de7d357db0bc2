// The bytes of a forward pass, the number of a model's layers that fit on a GPU, and a small
// replayed pass. Times are only checked to exist.
#include "harness/programs/replay/replay.hpp"

#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

const Model model{"small", 10, {{"q", 128, 64}, {"o", 64, 128}, {"gate", 256, 64}}};
const TensorSpec plain{}, nested{.nested = true};

TEST(LayersThatFit, AreThoseForWhichThereIsRoom) {
  // 8192, 8192 and 16384 weights: codes, and a scale for each 64 of them; nested, scales of one
  // byte, and 4 bytes for each 256 scales.
  const std::uint64_t layer = 2 * (4096 + 4 * 128) + 8192 + 4 * 256;
  EXPECT_EQ(layer_bytes(model, plain), layer);
  EXPECT_EQ(layer_bytes(model, nested), 2u * (4096 + 128 + 4) + 8192 + 256 + 4);
  // Each size's different matrices with their outputs.
  constexpr std::uint64_t reserve = std::uint64_t{1} << 30;
  const std::uint64_t inputs = 2 * (4096 + 4 * 128 + 8192 + 4 * 256);
  const std::uint64_t outputs = 5 * 2 * (8192 + 16384), largest = 2 * 16384;
  const std::uint64_t working = reserve + largest + outputs + inputs + 4 * 8 * 256;
  EXPECT_EQ(working_bytes(model, plain, 8), working);

  std::string why_none;
  const auto fitting = [&](std::uint64_t bytes) {
    return layers_that_fit(model, plain, 8, bytes, why_none);
  };
  EXPECT_EQ(fitting(100 * working), 10) << "never more than there are";
  EXPECT_EQ(fitting(working + 10 * layer), 10);
  EXPECT_EQ(fitting(working + 10 * layer - 1), 9);
  EXPECT_EQ(fitting(working + layer), 1);
  EXPECT_EQ(why_none, "");
  EXPECT_EQ(fitting(working + layer - 1), 0);
  EXPECT_EQ(why_none, "one layer and its outputs take 1.1 GB of device memory, 1.1 GB are free");
}

TEST(PassFacts, LeastTimeIsOfWhatIsReadAndWhatOutgrowsTheCache) {
  profiling::Gpu gpu;
  gpu.l2_bytes = 20'000;  // the outputs are 16384, 16384 and 32768 bytes
  EXPECT_EQ(min_pass_us(model, plain, gpu), 0) << "of an unknown bandwidth";
  gpu.theoretical_bandwidth_gb_s = 1;
  const auto read = static_cast<double>(10 * layer_bytes(model, plain));
  EXPECT_DOUBLE_EQ(min_pass_us(model, plain, gpu), 1e-3 * (read + 10 * (32'768 - 20'000)));
}

TEST(PassFacts, DescribeThePassAndTheLayersWhereTheyAreKnown) {
  const ProblemFacts facts = pass_facts(model, nested, 8, 3);
  EXPECT_EQ(described(facts), nlohmann::json::parse(R"({
    "name": "small/batch8/fp16/b64-nested", "family": "nf4", "model": "small", "batch": 8,
    "layers": 10, "launches": 30, "weights": 327680, "block_size": 64, "nested": true,
    "output": "fp16", "layers_resident": 3, "weights_resident": 98304})"));
  EXPECT_FALSE(pass_facts(model, nested, 8).description.contains("layers_resident"));
  EXPECT_EQ(facts.bytes_read, 10 * layer_bytes(model, nested));
  EXPECT_EQ(facts.bytes_written, 2u * 327680);
}

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

VariantInfo kernel(const std::string& name) { return variant_named<Problem>(name); }

using profiling::InstrumentKind;

/// A model in device memory, and its replay. The instrument is made before any CUDA call.
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
  EXPECT_EQ(bench.verify("test_does_not_deviate").outcome, Outcome::mismatch);
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
  // CUDA's message depends on its version.
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
