// Runs a program of this build as a user would.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/result_file.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/text.hpp"

namespace reprolab {

struct Finished {
  int status = -1;
  std::string out, err;
};

/// A program of the test's own build. Presets share the objects of tests that name no folder of it.
inline std::string built(const std::string& program) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(program);
}

/// data/families.json, which outlives the loops over its parts.
inline const auto& described() {
  static const auto json = read_json(project_root() / "data/families.json");
  return json;
}

/// The families of this checkout that have kernels.
inline std::vector<std::string> all_families() {
  std::vector<std::string> names;
  for (const auto& family : described().at("families")) {
    if (!family.at("kernels").empty()) names.push_back(family.at("name"));
  }
  return names;
}

/// Names of a family's kernels in this checkout: in CUDA, and those compiled from other languages.
inline std::set<std::string> kernel_names(const std::string& name) {
  std::set<std::string> names;
  for (const auto& family : described().at("families")) {
    for (const auto& kernel : family.at("kernels")) {
      const bool is_one = family.at("name") == name && kernel.at("language") == "cuda";
      if (is_one) names.insert(kernel.at("name"));
    }
  }
  const auto compiled = project_root() / "build/ptx";
  if (!std::filesystem::exists(compiled)) return names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(compiled)) {
    if (entry.path().extension() != ".json") continue;
    if (read_json(entry.path()).at("family") == name) names.insert(entry.path().stem());
  }
  return names;
}

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

  /// Fails the test unless the program exits with 2 and one line that has `noun`.
  void expect_refusal(const std::string& program, const std::string& arguments,
                      const std::string& noun = "") const {
    EXPECT_TRUE(contains(refusal(program, arguments), noun));
  }

  /// The same where CLI11 refuses, whose texts differ between its versions.
  void expect_refusal_by_cli11(const std::string& program, const std::string& arguments) const {
    const std::string name = std::filesystem::path(program).filename();
    EXPECT_TRUE(ends(refusal(program, arguments), "; see " + name + " --help\n")) << arguments;
  }

  /// The output of the program, without a GPU and without an error.
  std::string output_of(const std::string& program, const std::string& arguments) const {
    const Finished finished = run_without_gpu(program, arguments);
    EXPECT_EQ(finished.status, 0) << arguments;
    EXPECT_EQ(finished.err, "") << arguments;
    expect_no_files();
    return finished.out;
  }

  /// The one line with which the program refuses its arguments.
  std::string refusal(const std::string& program, const std::string& arguments) const {
    const Finished finished = run_without_gpu(program, arguments);
    EXPECT_EQ(finished.status, 2) << arguments;
    EXPECT_EQ(finished.out, "") << arguments;
    const std::string name = std::filesystem::path(program).filename();
    EXPECT_TRUE(begins(finished.err, name + ": ")) << arguments;
    EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << arguments;
    expect_no_files();
    return finished.err;
  }

  void expect_no_files() const { EXPECT_TRUE(folder_.names().empty()) << folder_.names().front(); }

  OwnFolder folder_;

 private:
  Finished start(const std::string& environment, const std::string& program,
                 const std::string& arguments) const {
    const OwnFolder streams;
    const auto out = streams.path() / "out", err = streams.path() / "err";
    const int code =
        std::system(fmt::format("cd '{}' && {} >'{}' 2>'{}' '{}' {}", folder_.path().string(),
                                environment, out.string(), err.string(), program, arguments)
                        .c_str());
    return {WIFEXITED(code) ? WEXITSTATUS(code) : -1, content_of(out), content_of(err)};
  }
};

inline std::int64_t lines_of(const std::string& text) { return std::ranges::count(text, '\n'); }

}  // namespace reprolab
