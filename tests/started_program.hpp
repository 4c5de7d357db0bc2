// A program that a test starts, and signals or waits for.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace reprolab {

/// Runs in its own process group until the end of the test.
class StartedProgram {
 public:
  explicit StartedProgram(const std::vector<std::string>& command) {
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC) + pipe2(out, O_CLOEXEC) + pipe2(err, O_CLOEXEC) != 0) std::abort();
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      std::vector<char*> words;
      for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      execvp(words[0], words.data());
      _exit(127);
    }
    setpgid(process_, process_);
    for (const int end : {in[0], out[1], err[1]}) close(end);
    in_ = in[1];
    out_ = out[0];
    err_ = err[0];
  }
  ~StartedProgram() {
    kill(-process_, SIGKILL);
    for (const int end : {in_, out_, err_}) close(end);
  }
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  /// Ends its stdin.
  void release() { close(std::exchange(in_, -1)); }
  void send(int signal) const { kill(process_, signal); }
  void send_to_group(int signal) const { kill(-process_, signal); }
  std::string first_line() const {
    std::string line;
    for (char c = 0; read(out_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  /// Waits for its end, and returns its wait status.
  int wait() const {
    int status = 0;
    waitpid(process_, &status, 0);
    return status;
  }
  /// Waits until no process holds its stderr, and returns the text written there.
  std::string errors() const {
    std::string text;
    std::array<char, 4096> chunk;
    for (;;) {
      pollfd readable{err_, POLLIN, 0};
      if (poll(&readable, 1, 60'000) != 1) return text + " and something runs on";
      const ssize_t bytes = read(err_, chunk.data(), chunk.size());
      if (bytes <= 0) return text;
      text.append(chunk.data(), static_cast<std::size_t>(bytes));
    }
  }

 private:
  pid_t process_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
};

}  // namespace reprolab
