#include "harness/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "kernels/printable.hpp"

namespace reprolab {

void require_streams() {
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding a limit on file sizes is an error of the write
  if (fcntl(STDIN_FILENO, F_GETFD) < 0) open("/dev/null", O_RDONLY);  // becomes stdin
  for (const auto& [descriptor, name] :
       {std::pair{STDOUT_FILENO, "stdout"}, {STDERR_FILENO, "stderr"}}) {
    if (fcntl(descriptor, F_GETFD) < 0) {
      throw UsageError(fmt::format("{} is closed; send what is not wanted to /dev/null", name));
    }
  }
}

void complain(const char* program, const char* text) noexcept {
  std::fflush(stdout);  // earlier output first
  // One write, so that no other process's line is interleaved; fmt would throw on an error.
  std::string line;
  try {
    line = fmt::format("{}: {}\n", program, printable(text));
  } catch (const std::exception&) {
    line = "out of memory\n";
  }
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string lost_output() {
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost && std::ferror(stderr) == 0) return "";
  return fmt::format("output to {} was lost; is the disk full?", lost ? "stdout" : "stderr");
}

}  // namespace reprolab
