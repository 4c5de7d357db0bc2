// --clocks in bench and replay. The GPU's own clocks are not changed: a fake NVML records the
// locks.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "tests/on_gpu.hpp"
#include "tests/profiling/testing.hpp"
#include "tests/programs/program.hpp"

namespace reprolab {
namespace {

using profiling::ScopedVariable;

class OnGpuClocks : public NeedsGpu<Programs> {
 protected:
  const profiling::LockLog log_;
  const ScopedVariable library_{"REPROLAB_NVML", FAKE_NVML}, any_gpu_{"FAKE_NVML_ANY_GPU", "1"};
};

/// In bench also where everything happens in one process.
TEST_F(OnGpuClocks, AreLockedForThePassAndThenReset) {
  const std::string one = "--kernel shared_lut --shape 64x1024 --samples 2 --batch-us 20 ";
  for (const auto& [program, arguments] : std::vector<std::pair<std::string, std::string>>{
           {BENCH, one + "--output results.json"},
           {BENCH, one + "--instrument none"},
           {REPLAY, "--models llama-3.1-8b --batches 2 --passes 1 --kernel shared_lut"}}) {
    log_.clear();
    const Finished finished = run(program, arguments + " --clocks 1410");
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_TRUE(finished.out.starts_with("the SM clock is locked at 1410 MHz; afterwards"));
    EXPECT_EQ(log_.lines(), profiling::whole_lock(1410)) << arguments;
  }
  const auto seen = read_json(folder_.path() / "results.json")["provenance"]["clocks"];
  EXPECT_EQ(seen["policy"], "locked");
  EXPECT_EQ(seen["locked_mhz"], 1410);
}

/// At several moments: as soon as there is a lock, and while the worker measures.
TEST_F(OnGpuClocks, OfAnEndedProgramAreReleased) {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    for (const int wait_ms : {0, 500, 3000}) {
      log_.clear();
      const pid_t bench = fork();
      if (bench == 0) {
        if (!std::freopen("/dev/null", "w", stdout)) _exit(127);
        execl(BENCH, BENCH, "--kernel=shared_lut", "--shape=4096x4096", "--samples=100000",
              "--clocks=1410", nullptr);
        _exit(127);
      }
      log_.wait_for("locked");
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      kill(bench, signal);
      int status = 0;
      waitpid(bench, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << status;
      log_.wait_for("reset");
      EXPECT_EQ(log_.lines(), profiling::whole_lock(1410)) << signal << " after " << wait_ms;
    }
  }
}

}  // namespace
}  // namespace reprolab
