// The rows and the clocks of a pass, with a fake NVML and without a GPU: nothing here is measured.
#include "harness/pass.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/errors.hpp"
#include "profiling/basics.hpp"
#include "tests/profiling/testing.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using Lines = std::vector<std::string>;
using profiling::ScopedVariable;

/// A kernel that crashes the worker has its own rows, and the others have the worker's.
TEST(MeasureIn, HasRowsOfEveryKernel) {
  std::vector<VariantInfo> kernels(3);
  kernels[0].name = "exits", kernels[1].name = "lacks memory", kernels[2].name = "last";
  const auto row_of = [](const VariantInfo& kernel, const Verification& verified) {
    return start_row({.name = "a problem"}, kernel, verified).record;
  };
  Worker worker(
      [&](const Worker::Json& request, const Watchdog& watchdog) -> Worker::Json {
        std::vector<Record> records;
        for (const auto& kernel : selected_kernels(request, kernels)) {
          watchdog.turn(kernel.name, [&] {
            if (kernel.name == "exits") std::exit(3);
            if (kernel.name == "lacks memory") throw NotMeasured("no memory");
          });
          records.push_back(row_of(kernel, {Outcome::bit_exact}));
        }
        return {{"records", records}};
      },
      std::chrono::seconds(60));
  const auto [records, answer] =
      measure_in(worker, {}, kernels, [&](const VariantInfo& kernel, const Verification& why) {
        return std::vector{row_of(kernel, why)};
      });
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].key, "a problem/last");
  EXPECT_EQ(describe_ending(records[0]), "bit_exact");
  EXPECT_EQ(records[1].key, "a problem/exits");
  EXPECT_EQ(name(records[1].outcome), "launch_failed");
  EXPECT_TRUE(ends(records[1].reason, "exit status 3"));
  EXPECT_EQ(describe_ending(records[2]), "not_measured: no memory");
}

/// A group is measured once, and again if not all of it was.
TEST(MeasureIn, ReusesWholeGroupsOfAnInterruptedRun) {
  const OwnFolder folder;
  std::vector<VariantInfo> kernels(1);
  kernels[0].name = "a";
  const auto row_of = [](const VariantInfo& kernel, const Verification& verified) {
    return start_row({.name = "a problem"}, kernel, verified).record;
  };
  const auto measure = [&](const char* problem, Outcome outcome) {
    UnfinishedRun run(folder.path() / "r.json", {{"argv", {"bench"}}}, true);
    Worker worker(
        [&](const Worker::Json&, const Watchdog&) -> Worker::Json {
          return {{"records", {row_of(kernels[0], {outcome, "now"})}}, {"lost_bytes", 7}};
        },
        std::chrono::seconds(60), &run);
    return measure_in(worker, {{"name", problem}}, kernels,
                      [&](const VariantInfo& kernel, const Verification& why) {
                        return std::vector{row_of(kernel, why)};
                      });
  };
  measure("p", Outcome::bit_exact);
  const auto again = measure("p", Outcome::mismatch);
  EXPECT_EQ(again.records.at(0).outcome, Outcome::bit_exact);
  EXPECT_EQ(again.answer.json.at("lost_bytes"), 7);
  measure("q", Outcome::not_measured);
  EXPECT_EQ(measure("q", Outcome::mismatch).records.at(0).outcome, Outcome::mismatch);
}

class PassClocks : public testing::Test {
 protected:
  int run(const std::string& clocks, const std::function<void(ResultFile&)>& measure) const {
    const PassOptions options{.experiment = "a",
                              .pass = "b",
                              .output = folder_.path() / "results.json",
                              .clocks = profiling::parse_clock_policy(clocks)};
    testing::internal::CaptureStdout();
    const int status = run_pass(options, {"bench"}, machine_,
                                [&](ResultFile& results, UnfinishedRun&) { measure(results); });
    printed_ = testing::internal::GetCapturedStdout();
    return status;
  }

  /// One row, so that there is something to report.
  static void add_row(ResultFile& results) {
    Record& row = results.records.emplace_back();
    row.key = "c";
    row.outcome = Outcome::bit_exact;
  }

  nlohmann::json clocks() const {
    return read_json(folder_.path() / "results.json")["provenance"]["clocks"];
  }

  const OwnFolder folder_;
  const profiling::LockLog log_;
  const ScopedVariable library_{"REPROLAB_NVML", FAKE_NVML}, any_gpu_{"FAKE_NVML_ANY_GPU", "1"},
      sm_{"FAKE_NVML_SM_MHZ", "1410"};
  /// No GPU of a real NVML.
  const Machine machine_{.gpu = {{"compute_capability", "9.0"}},
                         .pci_bus_id = "test-" + std::to_string(getpid()),
                         .free = {}};
  mutable std::string printed_;
};

TEST_F(PassClocks, AreLockedWhileItMeasures) {
  EXPECT_EQ(run("1410",
                [&](ResultFile& results) {
                  add_row(results);
                  EXPECT_EQ(log_.lines(), (Lines{"locking 1410-1410", "locked"}));
                }),
            exit_verified);
  EXPECT_EQ(log_.lines(), profiling::whole_lock(1410));
  EXPECT_TRUE(begins(printed_, "the SM clock is locked at 1410 MHz; "));
  EXPECT_EQ(clocks()["policy"], "locked");
  EXPECT_EQ(clocks()["locked_mhz"], 1410);
  EXPECT_EQ(clocks()["sm_mhz"]["median"], 1410);
}

TEST_F(PassClocks, AreObservedWithoutALock) {
  EXPECT_EQ(run("observe", add_row), exit_verified);
  EXPECT_EQ(log_.lines(), Lines{});
  EXPECT_EQ(printed_, "");
  EXPECT_EQ(clocks()["policy"], "observed");
  EXPECT_TRUE(clocks()["locked_mhz"].is_null());
}

/// Its kernels would take bandwidth and clocks from those that are measured.
TEST_F(PassClocks, AnotherProcessOnTheGpuRefusesThePass) {
  const ScopedVariable busy("FAKE_NVML_PIDS", "4711");
  const auto why = message_of<UsageError>([&] { run("observe", add_row); });
  testing::internal::GetCapturedStdout();
  EXPECT_TRUE(contains(why, "4711"));
  EXPECT_TRUE(folder_.names().empty());
}

/// An interrupted run's groups stay where a later run fails, and go when their file is written.
TEST_F(PassClocks, APassThatFailsKeepsFinishedGroups) {
  using Names = std::vector<std::string>;
  folder_.write("results.json.partial", "{}");
  const auto fail = [](ResultFile&) { throw std::runtime_error("the GPU is gone"); };
  EXPECT_EQ(message_of<std::runtime_error>([&] { run("observe", fail); }), "the GPU is gone");
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(folder_.names(), Names{"results.json.partial"});
  run("observe", add_row);
  EXPECT_EQ(folder_.names(), Names{"results.json"});
}

TEST_F(PassClocks, AreResetAfterAFailure) {
  const auto fail = [](ResultFile&) { throw std::runtime_error("the GPU is gone"); };
  EXPECT_EQ(message_of<std::runtime_error>([&] { run("max", fail); }), "the GPU is gone");
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(log_.lines(), profiling::whole_lock(1980));
}

TEST_F(PassClocks, ThatCannotBeLockedEndThePassBeforeItMeasures) {
  const auto never = [](ResultFile&) { FAIL() << "measures"; };
  const auto expect_clocks_refused = [&] {
    EXPECT_NE(message_of<UsageError>([&] { run("1410", never); }), "");
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  };
  {
    const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks"),
        error("FAKE_NVML_ERROR", "4");
    expect_clocks_refused();
  }
  const ScopedVariable lacking("FAKE_NVML_SM_CLOCKS", "1980,1395");
  expect_clocks_refused();
  EXPECT_EQ(log_.lines(), Lines{});
  EXPECT_TRUE(folder_.names().empty());
}

}  // namespace
}  // namespace reprolab
