// code_digest: prints the digests (profiling/machine_code.hpp) of files, for comparison in Python.
#include <cstdio>
#include <exception>

#include "kernels/printable.hpp"
#include "profiling/machine_code.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("code_digest: give programs, libraries, cubins or PTX files\n", stderr);
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path file = argv[i];
    try {
      if (file.extension() == ".ptx") {
        std::printf("0 %s\n", reprolab::profiling::file_digest(file).c_str());
        continue;
      }
      for (const auto& code : reprolab::profiling::machine_code_in(file)) {
        std::printf("%d %s %s\n", code.capability, code.sha256.c_str(), code.source.c_str());
      }
    } catch (const std::exception& error) {
      const auto line = reprolab::printable(std::string("code_digest: ") + error.what());
      std::fprintf(stderr, "%s\n", line.c_str());
      return 2;
    }
  }
}
