// Matrices as problems of the harness: their plans, their data and their descriptions.
#include "harness/transpose/workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/verifier.hpp"
#include "tests/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

TEST(Plan, HasTheFactsOfTheMatrix) {
  const PlannedProblem planned =
      plan({.rows = 100, .columns = 132, .padding = 4, .data = Data::constant});
  EXPECT_EQ(planned.facts.name, "100x132+4/constant");
  EXPECT_EQ(planned.facts.description,
            nlohmann::json::parse(R"({"name": "100x132+4/constant", "family": "transpose",
              "n": 13200, "rows": 100, "columns": 132, "in_stride": 136, "out_stride": 104,
              "data": "constant", "checked_on": "host"})"));
  const std::int64_t in = 99 * 136 + 132, out = 131 * 104 + 100;  // elements, gaps included
  EXPECT_EQ(planned.facts.elements, out);
  EXPECT_EQ(planned.facts.element_bytes, 4);
  EXPECT_EQ(planned.facts.bytes_read, 13200u * 4) << "gaps are not read";
  EXPECT_EQ(planned.facts.bytes_written, 13200u * 4) << "gaps are not written";
  EXPECT_EQ(planned.buffer_set_device_bytes,
            static_cast<std::uint64_t>(4 * (in + out)) + guard_bytes);
  EXPECT_EQ(planned.host_bytes, static_cast<std::uint64_t>(4 * (in + out)));
  EXPECT_FALSE(planned.timed) << "constant data is the post's check, and gets no time";
  EXPECT_EQ(plan({.rows = 2, .columns = 3}).facts.description.at("data"), "random");
  EXPECT_TRUE(plan({.rows = 2, .columns = 3}).timed);
}

class OnGpuTranspose : public OnGpuTest {};

using Bits = std::vector<std::uint32_t>;

Bits to_host(const void* device, std::size_t elements) {
  Bits bits(elements);
  profiling::check(cudaMemcpy(bits.data(), device, 4 * elements, cudaMemcpyDeviceToHost),
                   "copying to the host");
  return bits;
}

/// 46352 x 46352 elements: more than 2^31, in 26 GB with the output and the expected output.
TEST_F(OnGpuTranspose, LargeMatricesAreVerifiedOnTheDevice) {
  const MatrixSpec spec{.rows = 46352, .columns = 46352};
  ASSERT_GT(spec.elements(), max_on_host);
  const std::string why = lacks_memory(std::uint64_t{27} << 30);
  if (!why.empty()) GTEST_SKIP() << why;
  reference::self_test_comparison();
  const profiling::Stream stream;
  const Comparisons comparisons(stream.get());
  const auto instrument = profiling::make_instrument(profiling::InstrumentKind::events);
  const TransposeWorkload workload(spec, 5, 1);
  EXPECT_TRUE(workload.bounds(0, "").low.empty());
  Verifier verifier(workload, comparisons, stream.get());
  VariantInfo tiled;
  tiled.name = "tiled";
  EXPECT_EQ(name(verifier.verify(tiled, *instrument).outcome), "bit_exact");
  // Only the last element is wrong, beyond 2^31.
  constexpr std::int64_t last = std::int64_t{46352} * 46352 - 1;
  auto* const output = static_cast<std::uint32_t*>(workload.output(0));
  ASSERT_EQ(workload.launch("tiled", 0, stream.get()), cudaSuccess);
  profiling::check(cudaMemsetAsync(output + last, 0x11, 4, stream.get()), "spoiling");
  const Verification spoilt = verifier.judge(tiled, 0, output);
  EXPECT_EQ(name(spoilt.outcome), "mismatch");
  EXPECT_EQ(spoilt.comparison.mismatches, 1);
  EXPECT_EQ(spoilt.comparison.first_mismatch, last);
  EXPECT_EQ(spoilt.reason,
            describe_mismatch(spoilt.comparison, spec,
                              value_bits(spec.data, spec.columns, 46351, 46351, 5), 0x11111111u));
}

}  // namespace
}  // namespace reprolab::transpose
