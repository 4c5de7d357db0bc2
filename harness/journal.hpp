// The rows that a pass has measured so far, in a separate file until the result file is written: a
// kernel can kill this process, which loses everything in memory.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace reprolab {

/// `<output>.part`, in lines of JSON. The first names the running kernel; each other line has
/// "records", as in a result file. This object, or a signal such as that of Ctrl-C, removes the
/// file, so it remains only if the process was killed. Its rows are then not used, because a kernel
/// may have written them.
class Journal {
 public:
  Journal() = default;  ///< Keeps nothing.

  /// Moves the file of a killed run to `<output>.part.old`. If the file cannot be written, or
  /// another run writes it, keeps nothing, and remark() says so.
  explicit Journal(const std::filesystem::path& output);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// The kernels that were running when a run was killed, and their problem.
  const std::map<std::string, std::string>& suspects() const { return suspects_; }

  /// A line for the user about a journal that a killed run left; empty without one.
  const std::string& remark() const { return remark_; }

  /// Writes the running kernel's name, "" for none. The worker calls it, because the kernel may end
  /// the process.
  void running(const std::string& kernel, const std::string& problem) const;

  void keep(const nlohmann::ordered_json& records) const;

  /// Keeps the file after this object's lifetime: its rows are nowhere else.
  void leave();

  /// Called after the result file was written: removes `<output>.part.old`, unless this run has
  /// created it and reported that.
  void remove_old() const;

 private:
  void take_up_left();
  std::filesystem::path old() const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::map<std::string, std::string> suspects_;
  std::string remark_;
};

}  // namespace reprolab
