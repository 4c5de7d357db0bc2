// A worker's handling of misbehaving kernels. Without a GPU: a kernel here is C++ code that ends or
// crashes its process, or never ends.
#include "harness/worker.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>
#include <thread>

#include "profiling/basics.hpp"
#include "tests/refusal.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using namespace std::chrono_literals;
using Json = Worker::Json;
using Kernels = std::vector<std::string>;

/// Like a kernel that searches for the descriptor on which results are sent.
void write_to_sockets(const std::string& text) {
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    send(descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

/// The behaviour of the kernel with that name.
void misbehave(const std::string& kernel) {
  if (kernel == "exits") std::exit(3);
  if (kernel == "exits_with_0") std::exit(0);
  if (kernel == "aborts") std::abort();
  if (kernel == "crashes") {
    std::signal(SIGSEGV, SIG_DFL);  // AddressSanitizer has a handler of its own
    std::raise(SIGSEGV);
  }
  if (kernel == "sleeps") std::this_thread::sleep_for(1h);
  if (kernel == "throws") throw std::runtime_error("something went wrong");
  if (kernel == "falls") throw KernelCrashed("falls", "an illegal memory access");
  if (kernel == "forges") write_to_sockets("{\"answer\":{\"did\":[\"forged\"]}}\n");
  if (kernel == "blames") write_to_sockets("{\"turn\":\"first\",\"secret\":\"guessed\"}\n");
  if (kernel == "garbles") write_to_sockets("no JSON\n");
  if (kernel == "hangs_up") {
    close_range(3, ~0u, 0);
    std::this_thread::sleep_for(1h);
  }
  if (kernel == "meets_a_fault") throw NotMeasured("CUPTI dropped 3 records");
  if (kernel == "lacks_memory") throw std::bad_alloc();
  if (kernel == "asks_too_much") throw UsageError("ask for less");
}

/// Runs the kernels one after another and answers with their names.
Json serve(const Json& request, const Watchdog& watchdog) {
  for (const auto& kernel : request.at("kernels")) {
    watchdog.turn(kernel, [&] { misbehave(kernel); });
  }
  return {{"did", request.at("kernels")}, {"process", getpid()}};
}

constexpr auto limit = 300ms;

/// The kernels that crashed.
Kernels kernels_of(const Worker::Answer& answer) {
  Kernels kernels;
  for (const auto& crash : answer.crashed) kernels.push_back(crash.kernel);
  return kernels;
}

TEST(Worker, AnswersFromItsOwnProcessWhichContinues) {
  Worker worker(serve, limit);
  const auto first = worker.ask({}, {"a", "b"}), second = worker.ask({}, {"c"});
  EXPECT_EQ(first.json.at("did"), Json({"a", "b"}));
  EXPECT_EQ(second.json.at("did"), Json({"c"}));
  EXPECT_NE(first.json.at("process"), getpid());
  EXPECT_EQ(first.json.at("process"), second.json.at("process"));
  EXPECT_TRUE(first.crashed.empty());
}

struct Misbehaviour {
  const char* kernel;
  const char* reason;
  Outcome outcome = Outcome::launch_failed;
};

class OneCrashes : public testing::TestWithParam<Misbehaviour> {};

/// All other kernels are run again without it.
TEST_P(OneCrashes, WithoutAffectingOthers) {
  const auto [kernel, reason, outcome] = GetParam();
  Worker worker(serve, limit);
  const auto answer = worker.ask({{"name", "64x64"}}, {"first", kernel, "last"});
  EXPECT_EQ(answer.json.at("did"), Json({"first", "last"}));
  ASSERT_EQ(answer.crashed.size(), 1u);
  EXPECT_EQ(answer.crashed[0].kernel, kernel);
  EXPECT_TRUE(contains(answer.crashed[0].reason, reason));
  EXPECT_EQ(name(answer.crashed[0].outcome), name(outcome));
  EXPECT_EQ(worker.ask({{"name", "64x65"}}, {"first"}).json.at("did"), Json({"first"}));
}

INSTANTIATE_TEST_SUITE_P(
    Each, OneCrashes,
    testing::Values(Misbehaviour{"exits", "exit status 3"},
                    Misbehaviour{"exits_with_0", "exit status 0"},
                    Misbehaviour{"aborts", "signal 6"}, Misbehaviour{"crashes", "signal 11"},
                    Misbehaviour{"sleeps", "within 0.3 s"}, Misbehaviour{"throws", "wrong"},
                    Misbehaviour{"forges", "socket"}, Misbehaviour{"blames", "socket"},
                    Misbehaviour{"garbles", "socket"}, Misbehaviour{"hangs_up", "signal 9"},
                    Misbehaviour{"falls", "memory access"},
                    Misbehaviour{"meets_a_fault", "3 records", Outcome::not_measured},
                    Misbehaviour{"lacks_memory", "host memory", Outcome::not_measured}),
    [](const auto& info) { return info.param.kernel; });

TEST(Worker, ManyCrashOneAfterTheOther) {
  Worker worker(serve, limit);
  const auto answer = worker.ask({{"name", "64x64"}}, {"exits", "a", "falls", "throws", "b"});
  EXPECT_EQ(answer.json.at("did"), Json({"a", "b"}));
  EXPECT_EQ(kernels_of(answer), (Kernels{"exits", "falls", "throws"}));
  EXPECT_EQ(worker.ask({{"name", "64x65"}}, {"exits", "a"}).crashed.size(), 1u)
      << "one that crashed is tried on the next problem";
}

TEST(Worker, KernelsOverTheLimitAreNotRunAgain) {
  Worker worker(serve, limit);
  EXPECT_EQ(worker.ask({{"name", "64x64"}}, {"sleeps"}).crashed.size(), 1u);
  const auto answer = worker.ask({{"name", "64x65"}}, {"sleeps", "a"});
  EXPECT_EQ(answer.json.at("did"), Json({"a"}));
  ASSERT_EQ(kernels_of(answer), Kernels{"sleeps"});
  EXPECT_TRUE(begins(answer.crashed[0].reason, "not run: on 64x64 "));
}

TEST(Worker, TheLimitIsForATurnNotForAnAnswer) {
  Worker worker(
      [](const Json& request, const Watchdog& watchdog) {
        for (const auto& kernel : request.at("kernels")) {
          watchdog.turn(kernel, [] { std::this_thread::sleep_for(limit / 2); });
        }
        std::this_thread::sleep_for(limit + limit / 4);
        return Json("done");
      },
      limit);
  EXPECT_EQ(worker.ask({}, {"a", "b", "c"}).json, "done");
}

/// No kernel is at fault: all are not_measured, except those that crashed while they ran.
TEST(Worker, FaultsBetweenKernelsBlameNoKernel) {
  const std::vector<std::pair<std::string, std::function<void()>>> faults = {
      {"ended the process: exit status 4", [] { std::exit(4); }},
      {"no such model", [] { throw std::runtime_error("no such model"); }},
      {"device memory: none", [] { throw NotMeasured("device memory: none"); }}};
  for (const auto& [reason, happen] : faults) {
    SCOPED_TRACE(reason);
    Worker worker(
        [&](const Json& request, const Watchdog& watchdog) -> Json {
          serve(request, watchdog);
          happen();
          return {};
        },
        limit);
    const auto answer = worker.ask({}, {"a", "falls", "b"});
    EXPECT_TRUE(answer.json.is_null());
    EXPECT_EQ(answer.why_none, reason);
    ASSERT_EQ(kernels_of(answer), (Kernels{"falls", "a", "b"}));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(answer.crashed[i].reason == reason, i > 0);
      EXPECT_EQ(name(answer.crashed[i].outcome), i == 0 ? "launch_failed" : "not_measured");
    }
  }
}

/// Whether a process exists and is not a zombie.
bool runs(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state;
  return status >> id >> name >> state && state != "Z";
}

/// A process of a kernel would take time from the kernels after it.
TEST(Worker, EndsTogetherWithItsProcesses) {
  Worker worker(
      [](const Json&, const Watchdog&) -> Json {
        const pid_t child = fork();
        if (child == 0) std::this_thread::sleep_for(1h);
        return child;
      },
      limit);
  const pid_t child = worker.ask({}, {}).json;
  EXPECT_TRUE(runs(child));
  worker.stop();
  for (int i = 0; i < 500 && runs(child); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(runs(child));
}

/// With a limit in a separate process, without one in this process.
TEST(Worker, AUsageErrorRemainsOne) {
  for (const std::optional<std::chrono::milliseconds> allowed :
       {std::optional<std::chrono::milliseconds>(limit), {}}) {
    Worker worker(serve, allowed);
    EXPECT_EQ(message_of<UsageError>([&] { worker.ask({}, {"asks_too_much"}); }), "ask for less");
  }
}

TEST(Worker, WithoutALimitServesInThisProcess) {
  Worker worker(serve, std::nullopt);
  EXPECT_EQ(worker.ask({}, {"a"}).json.at("process"), getpid());
  for (const std::string kernel : {"falls", "throws"}) {
    const auto message = message_of<KernelCrashed>([&] { worker.ask({}, {kernel}); });
    EXPECT_TRUE(begins(message, kernel + ": "));
    EXPECT_TRUE(contains(message, "--kernel"));
  }
  EXPECT_EQ(message_of<NotMeasured>([&] { worker.ask({}, {"meets_a_fault"}); }),
            "CUPTI dropped 3 records");
  Worker broken([](const Json&, const Watchdog&) -> Json { throw std::runtime_error("no model"); },
                std::nullopt);
  EXPECT_EQ(message_of<NotMeasured>([&] { broken.ask({}, {"a"}); }), "no model");
}

TEST(Worker, ALongAnswerArrivesWhole) {
  const std::string text(3'000'000, 'x');
  Worker worker([&](const Json&, const Watchdog&) { return Json(text); }, limit);
  EXPECT_EQ(worker.ask({}, {}).json, text);
}

}  // namespace
}  // namespace reprolab
