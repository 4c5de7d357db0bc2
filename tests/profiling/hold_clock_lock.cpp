// hold_clock_lock BUS_ID CLOCKS [linger]: locks, and holds the lock until stdin ends. With `linger`
// it forks a process first, as our programs do, but one that lives on; its id is on stdout.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string_view>

#include "profiling/clock_lock.hpp"

int main(int argc, char** argv) {
  using namespace reprolab::profiling;
  if (argc < 3) return 2;
  std::signal(SIGINT, SIG_DFL);  // ignored by what a shell has started in the background
  try {
    const ClockLock lock({.pci_bus_id = argv[1], .uuid = ""}, parse_clock_policy(argv[2]),
                         [](unsigned) {});
    if (argc > 3 && std::string_view(argv[3]) == "linger") {
      const pid_t forked = fork();
      if (forked == 0) {
        for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
        sleep(60);
        _exit(0);
      }
      std::printf("%d\n", forked);
      std::fflush(stdout);
    }
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
