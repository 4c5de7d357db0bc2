// A whole measurement on a small problem. Times are only asked to be there.
#include "experiments/harness/measure.hpp"

#include <map>
#include <set>

#include "experiments/harness/verifier.hpp"
#include "experiments/nf4/workload.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using nf4::make_row;

TEST(Ceilings, AreFiveAndNoKernels) {
  std::vector<std::string> names;
  for (const auto& ceiling : ceiling_variants()) {
    names.push_back(ceiling.name);
    EXPECT_EQ(ceiling.role, Role::ceiling);
    EXPECT_FALSE(ceiling.lineage.empty());
    EXPECT_EQ(ceiling.source_file, "profiling/ceilings.cu");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"copy", "copy_kernel", "read_only", "same_bytes",
                                             "write_only"}));
}

TEST(CompareOnHost, TakesElementsOfTwoOrFourBytes) {
  const std::uint32_t a[3] = {1, 2, 3}, b[3] = {1, 2, 0x10003};
  const auto compare = [&](int bytes) {
    return compare_on_host(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), bytes);
  };
  EXPECT_EQ(compare(4).first_mismatch, 2);
  EXPECT_EQ(compare(2).first_mismatch, 5);
  EXPECT_THROW(compare(8), std::invalid_argument);
}

class OnGpuMeasurement : public OnGpuTest {
 protected:
  static constexpr int samples = 3;

  /// Records by kernel, of every registered kernel but the one that would end the process.
  std::map<std::string, Record> measure(profiling::Instrument instrument, bool ceilings = true) {
    const nf4::Tensor tensor = make_row(100003);
    const nf4::Nf4Workload workload(nf4::facts_of(tensor), tensor, 3);
    auto variants = nf4::registered_kernels();
    std::erase_if(variants, [](const VariantInfo& v) { return v.name == "test_trap"; });
    count_ = variants.size();
    Measurement measurement;
    const auto records = measurement.run(workload, variants,
                                         {.experiment = "test",
                                          .samples = samples,
                                          .batch_us = 50,
                                          .ceilings = ceilings,
                                          .instrument = instrument});
    std::map<std::string, Record> by_kernel;
    for (const Record& record : records) by_kernel[record.variant.name] = record;
    EXPECT_EQ(by_kernel.size(), records.size());
    return by_kernel;
  }

  std::size_t count_ = 0;  ///< Kernels measured.
};

TEST_F(OnGpuMeasurement, HasARecordForEveryKernelAndCeilingWithItsSamples) {
  const auto records = measure(profiling::Instrument::events);
  EXPECT_EQ(records.size(), count_ + 5);
  std::set<std::string> keys;
  for (const auto& [kernel, record] : records) {
    keys.insert(record.key);
    EXPECT_EQ(record.key, "fp16/b64/" + kernel);
    const bool timed = record.variant.role == Role::ceiling || may_be_timed(record.outcome);
    EXPECT_EQ(record.samples_us.size(), timed ? samples : 0) << kernel;
    for (const double us : record.samples_us) EXPECT_GT(us, 0) << kernel;
    EXPECT_EQ(record.problem.at("family"), "nf4");
    EXPECT_TRUE(record.product_samples_us.empty());
    EXPECT_EQ(record.clocks.sm_mhz_during.has_value(), timed) << kernel;
  }
  EXPECT_EQ(keys.size(), records.size());
}

TEST_F(OnGpuMeasurement, EveryRowEndsAsItMust) {
  const auto records = measure(profiling::Instrument::events);
  for (const auto& [kernel, record] : records) {
    if (kernel.starts_with("test_")) continue;
    const Outcome expected = record.variant.role == Role::ceiling ? Outcome::not_verified
                             : record.variant.deviation.empty()   ? Outcome::bit_exact
                                                                  : Outcome::deviation_as_declared;
    EXPECT_EQ(name(record.outcome), name(expected)) << kernel << ": " << record.reason;
  }
  EXPECT_EQ(records.at("test_sound").outcome, Outcome::bit_exact);
  EXPECT_EQ(records.at("test_deviates").outcome, Outcome::deviation_as_declared);
  EXPECT_EQ(records.at("test_swapped_nibbles").outcome, Outcome::mismatch);
  EXPECT_TRUE(contains(records.at("test_wrong_entry").reason, ", code 5 "));
  EXPECT_GT(records.at("test_wrong_entry").mismatches.value(), 0);
  EXPECT_GT(records.at("test_deviates").mismatches.value(), 0);
  for (const auto& [kernel, record] : records) {
    EXPECT_FALSE(record.mismatches && record.outcome == Outcome::bit_exact) << kernel;
  }
  EXPECT_EQ(records.at("test_too_many_threads").outcome, Outcome::launch_failed);
  EXPECT_EQ(records.at("test_supports_nothing").outcome, Outcome::unsupported);
  EXPECT_EQ(records.at("test_supports_nothing").reason, "a test's kernel: runs nothing");
}

TEST_F(OnGpuMeasurement, BytesAreThoseOfTheLaunchAndOfEachCeiling) {
  const auto records = measure(profiling::Instrument::events);
  const std::uint64_t read = 50002 + 4 * 1563, written = 200006;
  const auto expect_bytes = [&](const char* row, std::uint64_t in, std::uint64_t out) {
    EXPECT_EQ(records.at(row).bytes_read, in) << row;
    EXPECT_EQ(records.at(row).bytes_written, out) << row;
  };
  expect_bytes("shared_lut", read, written);
  expect_bytes("same_bytes", read, written);
  expect_bytes("write_only", 0, written);
  expect_bytes("read_only", written, 0);
  expect_bytes("copy", (read + written) / 2, (read + written) / 2);
  expect_bytes("copy_kernel", (read + written) / 2, (read + written) / 2);
}

TEST_F(OnGpuMeasurement, WithoutAnInstrumentNothingIsTimedAndAllIsVerified) {
  const auto records = measure(profiling::Instrument::none);
  EXPECT_EQ(records.size(), count_);
  for (const auto& [kernel, record] : records) {
    EXPECT_TRUE(record.samples_us.empty()) << kernel;
    EXPECT_NE(record.outcome, Outcome::not_verified) << kernel;
    EXPECT_NE(record.variant.role, Role::ceiling) << kernel;
  }
  EXPECT_EQ(records.at("shared_lut").outcome, Outcome::bit_exact);
}

TEST_F(OnGpuMeasurement, CeilingsCanBeLeftOut) {
  EXPECT_EQ(measure(profiling::Instrument::events, false).size(), count_);
}

TEST_F(OnGpuMeasurement, AWrongRowMakesTheExitStatus1) {
  ResultFile file;
  for (const auto& [kernel, record] : measure(profiling::Instrument::none)) {
    if (!kernel.starts_with("test_")) file.records.push_back(record);
  }
  EXPECT_EQ(file.exit_status(), 0);
  file.records.push_back(measure(profiling::Instrument::none).at("test_missing_tail"));
  EXPECT_EQ(file.exit_status(), 1);
}

}  // namespace
}  // namespace reprolab
