// Rows that a pass has measured so far, in a file of their own until the result file is written:
// a kernel can kill this process, which loses everything that is in memory only.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace reprolab {

/// `<output>.part`, of lines of JSON. The first says which kernel runs; each of the others has
/// "records", as a result file has them. It goes with this object, and when a signal such as
/// Ctrl-C's ends the process, so that it stays only where the process was killed. What is read of
/// it then is not a row: a kernel may have written it.
class Journal {
 public:
  Journal() = default;  ///< Keeps nothing.

  /// Moves what a killed run left to `<output>.part.old`. If the file cannot be written, or another
  /// run writes it, keeps nothing, and remark() says so.
  explicit Journal(const std::filesystem::path& output);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// The kernels that ran when a run was killed, and the problem.
  const std::map<std::string, std::string>& suspects() const { return suspects_; }

  /// A line for the user about a journal that a killed run left; empty without one.
  const std::string& remark() const { return remark_; }

  /// Writes which kernel runs; "" when none does. The worker calls it, because the kernel may end
  /// the process.
  void running(const std::string& kernel, const std::string& problem) const;

  void keep(const nlohmann::ordered_json& records) const;

  /// Keeps the file when this object goes: its rows are nowhere else.
  void leave();

  /// After the result file was written: removes `<output>.part.old`, unless this run has moved it
  /// there, and has said so.
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
