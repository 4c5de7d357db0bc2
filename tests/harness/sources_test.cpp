// A program's report on its sources: compiled from those of the commit, or from others.
// tests/reprolab/test_provenance.py has the rest.
#include "harness/sources.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

class FindSources : public testing::Test {
 protected:
  void SetUp() override { unsetenv("REPROLAB_COMMIT"); }

  std::string output_of(const std::string& command) const {
    const auto file = outside_.path() / "output";
    const auto line = "cd '" + root().string() + "' && { " + command + "; } >" + file.string();
    EXPECT_EQ(std::system(line.c_str()), 0) << command;
    auto text = content_of(file);
    if (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  /// A checkout with one commit of one source; returns the digest of the compiled sources.
  std::string commit_one_source() const {
    for (const char* name : {"reprolab/sources.py", "reprolab/row_sources"}) {
      folder_.write(name, content_of(project_root() / name));
    }
    folder_.write("kernels/one.cu", "code");
    output_of(
        "git init --quiet && git add --all && "
        "git -c user.name=a -c user.email=a@b commit --quiet -m all");
    return digest();
  }

  std::string digest() const {
    output_of("python3 -I reprolab/sources.py compiled '" +
              (outside_.path() / "digest.hpp").string() + "'");
    const auto text = content_of(outside_.path() / "digest.hpp");
    const auto begin = text.find('"') + 1;
    return text.substr(begin, text.rfind('"') - begin);
  }

  std::filesystem::path root() const { return folder_.path(); }

  OwnFolder folder_, outside_;
};

TEST_F(FindSources, AProgramThatIsCompiledFromTheCommitIsClean) {
  const auto compiled = commit_one_source();
  EXPECT_EQ(compiled.size(), 64u);
  const auto sources = find_sources(root(), compiled);
  EXPECT_EQ(sources.at("commit"), output_of("git rev-parse HEAD"));
  EXPECT_EQ(sources.at("dirty"), false);
  EXPECT_EQ(sources.at("sources_sha256").get<std::string>().size(), 64u);
}

/// Another commit is checked out after the program was built, or a source is changed back.
TEST_F(FindSources, AProgramThatIsCompiledFromOtherSourcesIsDirty) {
  commit_one_source();
  folder_.write("kernels/one.cu", "other code");
  const auto compiled = digest();
  folder_.write("kernels/one.cu", "code");
  ASSERT_EQ(output_of("git status --porcelain"), "");
  const auto sources = find_sources(root(), compiled);
  EXPECT_EQ(sources.at("dirty"), true);
  EXPECT_NE(sources.at("sources_sha256"), find_sources(root(), digest()).at("sources_sha256"));
}

TEST_F(FindSources, AWrongCommitIsAUsageError) {
  commit_one_source();
  setenv("REPROLAB_COMMIT", "0123abc", 1);
  expect_refused<UsageError>([&] { find_sources(root(), ""); }, "REPROLAB_COMMIT");
  unsetenv("REPROLAB_COMMIT");
}

}  // namespace
}  // namespace reprolab
