// --clocks as users of bench and replay meet it. The GPU's own clocks are left alone: a fake NVML
// takes the locks and records them.
#include <csignal>
#include <thread>

#include "tests/on_gpu.hpp"
#include "tests/profiling/lock_log.hpp"
#include "tests/programs/program.hpp"
#include "tests/started_program.hpp"

namespace reprolab {
namespace {

using profiling::ScopedVariable;

const std::string bench_one = "--kernel shared_lut --shape 64x1024 --samples 2 --batch-us 20 ";

class OnGpuClocks : public NeedsGpu<Programs> {
 protected:
  nlohmann::json seen() const {
    return read_json(folder_.path() / "results.json")["provenance"]["clocks"];
  }

  const profiling::LockLog log_;
  const ScopedVariable library_{"REPROLAB_NVML", FAKE_NVML}, any_gpu_{"FAKE_NVML_ANY_GPU", "1"};
};

TEST_F(OnGpuClocks, AreLockedForThePassAndInItsResult) {
  const Finished found = run(BENCH, bench_one + "--clocks 1410 --output results.json");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.err, "");
  EXPECT_TRUE(found.out.starts_with("locking the SM clock at 1410 MHz; afterwards"));
  EXPECT_EQ(seen()["policy"], "locked");
  EXPECT_EQ(seen()["locked_mhz"], 1410);
  EXPECT_EQ(log_.lines(), profiling::whole_lock(1410));
}

TEST_F(OnGpuClocks, AreObservedUnlessAskedFor) {
  EXPECT_EQ(run(BENCH, bench_one + "--output results.json").status, 0);
  EXPECT_EQ(seen()["policy"], "observed");
  EXPECT_TRUE(seen()["locked_mhz"].is_null());
  EXPECT_TRUE(log_.lines().empty());
}

/// Everything happens in one process then.
TEST_F(OnGpuClocks, AreLockedUnderAProfilerToo) {
  const Finished found = run(BENCH, bench_one + "--instrument none --clocks max");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(log_.lines(), profiling::whole_lock(1980));
}

TEST_F(OnGpuClocks, ThatCannotBeLockedEndThePassBeforeItBegins) {
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks"),
      error("FAKE_NVML_ERROR", "4");
  const Finished found = run(BENCH, bench_one + "--clocks 1410 --output results.json");
  EXPECT_EQ(found.status, 2);
  EXPECT_EQ(found.err,
            "bench: --clocks: NVML does not lock the SM clock: Insufficient Permissions; it takes "
            "root with CAP_SYS_ADMIN; leave --clocks out to measure without a lock\n");
  EXPECT_TRUE(log_.lines().empty());
  expect_no_files();
}

TEST_F(OnGpuClocks, ThatTheGpuLacksAreRefusedByADryRunToo) {
  for (const std::string dry_run : {"", "--dry-run"}) {
    const Finished found = run(BENCH, bench_one + dry_run + " --clocks 1400");
    EXPECT_EQ(found.status, 2);
    EXPECT_EQ(found.err,
              "bench: --clocks: this GPU has no SM clock of 1400 MHz; the nearest is 1395 (210 to "
              "1980 MHz); leave --clocks out to measure without a lock\n");
  }
  EXPECT_TRUE(log_.lines().empty());
}

/// At several moments: as soon as there is a lock, and while the worker measures.
TEST_F(OnGpuClocks, OfAnEndedProgramAreReleased) {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    for (const int wait_ms : {0, 500, 3000}) {
      log_.clear();
      StartedProgram bench({BENCH, "--kernel", "shared_lut", "--shape", "4096x4096", "--samples",
                            "100000", "--clocks", "1410"});
      log_.wait_for("locked");
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      bench.send(signal);
      EXPECT_TRUE(WIFSIGNALED(bench.wait()));
      EXPECT_EQ(bench.errors(), "");
      EXPECT_EQ(log_.lines(), profiling::whole_lock(1410)) << signal << " after " << wait_ms;
    }
  }
}

TEST_F(OnGpuClocks, OfAReplayAreLockedAndReleased) {
  const Finished found =
      run(REPLAY, "--models llama-3.1-8b --batches 2 --passes 1 --kernel shared_lut --clocks 1410");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(log_.lines(), profiling::whole_lock(1410));
}

}  // namespace
}  // namespace reprolab
