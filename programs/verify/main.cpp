// verify FILE...: dequantizes a checkpoint and verifies every output, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/command_line.hpp"
#include "programs/verify/verify.hpp"

namespace {

/// The arguments in reverse order, as CLI11 expects. CLI11 would read a path [a,b] as a list of
/// two, so it becomes ./[a,b].
std::vector<std::string> arguments_of(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto is_path = [&](std::size_t i) {
    const CLI::Option* before = i > 0 ? app.get_option_no_throw(arguments[i - 1]) : nullptr;
    return before == nullptr || before->get_items_expected_max() == 0;
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with('[') && is_path(i))
      arguments[i] = fmt::format("./{}", arguments[i]);
  }
  std::ranges::reverse(arguments);
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Dequantizes every NF4 weight of a bnb-4bit checkpoint with the reference, and compares it\n"
      "bit for bit with the output stored in the file and with every kernel of this build.\n"
      "Exit status: 0 all equal, 1 an output is wrong, 2 wrong usage or an unreadable\n"
      "file, 3 verify itself failed, or there was nothing to compare with.",
      "verify"};
  reprolab::verify::Options options;
  app.add_option("FILE", options.files,
                 "A checkpoint that bitsandbytes wrote: .safetensors files, the folder that holds "
                 "them, or their model.safetensors.index.json")
      ->required()
      ->type_name("PATH");
  app.add_option("--threads", options.threads, "CPU threads (default: all)")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_flag("--dry-run", options.dry_run, "Print what would be checked, then exit");
  app.add_flag("--list", options.list, "Print its NF4 weights as JSON, then exit");
  app.add_flag("--brief", options.brief, "Only tensors with a failure, and the summary");
  app.add_option("--dump", options.dump_directory,
                 "Write expected and actual bits of each mismatch to this folder as .npy")
      ->type_name("DIR");
  app.add_option("--kernel", options.kernel,
                 "Only these kernels; * ? and | as in a shell's case; ! before it: all others")
      ->type_name("PATTERN");
  app.add_option(
         "--peer", options.peers,
         "A bitsandbytes library (libbitsandbytes_cudaNNN.so) to verify as a kernel; repeatable")
      ->type_name("PATH")
      ->allow_extra_args(false);
  return reprolab::run_program("verify", [&]() -> int {
    if (const auto status = reprolab::parse(app, arguments_of(app, argc, argv))) return *status;
    return reprolab::verify::verify_checkpoint(options);
  });
}
