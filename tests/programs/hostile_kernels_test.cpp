// Hostile kernels together with sound ones, in the programs that users run: each loses only its own
// rows, with a reason.
#include "tests/on_gpu.hpp"
#include "tests/programs/program.hpp"

namespace reprolab {
namespace {

using nlohmann::json;

/// The expected end of a row: the outcome, and a regular expression for a part of the reason.
struct Ending {
  std::string outcome, reason;
};

class MeasuredRows : public NeedsGpu<Programs> {
 protected:
  /// By problem and kernel.
  using Rows = std::map<std::pair<std::string, std::string>, json>;

  /// The rows of a run, which must end with this status.
  Rows rows_of(const std::string& program, const std::string& arguments, int status) const {
    const Finished finished = run(program, arguments + " --output results.json");
    EXPECT_EQ(finished.status, status) << finished.err;
    Rows rows;
    const json file = read_json(folder_.path() / "results.json");
    for (const json& row : file.at("records")) {
      rows[{row["problem"]["name"], row["kernel"]}] = row;
    }
    return rows;
  }

  static void expect_ending(const json& row, const Ending& ending) {
    EXPECT_EQ(row["outcome"], ending.outcome) << row["key"] << ": " << row["reason"];
    EXPECT_TRUE(has_match(row["reason"], ending.reason)) << row["key"];
    EXPECT_TRUE(row["metrics"].empty()) << row["key"];
  }
};

constexpr const char* elsewhere = "outside the timed stream";
constexpr const char* waits = "waits for the GPU";
constexpr const char* illegal = "cudaErrorIllegalAddress";
constexpr const char* scribbles = "changed memory";

/// The ending of every hostile kernel that is measured for long enough.
std::map<std::string, Ending> hostile_endings() {
  const std::string wrong = "weights differ";
  return {
      {"hostile_afterthought",
       {"launch_failed", std::string("[0-9.]+ ms after the stop event.*") + elsewhere}},
      {"hostile_crash", {"launch_failed", "signal 11"}},
      {"hostile_exit", {"launch_failed", "exit status 3"}},
      {"hostile_first_input", {"mismatch", "^copy 1: .*" + wrong}},
      {"hostile_first_output", {"mismatch", "^copy [01]: .*" + wrong}},
      {"hostile_illegal_address", {"launch_failed", illegal}},
      {"hostile_never_ends", {"launch_failed", "within 4 s"}},
      {"hostile_own_stream", {"launch_failed", elsewhere}},
      {"hostile_scribbles", {"launch_failed", scribbles}},
      {"hostile_unjoined", {"launch_failed", elsewhere}},
      {"hostile_writes_past_end", {"launch_failed", scribbles}},
      {"hostile_waits", {"launch_failed", waits}},
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
      for (const auto& [kernel, ending] : hostile_endings()) {
        expect_ending(rows.at({problem, kernel}), ending);
      }
    }
    return rows;
  }
};

TEST_F(OnGpuHostileKernels, LoseOnlyTheirRowsInBench) {
  const Rows rows =
      expect_own_rows_lost(BENCH, "--shape 2048x2048 --samples 5", {"2048x2048/fp16/b64"}, 5);
  EXPECT_EQ(rows.at({"2048x2048/fp16/b64", "copy"})["metrics"][0]["samples"].size(), 5u);
}

TEST_F(OnGpuHostileKernels, ThatEndTheWorkerRunOnTheNextProblemUnlessTheyNeverEnd) {
  const Rows rows = rows_of(BENCH,
                            "--kernel 'hostile_exit|hostile_never_ends|shared_lut' --limit-s 4 "
                            "--shape 2048x2048 --shape 1024x1024 --samples 3",
                            1);
  expect_ending(rows.at({"1024x1024/fp16/b64", "hostile_exit"}),
                {"launch_failed", "exit status 3"});
  expect_ending(rows.at({"1024x1024/fp16/b64", "hostile_never_ends"}),
                {"launch_failed", "^not run: .*2048x2048/fp16/b64.*within 4 s"});
  EXPECT_EQ(rows.at({"1024x1024/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
}

/// Right in verification and for a while; there are enough samples to detect when it is wrong.
TEST_F(OnGpuHostileKernels, ThatMisbehaveLaterLoseTheirTimesInBench) {
  const Rows rows =
      rows_of(BENCH, "--kernel 'hostile_*_later|shared_lut' --shape 4096x4096 --samples 100", 1);
  const auto row = [&](const char* kernel) { return rows.at({"4096x4096/fp16/b64", kernel}); };
  EXPECT_EQ(row("shared_lut")["outcome"], "bit_exact");
  EXPECT_EQ(row("shared_lut")["metrics"][0]["samples"].size(), 100u);
  const std::string in_sample = "^in sample [0-9]+: .*";
  expect_ending(row("hostile_wrong_later"), {"mismatch", in_sample + "1 of 16777216 weights"});
  expect_ending(row("hostile_own_stream_later"), {"launch_failed", in_sample + elsewhere});
  expect_ending(row("hostile_waits_later"), {"launch_failed", in_sample + waits});
  expect_ending(row("hostile_faults_later"), {"launch_failed", illegal});
}

/// It is right for every known pointer, until the matrices are exchanged.
TEST_F(OnGpuHostileKernels, ThatRememberOutputsLoseTheirRows) {
  const std::string kernels = "--kernel 'sly_remembers|shared_lut' ";
  const Rows in_bench = rows_of(BENCH, kernels + "--shape 2048x2048 --samples 3", 1);
  expect_ending(in_bench.at({"2048x2048/fp16/b64", "sly_remembers"}),
                {"mismatch", "^in the warm-up: .* of 4194304 weights"});
  EXPECT_EQ(in_bench.at({"2048x2048/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
  const Rows in_replay =
      rows_of(REPLAY, kernels + "--models llama-3.1-8b --batches 2 --passes 1", 1);
  EXPECT_EQ(in_replay.at({"llama-3.1-8b/batch2/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
  expect_ending(in_replay.at({"llama-3.1-8b/batch2/fp16/b64", "sly_remembers"}),
                {"mismatch", "^in the warm-up: .*weights differ in the 8 outputs"});
}

/// Its own rows may be valid. The next problem needs the memory that the kernel keeps.
TEST_F(OnGpuHostileKernels, ThatKeepMemoryDoNotAffectOtherProblems) {
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
  const Ending other_thread{"launch_failed", "thread"};
  EXPECT_EQ(rows.at({"2048x2048/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
  expect_ending(rows.at({"2048x2048/fp16/b64", "sly_in_thread"}), other_thread);
  expect_ending(rows.at({"2048x2048/fp16/b64", "sly_half_in_thread"}), other_thread);
}

/// With CUPTI, for which all passes of a model are one problem.
TEST_F(OnGpuHostileKernels, LoseOnlyTheirRowsInTheReplay) {
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

/// The rows of the first problem are kept, and the next run measures all but that kernel.
TEST_F(OnGpuHostileKernels, ThatKillTheProgramAreNamedAndSkippedByTheNextRun) {
  const std::string arguments =
      "--kernel 'sly_kills_parent|shared_lut' --shape 64x64 --shape 2048x2048 --samples 3";
  const Finished killed = run(BENCH, arguments + " --output results.json");
  EXPECT_TRUE(killed.status == 128 + SIGKILL || killed.status == -1) << killed.status;
  EXPECT_EQ(folder_.names(),
            (std::vector<std::string>{"results.json.partial", "results.json.running"}));
  const Finished next = run(BENCH, arguments + " --output results.json --resume");
  EXPECT_EQ(next.status, 3) << next.err;
  EXPECT_TRUE(
      has_match(next.err, "skipping sly_kills_parent: .* on 2048x2048.*not measured again"));
  const json file = read_json(folder_.path() / "results.json");
  std::map<std::string, std::vector<std::string>> outcomes;
  for (const json& row : file.at("records")) outcomes[row["kernel"]].push_back(row["outcome"]);
  EXPECT_EQ(outcomes["shared_lut"], std::vector<std::string>(2, "bit_exact"));
  EXPECT_EQ(std::ranges::count(outcomes["sly_kills_parent"], "not_measured"), 1);
}

TEST_F(OnGpuHostileKernels, APeerThatAbortsLosesOnlyItsRows) {
  const Rows rows = rows_of(BENCH,
                            "--shape 1024x1024 --samples 3 --kernel 'aborts|shared_lut' "
                            "--peer aborts=" CRASHING_PEER,
                            1);
  expect_ending(rows.at({"1024x1024/fp16/b64", "aborts"}), {"launch_failed", "signal 6"});
  EXPECT_EQ(rows.at({"1024x1024/fp16/b64", "shared_lut"})["outcome"], "bit_exact");
}

/// Under a profiler or debugger there is only one process, and a fault ends it.
TEST_F(OnGpuHostileKernels, WithoutAnInstrumentAFaultEndsTheRunInOneLine) {
  const Finished finished = run(
      BENCH, "--shape 64x64 --kernel hostile_illegal_address --instrument none --output r.json");
  EXPECT_EQ(finished.status, 1);
  EXPECT_TRUE(
      has_match(finished.err, "^bench: hostile_illegal_address: .*cudaErrorIllegalAddress"));
}

// Exploits published against other benchmarks: each loses its own rows, with a reason, or gains
// nothing.

/// The ending of every exploit that costs the kernel its row, wherever it is tried.
std::map<std::string, Ending> exploit_endings() {
  const auto changed = [](const std::string& what) -> Ending {
    return {"launch_failed", "^changed the device: " + what};
  };
  const std::string number = "[0-9]+";
  return {
      {"exploit_cache_config", changed("the device's cache configuration from 0 to 1")},
      {"exploit_forged_answer", {"launch_failed", "socket"}},
      {"exploit_open_capture", {"launch_failed", "cudaErrorStreamCapture"}},
      {"exploit_persisting",
       changed("cudaLimitPersistingL2CacheSize from " + number + " to " + number +
               ", accessPolicyWindow.num_bytes from 0 to " + number + ", .*")},
      {"exploit_pool", changed("cudaMemPoolAttrReleaseThreshold from 0 to 18446744073709551615")},
      {"exploit_process", changed("child processes from 0 to 1")},
      {"exploit_stale_error", {"launch_failed", "cudaErrorInvalidDevice"}},
      {"exploit_zeroed_reference", {"launch_failed", "changed memory"}},
  };
}

const std::string sound[] = {"branch_tree", "shared_lut", "streaming"};
const std::string with_sound = "|branch_tree|shared_lut|streaming' ";

class OnGpuExploits : public MeasuredRows {
 protected:
  /// Runs these exploits together with sound kernels, in `program`.
  void expect_caught(const std::vector<std::string>& exploits, const std::string& program,
                     const std::string& arguments) const {
    const auto all = exploit_endings();
    const auto measured = rows_of(
        program, fmt::format("--kernel '{}{}{}", fmt::join(exploits, "|"), with_sound, arguments),
        1);
    EXPECT_GE(measured.size(), exploits.size() + std::size(sound));
    for (const auto& [key, row] : measured) {
      if (const auto ending = all.find(key.second); ending != all.end()) {
        expect_ending(row, ending->second);
      } else {
        EXPECT_EQ(row["reason"], "") << row["key"];
        EXPECT_FALSE(row["metrics"].empty()) << row["key"];
      }
    }
  }
};

TEST_F(OnGpuExploits, AreDetectedInBench) {
  std::vector<std::string> exploits;
  for (const auto& [kernel, ending] : exploit_endings()) exploits.push_back(kernel);
  expect_caught(exploits, BENCH, "--shape 2048x2048 --samples 5");
}

/// In these programs, each costs the time to make the data again.
const std::vector<std::string> some = {"exploit_forged_answer", "exploit_persisting",
                                       "exploit_pool"};

TEST_F(OnGpuExploits, AreDetectedInTheReplay) {
  expect_caught(some, REPLAY, "--models llama-3.1-8b --batches 2 --passes 1");
}

TEST_F(OnGpuExploits, AreDetectedInThePuzzle) {
  expect_caught(some, PUZZLE, "--iterations 10 --samples 1");
}

/// Its times are a tenth of the true ones.
TEST_F(OnGpuExploits, AForgedTimeContradictsTheHostsClock) {
  const auto rows = rows_of(
      BENCH, "--kernel 'exploit_forged_times" + with_sound + "--shape 2048x2048 --samples 3", 1);
  expect_ending(rows.at({"2048x2048/fp16/b64", "exploit_forged_times"}),
                {"launch_failed", "[0-9]+ us on the host's clock"});
}

TEST_F(OnGpuExploits, WorkThatWaitsForTheNextCallIsAMismatch) {
  const auto rows = rows_of(
      BENCH, "--kernel 'exploit_in_pairs" + with_sound + "--shape 2048x2048 --samples 3", 1);
  expect_ending(rows.at({"2048x2048/fp16/b64", "exploit_in_pairs"}),
                {"mismatch", "4194304 of 4194304 weights"});
}

/// If every output is poisoned before a launch, they must do their work. If launches repeat each
/// other, or outputs follow each other in one place, they are detected.
TEST_F(OnGpuExploits, SkippedWorkOnWrittenOutputsIsAMismatch) {
  std::vector<std::string> exploits = {"exploit_skips_half", "exploit_skips_written"};
  const auto expect_endings = [&](const std::string& program, const std::string& arguments,
                                  const std::string& problem, const Ending& ending) {
    const std::string kernels = fmt::format("--kernel '{}", fmt::join(exploits, "|"));
    const auto rows =
        rows_of(program, kernels + with_sound + arguments, ending.outcome == "mismatch" ? 1 : 0);
    for (const auto& kernel : exploits) {
      const json& row = rows.at({problem, kernel});
      if (ending.outcome == "mismatch") {
        expect_ending(row, ending);
      } else {
        EXPECT_EQ(row["outcome"], ending.outcome) << row["reason"];
      }
    }
    EXPECT_EQ(rows.at({problem, "shared_lut"})["outcome"], "bit_exact");
  };
  expect_endings(BENCH, "--shape 2048x2048 --samples 3", "2048x2048/fp16/b64", {"bit_exact", ""});
  expect_endings(REPLAY, "--models llama-3.1-8b --batches 2 --passes 1",
                 "llama-3.1-8b/batch2/fp16/b64",
                 {"mismatch", "^in .*: [0-9]+ weights differ in the 8 outputs"});
  // A kernel that looks at parts of its output cannot find single elements that were overwritten.
  // An error that a later launch corrects is only detected in the checked launch.
  exploits.push_back("exploit_poisoned_tiles");
  const Ending not_again{"mismatch", "weights differ|a launch .*again"};
  expect_endings(BENCH, "--shape 2048x2048 --samples 60 --warm", "2048x2048/fp16/b64/warm",
                 not_again);
  expect_endings(PUZZLE, "--iterations 200 --samples 3", "three MLPs, 200 times", not_again);
}

/// Its launches overlap, which only work that comes late shows. Before Hopper there is no such
/// launch.
TEST_F(OnGpuExploits, ALaunchThatNeverWaitsIsAMismatch) {
  const auto rows = rows_of(
      BENCH, "--kernel 'exploit_never_waits" + with_sound + "--shape 1024x1024 --samples 3", 1);
  expect_ending(rows.at({"1024x1024/fp16/b64", "exploit_never_waits"}),
                {"mismatch", "^does not wait for the work before it"});
  EXPECT_EQ(rows.at({"1024x1024/fp16/b64", "streaming"})["outcome"], "bit_exact");
}

TEST_F(OnGpuExploits, ADeclaredDeviationThatNeverShowsIsComparedInPasses) {
  const auto rows = rows_of(REPLAY,
                            "--kernel 'exploit_hidden_deviation" + with_sound +
                                "--models llama-3.1-8b --batches 2 --passes 3",
                            1);
  expect_ending(rows.at({"llama-3.1-8b/batch2/fp16/b64", "exploit_hidden_deviation"}),
                {"mismatch", "weights differ"});
}

/// The process that measures writes no result, and exit() is not how it ends.
TEST_F(OnGpuExploits, AForgedResultFileIsOverwritten) {
  const auto rows = rows_of(
      BENCH, "--kernel 'exploit_result_file" + with_sound + "--shape 2048x2048 --samples 3", 0);
  EXPECT_EQ(rows.size(), 9u) << "four kernels and five ceilings";
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"results.json"});
}

}  // namespace
}  // namespace reprolab
