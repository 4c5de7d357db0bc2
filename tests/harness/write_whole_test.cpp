// A result file is written completely or not at all.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "harness/errors.hpp"
#include "harness/whole_file.hpp"
#include "tests/refusal.hpp"
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
  {
    const FileSizeLimit limit(4096);
    expect_refused<UsageError>([&] { write_whole(path, {std::string(100000, 'x')}); }, "written");
  }
  EXPECT_EQ(folder.names(), Names{"a.json"});
  EXPECT_EQ(content_of(path), "old");
}

/// By write_whole with the message of require_writable, which is returned.
std::string refusal(const std::string& path) {
  const auto early = message_of<UsageError>([&] { require_writable(path); });
  EXPECT_EQ(message_of<UsageError>([&] { write_whole(path, {"text"}); }), early);
  return early;
}

TEST(WriteWhole, RefusesAFileThatCannotBeLikeRequireWritable) {
  const OwnFolder folder;
  const std::string root = folder.path().string();
  std::filesystem::create_directory(folder.path() / "taken");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  std::filesystem::create_symlink("taken", folder.path() / "linked");
  std::filesystem::create_symlink("/dev/null", folder.path() / "device");
  mkfifo((root + "/pipe").c_str(), 0600);
  folder.write("file", "");
  const auto before = folder.names();
  for (const std::string& path :
       {root + "/taken", root + "/linked", root + "/new/", root + "/file/a.json", root + "/loop",
        root + "/loop/a.json", root + "/" + std::string(256, 'x'),
        root + "/new/" + std::string(256, 'x') + "/a.json", std::string("/proc/reprolab.json"),
        std::string("/dev/null"), root + "/device", root + "/pipe"}) {
    EXPECT_TRUE(contains(refusal(path), "written"));
  }
  EXPECT_EQ(folder.names(), before);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder.path() / "pipe"));
}

/// As with `--output /dev/stdout >>log`: nothing of the log is lost.
TEST(WriteWhole, RefusesAFileThatAStandardStreamWritesTo) {
  const OwnFolder folder;
  const std::string log = folder.write("log", "old").string(), path = "/dev/stderr";
  const int kept = dup(STDERR_FILENO), file = open(log.c_str(), O_WRONLY | O_APPEND);
  dup2(file, STDERR_FILENO);
  const Names refusals{refusal(path), refusal(log)};
  dup2(kept, STDERR_FILENO);
  close(kept), close(file);
  for (const auto& text : refusals) EXPECT_TRUE(contains(text, "standard"));
  EXPECT_EQ(content_of(log), "old");
}

TEST(WriteWhole, FollowsLinksAndLeavesThem) {
  const OwnFolder folder;
  folder.write("target", "old");
  std::filesystem::create_symlink("target", folder.path() / "near");
  std::filesystem::create_symlink(folder.path() / "near", folder.path() / "far");
  std::filesystem::create_symlink("new/absent", folder.path() / "dangling");
  for (const auto& [link, target] :
       {std::pair{"near", "target"}, {"far", "target"}, {"dangling", "new/absent"}}) {
    write_whole(folder.path() / link, {link});
    EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / link));
    EXPECT_EQ(content_of(folder.path() / target), link);
  }
  EXPECT_EQ(folder.names(), (Names{"dangling", "far", "near", "new", "target"}));
}

TEST(WriteWhole, TakesTheLongestNameThatAFileCanHave) {
  const OwnFolder folder;
  const std::string name(255, 'x');
  require_writable(folder.path() / name);
  write_whole(folder.path() / name, {"text"});
  EXPECT_EQ(content_of(folder.path() / name), "text");
}

/// Only our own temporary files of dead writers are removed.
TEST(WriteWholeDeathTest, RemovesWhatAKilledWriterLeft) {
  const OwnFolder folder;
  EXPECT_EXIT(
      {
        const std::jthread killer([process = getpid(), &folder] {
          while (folder.names().empty()) std::this_thread::yield();
          kill(process, SIGKILL);
        });
        write_whole(folder.path() / "a.json", {std::string(400'000'000, 'x')});
        std::this_thread::sleep_for(std::chrono::seconds(10));
      },
      testing::KilledBySignal(SIGKILL), "");
  ASSERT_EQ(folder.names().size(), 1u);
  EXPECT_NE(folder.names(), Names{"a.json"});
  folder.write("another.partial", "");
  const auto live = folder.write(".reprolab-tmp-live", "");
  const int writer = open(live.c_str(), O_RDONLY);
  ASSERT_EQ(flock(writer, LOCK_EX), 0);
  write_whole(folder.path() / "b.json", {"text"});
  EXPECT_EQ(folder.names(), (Names{".reprolab-tmp-live", "another.partial", "b.json"}));
  close(writer);
  write_whole(folder.path() / "b.json", {"text"});
  EXPECT_EQ(folder.names(), (Names{"another.partial", "b.json"}));
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
