// The journal of a run whose process is killed by a kernel, and its use in the next run. Without a
// GPU: a kernel here is C++ code in the worker.
#include "harness/journal.hpp"

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
  Json rows = Json::array();
  for (const auto& kernel : request.at("kernels")) {
    watchdog.turn(kernel, [&] {
      if (kernel == "ends") raise(SIGTERM);
      if (kernel.get<std::string>().starts_with("kills_parent")) {
        kill(getppid(), SIGKILL);
        std::this_thread::sleep_for(1h);
      }
    });
    rows.push_back({{"kernel", kernel}, {"problem", request.at("name")}});
  }
  return {{"records", rows}};
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

class Journals : public testing::Test {
 protected:
  /// A run of two problems, the second with a kernel that may kill the program.
  void measure(const std::string& last) const {
    const Journal journal(output_);
    Worker worker(answer_rows, long_limit, &journal);
    worker.keep(worker.ask({{"name", "64x64"}}, {"a", "b"}).json.at("records"));
    worker.keep(worker.ask({{"name", "64x65"}}, {"a", last}).json.at("records"));
  }

  void expect_killed(const std::string& last) const {
    const int status = run_in_a_process([&] { measure(last); });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  std::vector<Json> lines(const char* name) const {
    std::vector<Json> all;
    std::ifstream file(folder_.path() / name);
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }

  const OwnFolder folder_;
  const std::filesystem::path output_ = folder_.path() / "r.json";
};

TEST_F(Journals, ARunThatEndsLeavesNothing) {
  EXPECT_EQ(run_in_a_process([&] { measure("c"); }), 0);
  EXPECT_EQ(folder_.names(), Names{});
}

TEST_F(Journals, AKernelThatKillsTheProgramLosesNoMeasuredRow) {
  expect_killed("kills_parent");
  ASSERT_EQ(folder_.names(), Names{"r.json.part"});
  const auto kept = lines("r.json.part");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].at("running"), "kills_parent");
  EXPECT_EQ(kept[0].at("problem"), "64x65");
  EXPECT_EQ(kept[1].at("records"), Json::parse(R"([{"kernel": "a", "problem": "64x64"},
                                                    {"kernel": "b", "problem": "64x64"}])"));
}

/// That kernel is not run, with the reason in its rows, the others are; the file of the killed run
/// is kept.
TEST_F(Journals, TheNextRunNamesTheKernelAndMeasuresTheOthers) {
  expect_killed("kills_parent");
  {
    const Journal journal(output_);
    EXPECT_EQ(journal.suspects(), (Suspects{{"kills_parent", "64x65"}}));
    for (const char* named : {"kills_parent on 64x65", "2 measured rows", "r.json.part.old"}) {
      EXPECT_TRUE(contains(journal.remark(), named)) << journal.remark();
    }
    Worker worker(answer_rows, long_limit, &journal);
    const auto answer = worker.ask({{"name", "64x65"}}, {"a", "kills_parent", "b"});
    EXPECT_EQ(answer.json.at("records").size(), 2u);
    ASSERT_EQ(answer.crashed.size(), 1u);
    EXPECT_EQ(answer.crashed[0].kernel, "kills_parent");
    EXPECT_EQ(name(answer.crashed[0].outcome), "not_measured");
    EXPECT_TRUE(contains(answer.crashed[0].reason, "64x65"));
    journal.remove_old();
  }
  EXPECT_EQ(folder_.names(), Names{"r.json.part.old"});
  const Journal journal(output_);
  EXPECT_EQ(journal.suspects(), Suspects{}) << "it is run again after a whole run";
  journal.remove_old();
  EXPECT_EQ(folder_.names(), Names{"r.json.part"});
}

TEST_F(Journals, SeveralKernelsThatKillAreLeftOutOneAfterTheOther) {
  expect_killed("kills_parent");
  expect_killed("kills_parent_too");
  EXPECT_EQ(Journal(output_).suspects(),
            (Suspects{{"kills_parent", "64x65"}, {"kills_parent_too", "64x65"}}));
}

/// If no kernel was running, none is suspected.
TEST_F(Journals, AKillBetweenKernelsIsNoKernels) {
  run_in_a_process([&] {
    const Journal journal(output_);
    Worker worker(answer_rows, long_limit, &journal);
    worker.keep(worker.ask({{"name", "64x64"}}, {"a"}).json.at("records"));
    raise(SIGKILL);
  });
  const Journal journal(output_);
  EXPECT_EQ(journal.suspects(), Suspects{});
  EXPECT_TRUE(contains(journal.remark(), "1 measured row "));
}

TEST_F(Journals, GoWithAProcessThatASignalEnds) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = run_in_a_process([&] {
      const Journal journal(output_);
      Worker worker(answer_rows, long_limit, &journal);
      worker.keep(worker.ask({{"name", "64x64"}}, {"a"}).json.at("records"));
      raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_EQ(folder_.names(), Names{});
  }
}

TEST_F(Journals, StayWhereASignalEndsAWorkerAlone) {
  const Journal journal(output_);
  Worker worker(answer_rows, long_limit, &journal);
  EXPECT_EQ(worker.ask({{"name", "64x64"}}, {"ends"}).crashed.size(), 1u);
  EXPECT_EQ(folder_.names(), Names{"r.json.part"});
}

TEST_F(Journals, StayWhereTheResultFileCannotBeWritten) {
  {
    Journal journal(output_);
    journal.keep(Json::array({{{"kernel", "a"}}}));
    journal.leave();
  }
  EXPECT_EQ(lines("r.json.part").back().at("records").size(), 1u);
}

/// The file of a run in progress is not touched.
TEST_F(Journals, OfAnotherRunThatGoesOnIsLeftAlone) {
  const Journal journal(output_);
  journal.running("a", "64x64");
  const int status = run_in_a_process([&] {
    const Journal other(output_);
    other.running("b", "64x65");
    _exit(other.suspects().empty() && contains(other.remark(), "another run") ? 7 : 1);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(lines("r.json.part").at(0).at("running"), "a");
}

TEST_F(Journals, ThatCannotBeWrittenKeepNothingAndSaySo) {
  std::filesystem::create_directory(folder_.path() / "r.json.part");
  const Journal journal(output_);
  EXPECT_TRUE(contains(journal.remark(), "r.json.part"));
  journal.keep(Json::array());
  EXPECT_EQ(folder_.names(), Names{"r.json.part"});
}

/// A kernel may have written it: names are shown, and nothing else is used.
TEST_F(Journals, WithAnythingInItAreReadWithoutAFault) {
  for (const char* text :
       {"", "{", "\n\n", "[]\n", "{\"running\":1,\"suspects\":[1],\"records\":2}\n",
        "{\"suspects\":{\"a\":1}}\n{\"records\":{}}\n\xff\xfe{\"records\":[1,2]}\n"}) {
    folder_.write("r.json.part", text);
    const Journal journal(output_);
    EXPECT_EQ(journal.suspects(), Suspects{}) << text;
    EXPECT_FALSE(journal.remark().empty());
  }
}

TEST_F(Journals, NamesOfAnyLengthFit) {
  expect_killed("kills_parent" + std::string(5000, 'x'));
  EXPECT_EQ(lines("r.json.part").size(), 2u);
  const Journal journal(output_);
  EXPECT_TRUE(contains(journal.remark(), "2 measured rows"));
  journal.running("a", std::string(5000, 'x'));
  EXPECT_EQ(lines("r.json.part").at(0).value("running", ""), "a") << "the most important name";
}

}  // namespace
}  // namespace reprolab
