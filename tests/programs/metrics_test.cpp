// The program `metrics`, which needs no GPU.
#include "profiling/cupti_library.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

const std::string metrics = built("metrics");

class MetricsProgram : public Programs {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::open_cupti(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }
};

TEST_F(MetricsProgram, ListsTheTableWithPassesAndMissingMetrics) {
  const std::string listed = output_of(metrics, "--chip GA100");
  EXPECT_TRUE(begins(listed, "column                             passes unit           metric\n"));
  EXPECT_TRUE(
      has_match(listed, "\nwarp_instructions +1 instructions +smsp__inst_executed\\.sum\n"));
  EXPECT_TRUE(has_match(listed, "\nl2_hit_rate +2 % +lts__t_sector_hit_rate\\.pct\n"));
  EXPECT_TRUE(has_match(listed, "\ntma_loads +- missing: .*smsp__inst_executed_op_tma_ld\\.sum\n"));
  EXPECT_TRUE(has_match(listed, "\n\nGA100: [0-9]+ of [0-9]+ columns .* [0-9]+ passes"));
}

TEST_F(MetricsProgram, ListsMatchingMetrics) {
  const std::string listed =
      output_of(metrics, "--chip GA100 --metrics 'dram__bytes_*,l1_*,sm__cycles_elapsed.max'");
  EXPECT_TRUE(begins(listed,
                     "dram__bytes_read (counter, byte)\n    # of bytes read from DRAM\n"
                     "dram__bytes_write (counter, byte)\n"));
  EXPECT_TRUE(has_match(listed, "\nl1_hit_rate +1 % +l1tex__t_sector_hit_rate\\.pct\n    Share "));
  EXPECT_TRUE(has_match(listed, "\nsm__cycles_elapsed\\.max +1 gpc_cycle +sm__cycles_elapsed"));
  EXPECT_TRUE(
      contains(listed, "\nA counter is read with an ending, dram__bytes_read.sum: .sum .avg "));
}

TEST_F(MetricsProgram, MapsAProductToItsChip) {
  for (const auto& [product, chip] : std::map<std::string, std::string>{
           {"A100", "GA100"}, {"H100", "GH100"}, {"T4", "TU104"}, {"'RTX 4090'", "AD102"}}) {
    const std::string listed = output_of(metrics, "--chip " + product);
    EXPECT_TRUE(contains(listed, "\n" + chip + ": ")) << product;
  }
}

TEST_F(MetricsProgram, RefusesInOneLineWithTheKnownNames) {
  expect_refusal_by_cli11(metrics, "--nosuch");
  expect_refusal(metrics, "--chip GA100 --metrics nosuch");
  expect_refusal(metrics, "--chip GA100 --metrics sm__nosuch.sum");
  // The installed CUPTI has the chips.
  EXPECT_TRUE(contains(refusal(metrics, ""), "--chip (make: CHIP): AD102, "));
  EXPECT_TRUE(contains(refusal(metrics, "--chip GA10O"), "(did you mean GA100?)"));
}

}  // namespace
}  // namespace reprolab
