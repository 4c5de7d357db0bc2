// A result file is written whole or not at all.
#include "harness/whole_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "harness/errors.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

using Names = std::vector<std::string>;

TEST(WriteWhole, WritesEveryByteInPlaceOfWhatWasThereAndNothingElse) {
  const OwnFolder folder;
  std::string text(300000, 'x');
  text[5] = '\0';
  for (const std::string& content : {text, std::string("new")}) {
    for (const std::string name : {"a.json", "b/c/a.json"}) {
      write_whole(folder.path() / name, content);
      EXPECT_EQ(content_of(folder.path() / name), content);
    }
  }
  EXPECT_EQ(folder.names(), (Names{"a.json", "b"}));
}

TEST(WriteWhole, FollowsLinks) {
  const OwnFolder folder;
  folder.write("far/a.json", "old");
  std::filesystem::create_symlink("far/a.json", folder.path() / "link");
  write_whole(folder.path() / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
  EXPECT_EQ(content_of(folder.path() / "far/a.json"), "new");
}

/// As on a full disk: an older file stays, and nothing else does.
TEST(WriteWhole, KeepsTheOlderFileWhereTheNewOneDoesNotFit) {
  const OwnFolder folder;
  const auto file = folder.write("a.json", "old");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // otherwise the write ends the process
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_THROW(write_whole(file, std::string(100000, 'x')), UsageError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(content_of(file), "old");
  EXPECT_EQ(folder.names(), Names{"a.json"});
}

TEST(WriteWhole, RefusesWhatIsNoRegularFileAndNamesIt) {
  const OwnFolder folder;
  folder.write("file", "");
  mkfifo((folder.path() / "fifo").c_str(), 0600);
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  const std::string own = folder.path().string() + "/";
  for (const std::string& path :
       {own, own + "fifo", own + "loop", own + "file/a", own + std::string(300, 'x'), own + "a/",
        std::string("/dev/null"), std::string("/proc/none/a.json")}) {
    for (const bool early : {true, false}) {
      try {
        early ? require_writable(path) : write_whole(path, "text");
        ADD_FAILURE() << path;
      } catch (const UsageError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
      }
    }
  }
  EXPECT_EQ(folder.names(), (Names{"fifo", "file", "loop"}));
}

TEST(RequireWritable, LeavesNoFileAndNoChange) {
  const OwnFolder folder;
  require_writable(folder.path() / "a.json");
  EXPECT_EQ(folder.names(), Names{});
  const auto file = folder.write("a.json", "old");
  require_writable(file);
  EXPECT_EQ(content_of(file), "old");
}

}  // namespace
}  // namespace reprolab
