// A result file is written completely or not at all.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "tests/message_of.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

using Names = std::vector<std::string>;

/// While this object lives, no file of this process can grow past `bytes`: simulates a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal_ = std::signal(SIGXFSZ, SIG_IGN);  // otherwise the write would end the process
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }

 private:
  rlimit before_{};
  void (*signal_)(int) = nullptr;
};

TEST(WriteWhole, WritesEveryByteInPlaceOfWhatWasThereAndNothingElse) {
  const OwnFolder folder;
  std::string text(300000, 'x');
  text[5] = '\0';
  for (const std::string& content : {text, std::string("new")}) {
    for (const std::string name : {"a.json", "b/c/a.json"}) {
      write_whole(folder.path() / name, {content});
      EXPECT_EQ(content_of(folder.path() / name), content);
    }
  }
  EXPECT_EQ(folder.names(), (Names{"a.json", "b"}));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_whole("here.json", {text});
  std::filesystem::current_path(before);
  EXPECT_EQ(content_of(folder.path() / "here.json"), text);
}

/// A signal waits until the file is whole.
TEST(WriteWholeDeathTest, EndsBeforeASignalEndsTheProcess) {
  const OwnFolder folder;
  const std::string text(100'000'000, 'x');
  EXPECT_EXIT(
      {
        const std::jthread signals([process = getpid(), &folder] {
          sigset_t all;
          sigfillset(&all);
          pthread_sigmask(SIG_BLOCK, &all, nullptr);  // delivered to the thread that writes
          while (folder.names().empty()) std::this_thread::yield();  // it is being written
          kill(process, SIGTERM);
        });
        write_whole(folder.path() / "a.json", {text});
        std::this_thread::sleep_for(std::chrono::seconds(10));
      },
      testing::KilledBySignal(SIGTERM), "");
  EXPECT_EQ(folder.names(), Names{"a.json"});
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "a.json"), text.size());
}

TEST(WriteWhole, AFullDiskLeavesTheOldFileAndNoTemporaryOne) {
  const OwnFolder folder;
  const std::string path = folder.write("a.json", "old").string();
  std::string message;
  {
    const FileSizeLimit limit(4096);
    message = message_of<UsageError>([&] { write_whole(path, {std::string(100000, 'x')}); });
  }
  EXPECT_EQ(message,
            path +
                ": cannot be written (the folder is not writable or is full); choose another "
                "--output");
  EXPECT_EQ(folder.names(), Names{"a.json"});
  EXPECT_EQ(content_of(path), "old");
}

TEST(WriteWhole, RefusesAFileThatCannotBeLikeRequireWritable) {
  const OwnFolder folder;
  std::filesystem::create_directory(folder.path() / "taken");
  for (const auto& [path, why] : std::vector<std::pair<std::string, std::string>>{
           {(folder.path() / "taken").string(), "Is a directory"},
           {folder.write("file", "").string() + "/a.json", "Not a directory"},
           {"/proc/reprolab.json", "the folder is not writable or is full"}}) {
    const std::string line = path + ": cannot be written (" + why + "); choose another --output";
    EXPECT_EQ(message_of<UsageError>([&] { write_whole(path, {"text"}); }), line);
    EXPECT_EQ(message_of<UsageError>([&] { require_writable(path); }), line);
  }
  EXPECT_EQ(folder.names(), (Names{"file", "taken"}));
}

TEST(RequireWritable, LeavesTheFolderAsItWas) {
  const OwnFolder folder;
  require_writable(folder.path() / "a.json");
  EXPECT_EQ(folder.names(), Names{});
  folder.write("a.json", "old");
  require_writable(folder.path() / "a.json");
  EXPECT_EQ(folder.names(), Names{"a.json"});
  EXPECT_EQ(content_of(folder.path() / "a.json"), "old");
}

}  // namespace
}  // namespace reprolab
