// Runs that were killed, and the next run to the same output. Without a GPU: a kernel here is C++
// code in the worker.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "harness/worker.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using namespace std::chrono_literals;
using Json = Worker::Json;
using Names = std::vector<std::string>;
using Suspects = std::map<std::string, std::string>;

constexpr auto long_limit = 20s;

Json answer_rows(const Json& request, const Watchdog& watchdog) {
  for (const auto& kernel : request.at("kernels")) {
    watchdog.turn(kernel, [&] {
      if (kernel == "ends") raise(SIGTERM);
      if (kernel.get<std::string>().starts_with("kills_parent")) {
        kill(getppid(), SIGKILL);
        std::this_thread::sleep_for(1h);
      }
    });
  }
  return {{"records", request.at("kernels")}};
}

/// Runs `body` in a separate process, like a program; returns waitpid's status.
int run_in_a_process(const std::function<void()>& body) {
  const pid_t process = fork();
  if (process == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, 0);
  return status;
}

class UnfinishedRuns : public testing::Test {
 protected:
  /// A run of two groups, the second with a kernel that may kill the program.
  void measure(const std::string& last, int signal = 0) const {
    UnfinishedRun run(output_, origin_, true);
    Worker worker(answer_rows, long_limit, &run);
    run.keep({{"name", "64x64"}}, worker.ask({{"name", "64x64"}}, {"a", "b"}).json);
    if (signal != 0) raise(signal);
    worker.ask({{"name", "64x65"}}, {"a", last});
  }

  void expect_killed(const std::string& last) const {
    const int status = run_in_a_process([&] { measure(last); });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  const OwnFolder folder_;
  const std::filesystem::path output_ = folder_.path() / "r.json";
  const Json origin_ = {{"argv", {"bench"}}, {"gpu", "a"}};
};

TEST_F(UnfinishedRuns, ThatAKernelKilledNameItAndKeepFinishedGroups) {
  expect_killed("kills_parent");
  ASSERT_EQ(folder_.names(), (Names{"r.json.partial", "r.json.running"}));
  UnfinishedRun next(output_, origin_, true);
  EXPECT_EQ(next.suspects(), (Suspects{{"kills_parent", "64x65"}}));
  EXPECT_TRUE(
      contains(next.remark(), "kills_parent: an earlier run was killed while it ran on 64x65"));
  EXPECT_EQ(next.finished({{"name", "64x64"}}).at("records"), Json({"a", "b"}));
  EXPECT_TRUE(next.finished({{"name", "64x65"}}).is_null());
  EXPECT_TRUE(next.resumed_from().is_string());
  Worker worker(answer_rows, long_limit, &next);
  const auto answer = worker.ask({{"name", "64x65"}}, {"a", "kills_parent", "b"});
  EXPECT_EQ(answer.json.at("records").size(), 2u);
  ASSERT_EQ(answer.crashed.size(), 1u);
  EXPECT_EQ(answer.crashed[0].outcome, Outcome::not_measured);
  next.done();
  EXPECT_EQ(folder_.names(), Names{"r.json.running"});
}

TEST_F(UnfinishedRuns, SkipSeveralKernelsOneAfterTheOther) {
  expect_killed("kills_parent");
  expect_killed("kills_parent_too");
  EXPECT_EQ(UnfinishedRun(output_, origin_, false).suspects(),
            (Suspects{{"kills_parent", "64x65"}, {"kills_parent_too", "64x65"}}));
  EXPECT_EQ(UnfinishedRun(output_, origin_, false).suspects(), Suspects{}) << "of a whole run";
}

/// Rows of other arguments, sources, another GPU or driver must not enter this run's file.
TEST_F(UnfinishedRuns, OfAnotherOriginOrWithoutResumeAreMeasuredAgain) {
  expect_killed("kills_parent");
  const Json others = {{{"argv", {"bench", "--seed=2"}}, {"gpu", "a"}},
                       {{"argv", {"bench"}}, {"gpu", "b"}}};
  for (const Json& other : others) {
    const UnfinishedRun next(output_, other, true);
    EXPECT_TRUE(next.finished({{"name", "64x64"}}).is_null()) << other;
    EXPECT_TRUE(next.resumed_from().is_null());
  }
  EXPECT_TRUE(UnfinishedRun(output_, origin_, false).finished({{"name", "64x64"}}).is_null());
  folder_.write("r.json.partial", "{\"origin\"");
  EXPECT_TRUE(UnfinishedRun(output_, origin_, true).finished({{"name", "64x64"}}).is_null());
}

/// As by Ctrl-C, or by the system: no kernel is to blame.
TEST_F(UnfinishedRuns, ThatASignalEndedBetweenKernelsOrThatWasInterruptedBlameNoKernel) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    const int status = run_in_a_process([&] { measure("c", signal); });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_EQ(UnfinishedRun(output_, origin_, true).suspects(), Suspects{});
    EXPECT_EQ(folder_.names(), Names{"r.json.partial"});
  }
}

TEST_F(UnfinishedRuns, StayNamedWhereASignalEndsAWorkerAlone) {
  UnfinishedRun run(output_, origin_, false);
  Worker worker(answer_rows, long_limit, &run);
  EXPECT_EQ(worker.ask({{"name", "64x64"}}, {"ends"}).crashed.size(), 1u);
  EXPECT_EQ(folder_.names(), Names{"r.json.running"});
}

}  // namespace
}  // namespace reprolab
