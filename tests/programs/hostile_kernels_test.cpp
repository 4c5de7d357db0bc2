// Hostile kernels together with sound ones, in the programs that users run: each loses its own rows
// and nothing else, with the exact message.
#include "tests/programs/measured_rows.hpp"

namespace reprolab {
namespace {

constexpr const char* elsewhere =
    ": some of its work is outside the timed stream; a launch must enqueue all of it on the stream "
    "that it is given";

/// The ending of every hostile kernel that is measured for long enough.
std::map<std::string, Ending> hostile_endings() {
  const std::string wrong = "[0-9]+ of [0-9]+ weights differ; first at index .*";
  return {
      {"hostile_afterthought",
       {"launch_failed",
        "was still at work [0-9.]+ ms after the stop event" + literally(elsewhere)}},
      {"hostile_assertion",
       {"launch_failed", "kernel: device-side assert triggered \\(cudaErrorAssert\\)"}},
      {"hostile_crash", {"launch_failed", "ended the process: signal 11 \\(Segmentation fault\\)"}},
      {"hostile_exit", {"launch_failed", "ended the process: exit status 3"}},
      {"hostile_first_input", {"mismatch", "copy 1: " + wrong}},
      {"hostile_first_output", {"mismatch", "copy [01]: " + wrong}},
      {"hostile_illegal_address",
       {"launch_failed",
        "kernel: an illegal memory access was encountered \\(cudaErrorIllegalAddress\\)"}},
      {"hostile_never_ends", {"launch_failed", "did not end within 4 s"}},
      // The second where the driver gives its stream the queue of the held one.
      {"hostile_own_stream",
       {"launch_failed",
        "(wrote its output while the stream was still held|had not written its output when the "
        "stop "
        "event had passed)" +
            literally(elsewhere)}},
      {"hostile_scribbles", {"launch_failed", "changed memory that is not its output"}},
      {"hostile_trap", {"launch_failed", "kernel: [a-z ]+ \\(cudaError[A-Za-z]+\\)"}},
      {"hostile_unjoined",
       {"launch_failed",
        "had not written its output when the stop event had passed" + literally(elsewhere)}},
      {"hostile_writes_past_end", {"launch_failed", "changed memory that is not its output"}},
      {"hostile_waits",
       {"launch_failed", "waits for the GPU when it is launched; a launch only enqueues its work"}},
  };
}

const std::string sound_kernels[] = {"branch_tree", "global_lut", "shared_lut"};
constexpr const char* all = "--kernel 'hostile_*|branch_tree|global_lut|shared_lut' --limit-s 4";

class OnGpuHostileKernels : public MeasuredRows {
 protected:
  /// Runs them together with sound kernels; each hostile one loses its rows, and no sound one does.
  Rows expect_own_rows_lost(const std::string& program, const std::string& arguments,
                            const std::vector<std::string>& problems, std::size_t samples) const {
    const Rows rows = rows_of(program, fmt::format("{} {}", all, arguments), 1);
    for (const auto& problem : problems) {
      for (const auto& kernel : sound_kernels) {
        const json& row = rows.at({problem, kernel});
        EXPECT_EQ(row["outcome"], "bit_exact") << row["key"] << ": " << row["reason"];
        EXPECT_EQ(row["reason"], "") << row["key"];
        EXPECT_EQ(row["metrics"][0]["samples"].size(), samples) << row["key"];
      }
      for (auto [kernel, ending] : hostile_endings()) {
        if (kernel == "hostile_never_ends" && program == BENCH && problem != problems[0]) {
          ending.reason = "not run: on " + problems[0] + " it did not end within 4 s";
        }
        expect_ending(rows.at({problem, kernel}), ending);
      }
    }
    return rows;
  }
};

/// Two problems: a kernel that ended the worker on the first is run on the second, unless it
/// exceeded the time limit.
TEST_F(OnGpuHostileKernels, CostTheirOwnRowsInBench) {
  const Rows rows = expect_own_rows_lost(BENCH, "--shape 2048x2048 --shape 1024x1024 --samples 5",
                                         {"2048x2048/fp16/b64", "1024x1024/fp16/b64"}, 5);
  EXPECT_EQ(rows.at({"1024x1024/fp16/b64", "copy"})["metrics"][0]["samples"].size(), 5u);
}

/// Right in verification and for a while; there are enough samples to detect when it is wrong.
TEST_F(OnGpuHostileKernels, ThatTurnLaterLoseTheirTimesInBench) {
  const Rows rows =
      rows_of(BENCH, "--kernel 'hostile_*_later|shared_lut' --shape 4096x4096 --samples 100", 1);
  const auto row = [&](const char* kernel) { return rows.at({"4096x4096/fp16/b64", kernel}); };
  EXPECT_EQ(row("shared_lut")["outcome"], "bit_exact");
  EXPECT_EQ(row("shared_lut")["metrics"][0]["samples"].size(), 100u);
  expect_ending(row("hostile_wrong_later"),
                {"mismatch", "in sample [0-9]+: copy [0-9]+: 1 of 16777216 weights differ.*"});
  expect_ending(row("hostile_own_stream_later"),
                {"launch_failed",
                 "in sample [0-9]+: (wrote its output while the stream was still held|had not "
                 "written its output when the stop event had passed)" +
                     literally(elsewhere)});
  expect_ending(row("hostile_waits_later"),
                {"launch_failed",
                 "in sample [0-9]+: waits for the GPU when it is launched; a launch only enqueues "
                 "its work"});
  expect_ending(row("hostile_faults_later"),
                {"launch_failed",
                 "kernel: an illegal memory access was encountered \\(cudaErrorIllegalAddress\\)"});
}

/// It is right for every known pointer, until the matrices are exchanged.
TEST_F(OnGpuHostileKernels, ThatRememberOutputsLoseTheirRows) {
  const std::string kernels = "--kernel 'sly_remembers|shared_lut' ";
  const Rows in_bench = rows_of(BENCH, kernels + "--shape 2048x2048 --samples 3", 1);
  expect_ending(in_bench.at({"2048x2048/fp16/b64", "sly_remembers"}),
                {"mismatch", "in the warm-up: copy [0-9]+: [0-9]+ of 4194304 weights differ.*"});
  EXPECT_EQ(in_bench.at({"2048x2048/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
  const Rows in_replay =
      rows_of(REPLAY, kernels + "--models llama-3.1-8b --batches 2 --passes 1", 1);
  EXPECT_EQ(in_replay.at({"llama-3.1-8b/batch2/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
  expect_ending(in_replay.at({"llama-3.1-8b/batch2/fp16/b64", "sly_remembers"}),
                {"mismatch",
                 "in the warm-up: [0-9]+ weights differ in the 8 outputs that were "
                 "compared"});
}

/// Its own rows may be valid; the next problem needs the memory that it keeps.
TEST_F(OnGpuHostileKernels, ThatKeepMemoryTakeItFromNoOtherProblem) {
  const Rows rows = rows_of(
      BENCH, "--kernel 'sly_hogs|shared_lut' --shape 2048x2048 --shape 16384x16384 --samples 2", 0);
  for (const char* problem : {"2048x2048/fp16/b64", "16384x16384/fp16/b64"}) {
    const json& row = rows.at({problem, "shared_lut"});
    EXPECT_EQ(row["outcome"], "bit_exact") << row["reason"];
  }
}

/// Events include such work, and it is in the stream: right. CUPTI cannot attribute it.
TEST_F(OnGpuHostileKernels, ThatLaunchFromOtherThreadsHaveNoTimeFromCupti) {
  const std::string arguments =
      "--kernel 'sly_in_thread|sly_half_in_thread|shared_lut' --shape 2048x2048 --samples 3";
  rows_of(BENCH, arguments, 0);
  const Rows rows = rows_of(BENCH, arguments + " --instrument activity", 1);
  const Ending nobodys{
      "launch_failed",
      "[0-9]+ kernels, copies or fills ran in between that no call of it launched; a launch must "
      "enqueue all of its work in the thread that calls it"};
  EXPECT_EQ(rows.at({"2048x2048/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
  expect_ending(rows.at({"2048x2048/fp16/b64", "sly_in_thread"}), nobodys);
  expect_ending(rows.at({"2048x2048/fp16/b64", "sly_half_in_thread"}), nobodys);
}

/// With CUPTI, for which all passes of a model are one problem.
TEST_F(OnGpuHostileKernels, CostTheirOwnRowsInTheReplay) {
  const std::vector<std::string> problems = {"llama-3.1-8b/batch2/fp16/b64",
                                             "llama-3.1-8b/batch8/fp16/b64"};
  const Rows rows =
      expect_own_rows_lost(REPLAY, "--models llama-3.1-8b --batches 2,8 --passes 3", problems, 3);
  for (const auto& problem : problems) {
    // Its right launches end among the verified copies or in a pass.
    for (const auto& [kernel, outcome] : {std::pair{"hostile_wrong_later", "mismatch"},
                                          {"hostile_faults_later", "launch_failed"}}) {
      const json& row = rows.at({problem, kernel});
      EXPECT_EQ(row["outcome"], outcome) << row["reason"];
      EXPECT_TRUE(row["metrics"].empty());
    }
  }
}

TEST_F(OnGpuHostileKernels, CostTheirOwnRowsInVerify) {
  const Finished found =
      run(VERIFY, GOLDEN_FILE " --kernel 'hostile_illegal_address|hostile_exit|shared_lut'");
  EXPECT_EQ(found.status, 1) << found.err;
  EXPECT_TRUE(has_match(found.out, "\n  shared_lut +bit_exact 86\n"));
  EXPECT_TRUE(has_match(found.out, "\n  hostile_exit +launch_failed [0-9]+"));
  EXPECT_TRUE(contains(found.out,
                       "\n  hostile_exit: launch_failed: ended the process: exit status "
                       "3\n"));
  EXPECT_TRUE(has_match(found.out, "\n  hostile_illegal_address +launch_failed [0-9]+"));
}

/// The rows of the first problem are kept, and the next run measures all but that kernel.
TEST_F(OnGpuHostileKernels, ThatKillTheProgramAreNamedAndLeftOutByTheNextRun) {
  const std::string arguments =
      "--kernel 'sly_kills_parent|shared_lut' --shape 64x64 --shape 2048x2048 --samples 3";
  const Finished killed = run(BENCH, arguments + " --output results.json");
  EXPECT_TRUE(killed.status == 128 + SIGKILL || killed.status == -1) << killed.status;
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"results.json.part"});
  const Finished next = run(BENCH, arguments + " --output results.json");
  EXPECT_EQ(next.status, 3) << next.err;
  EXPECT_TRUE(has_match(next.err, "sly_kills_parent on 2048x2048.* [1-9] measured rows"));
  const json file = read_json(folder_.path() / "results.json");
  std::map<std::string, std::vector<std::string>> outcomes;
  for (const json& row : file.at("records")) outcomes[row["kernel"]].push_back(row["outcome"]);
  EXPECT_EQ(outcomes["shared_lut"], std::vector<std::string>(2, "bit_exact"));
  EXPECT_EQ(outcomes["sly_kills_parent"], std::vector<std::string>(2, "not_measured"));
}

TEST_F(OnGpuHostileKernels, APeerThatAbortsCostsItsOwnRows) {
  const Rows rows = rows_of(BENCH,
                            "--shape 1024x1024 --samples 3 --kernel 'aborts|shared_lut' "
                            "--peer aborts=" CRASHING_PEER,
                            1);
  expect_ending(rows.at({"1024x1024/fp16/b64", "aborts"}),
                {"launch_failed", "ended the process: signal 6 \\(Aborted\\)"});
  EXPECT_EQ(rows.at({"1024x1024/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
}

/// Under a profiler or debugger there is only one process, and a fault ends it.
TEST_F(OnGpuHostileKernels, WithoutAnInstrumentAFaultEndsTheRunInOneLine) {
  const Finished found = run(
      BENCH, "--shape 64x64 --kernel hostile_illegal_address --instrument none --output r.json");
  EXPECT_EQ(found.status, 1);
  EXPECT_TRUE(ends(found.err,
                   "bench: hostile_illegal_address: kernel: an illegal memory access was "
                   "encountered (cudaErrorIllegalAddress); the GPU is unusable in this process "
                   "from now on; leave the kernel out with --kernel\n"));
}

}  // namespace
}  // namespace reprolab
