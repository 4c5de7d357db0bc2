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

TEST(WriteWhole, WritesEveryByteAndLeavesNothingElse) {
  const OwnFolder folder;
  std::string text(300000, 'x');
  text[5] = '\0';
  write_whole(folder.path() / "a.json", text);
  EXPECT_EQ(content_of(folder.path() / "a.json"), text);
  EXPECT_EQ(folder.names(), Names{"a.json"});
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
        write_whole(folder.path() / "a.json", text);
        std::this_thread::sleep_for(std::chrono::seconds(10));
      },
      testing::KilledBySignal(SIGTERM), "");
  EXPECT_EQ(folder.names(), Names{"a.json"});
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "a.json"), text.size());
}

TEST(WriteWhole, ReplacesWhatWasThere) {
  const OwnFolder folder;
  folder.write("a.json", "a longer text that was there before");
  write_whole(folder.path() / "a.json", "new");
  EXPECT_EQ(content_of(folder.path() / "a.json"), "new");
}

TEST(WriteWhole, CreatesTheFolder) {
  const OwnFolder folder;
  write_whole(folder.path() / "b/c/a.json", "text");
  EXPECT_EQ(content_of(folder.path() / "b/c/a.json"), "text");
}

TEST(WriteWhole, ANameWithoutAFolderGoesToTheCurrentOne) {
  const OwnFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_whole("a.json", "text");
  std::filesystem::current_path(before);
  EXPECT_EQ(content_of(folder.path() / "a.json"), "text");
}

TEST(WriteWhole, AFullDiskLeavesTheOldFileAndNoTemporaryOne) {
  const OwnFolder folder;
  folder.write("a.json", "old");
  const std::string path = (folder.path() / "a.json").string();
  std::string message;
  {
    const FileSizeLimit limit(4096);
    message = message_of<UsageError>([&] { write_whole(path, std::string(100000, 'x')); });
  }
  EXPECT_EQ(message,
            path +
                ": cannot be written (the folder is not writable or is full); choose another "
                "--output");
  EXPECT_EQ(folder.names(), Names{"a.json"});
  EXPECT_EQ(content_of(path), "old");
}

TEST(WriteWhole, AFolderInTheFilesPlaceIsRefused) {
  const OwnFolder folder;
  const std::string path = (folder.path() / "taken").string();
  std::filesystem::create_directory(path);
  EXPECT_EQ(message_of<UsageError>([&] { write_whole(path, "text"); }),
            path + ": cannot be written (Is a directory); choose another --output");
  EXPECT_EQ(folder.names(), Names{"taken"});
}

TEST(WriteWhole, AFileInTheFoldersPlaceIsRefused) {
  const OwnFolder folder;
  const std::string path = folder.write("file", "").string() + "/a.json";
  EXPECT_EQ(message_of<UsageError>([&] { write_whole(path, "text"); }),
            path + ": cannot be written (Not a directory); choose another --output");
}

TEST(WriteWhole, AFolderThatTakesNoFilesIsRefused) {
  EXPECT_EQ(message_of<UsageError>([] { write_whole("/proc/reprolab.json", "text"); }),
            "/proc/reprolab.json: cannot be written (the folder is not writable or is full); "
            "choose another "
            "--output");
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

TEST(RequireWritable, RefusesWithTheTextOfWriteWhole) {
  const OwnFolder folder;
  const std::string below_a_file = folder.write("file", "").string() + "/a.json";
  for (const std::string& path : {below_a_file, std::string("/proc/reprolab.json")}) {
    EXPECT_EQ(message_of<UsageError>([&] { require_writable(path); }),
              message_of<UsageError>([&] { write_whole(path, "text"); }));
  }
}

TEST(RequireWritable, RefusesAFolderInTheFilesPlace) {
  const OwnFolder folder;
  const std::string path = (folder.path() / "taken").string();
  std::filesystem::create_directory(path);
  EXPECT_EQ(message_of<UsageError>([&] { require_writable(path); }),
            path + ": cannot be written (Is a directory); choose another --output");
  EXPECT_EQ(folder.names(), Names{"taken"});
}

}  // namespace
}  // namespace reprolab
