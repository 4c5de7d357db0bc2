// A program's report on its sources; tests/reprolab/test_provenance.py has the rest.
#include "harness/sources.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

TEST(FindSources, ACommitThatIsGivenIsReportedAndAWrongOneRefused) {
  setenv("REPROLAB_COMMIT", std::string(40, 'a').c_str(), 1);
  setenv("REPROLAB_DIRTY", "0", 1);
  const auto sources = find_sources(project_root());
  EXPECT_EQ(sources.at("commit"), std::string(40, 'a'));
  EXPECT_EQ(sources.at("dirty"), false);
  setenv("REPROLAB_COMMIT", "0123abc", 1);
  expect_refused<UsageError>([&] { find_sources(project_root()); }, "REPROLAB_COMMIT");
  unsetenv("REPROLAB_COMMIT");
  unsetenv("REPROLAB_DIRTY");
}

TEST(FindSources, WithoutTheScriptTheCommitIsUnknown) {
  const OwnFolder folder;
  EXPECT_EQ(find_sources(folder.path()).at("commit"), "unknown");
}

}  // namespace
}  // namespace reprolab
