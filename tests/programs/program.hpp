// Runs a program of this build as a user would.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "experiments/harness/result_file.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {

struct Finished {
  int status = -1;
  std::string out, err;
};

/// A test of programs, with its own folder in which they are started.
class Programs : public testing::Test {
 protected:
  /// Runs `program` with `arguments`, in the test's folder.
  Finished run(const std::string& program, const std::string& arguments) const {
    return start("", program, arguments);
  }

  /// The same with every GPU hidden.
  Finished run_without_gpu(const std::string& program, const std::string& arguments) const {
    return start("CUDA_VISIBLE_DEVICES= ", program, arguments);
  }

  /// Fails the test unless the program refuses with exactly this line.
  void expect_refusal(const std::string& program, const std::string& arguments,
                      const std::string& line) const {
    const Finished found = run_without_gpu(program, arguments);
    EXPECT_EQ(found.status, 2) << arguments;
    EXPECT_EQ(found.out, "") << arguments;
    EXPECT_EQ(found.err, line + "\n") << arguments;
    expect_no_files();
  }

  void expect_no_files() const { EXPECT_TRUE(folder_.names().empty()) << folder_.names().front(); }

  OwnFolder folder_;

 private:
  Finished start(const std::string& environment, const std::string& program,
                 const std::string& arguments) const {
    const OwnFolder streams;
    const auto out = streams.path() / "out", err = streams.path() / "err";
    const int code =
        std::system(fmt::format("cd '{}' && {}'{}' {} >'{}' 2>'{}'", folder_.path().string(),
                                environment, program, arguments, out.string(), err.string())
                        .c_str());
    return {WIFEXITED(code) ? WEXITSTATUS(code) : -1, content_of(out), content_of(err)};
  }
};

/// Names of a family's kernels in this checkout, sorted: the names of their files.
inline std::vector<std::string> kernel_names(const std::string& family) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(project_root() / "kernels" / family)) {
    if (entry.path().extension() == ".cu") names.push_back(entry.path().stem());
  }
  std::erase(names, "bitsandbytes_peer");  // registers the peers that a user names
  std::ranges::sort(names);
  return names;
}

/// The same for all families.
inline std::vector<std::string> kernel_names() {
  auto names = kernel_names("nf4");
  std::ranges::copy(kernel_names("transpose"), std::back_inserter(names));
  std::ranges::sort(names);
  return names;
}

inline std::int64_t lines_of(const std::string& text) { return std::ranges::count(text, '\n'); }

}  // namespace reprolab
