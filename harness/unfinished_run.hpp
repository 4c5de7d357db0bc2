// What is left beside the output of a run that did not finish, for the next run to the same output.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace reprolab {

/// `<output>.running` names the kernel that runs now and its problem: a kernel can kill this
/// process. `<output>.partial` holds the rows of the finished problem groups, for RESUME=1.
class UnfinishedRun {
 public:
  using Json = nlohmann::ordered_json;

  UnfinishedRun() = default;  ///< Keeps nothing.

  /// Reads what an earlier run left. Its groups are reused only with `resume`, and only if they are
  /// of the same `origin`: arguments, sources, GPU and driver.
  UnfinishedRun(const std::filesystem::path& output, Json origin, bool resume);
  /// Removes `.running`, as does a signal such as Ctrl-C's: it stays only if the process is killed.
  ~UnfinishedRun();
  UnfinishedRun(const UnfinishedRun&) = delete;
  UnfinishedRun& operator=(const UnfinishedRun&) = delete;

  /// The kernels that were running when a run was killed, and their problem.
  const std::map<std::string, std::string>& suspects() const { return suspects_; }

  /// A line for the user about an earlier run; empty without one.
  const std::string& remark() const { return remark_; }

  /// When the run started whose groups are reused; null without one.
  const Json& resumed_from() const { return resumed_from_; }

  /// Names the running kernel, "" for none. The worker calls it, because the kernel may end the
  /// process.
  void running(const std::string& kernel, const std::string& problem) const;

  /// The answer to an earlier request; null if there is none.
  Json finished(const Json& request) const;
  void keep(const Json& request, const Json& answer);

  /// Called after the result file was written: the groups are now there.
  void done() const;

 private:
  std::filesystem::path running_file_, partial_file_;  // empty: keeps nothing
  Json partial_{}, resumed_from_{};
  std::map<std::string, std::string> suspects_;
  std::string remark_;
};

}  // namespace reprolab
