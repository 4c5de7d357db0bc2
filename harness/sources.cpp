#include "harness/sources.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "harness/errors.hpp"

namespace reprolab {
namespace {

/// The output of a shell command; empty if it cannot be started.
std::string output_of(const char* command) {
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return "";
  std::string output;
  std::array<char, 256> chunk;
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) output += chunk.data();
  pclose(pipe);
  return output;
}

}  // namespace

nlohmann::json find_sources(const std::filesystem::path& root) {
  const auto program = root / "reprolab/sources.py";
  setenv("REPROLAB_SOURCES", program.c_str(), 1);  // no part of the shell's text
  auto sources = nlohmann::json::parse(output_of("python3 -I \"$REPROLAB_SOURCES\""), nullptr,
                                       /*allow_exceptions=*/false);
  if (!sources.is_object()) {
    complain("the commit is not known", ("python3 cannot run " + program.string()).c_str());
    return {{"commit", "unknown"}, {"dirty", true}};
  }
  if (sources.contains("wrong")) throw UsageError(sources.at("wrong").get<std::string>());
  return sources;
}

}  // namespace reprolab
