// Verifies the outputs of one checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/outcome.hpp"
#include "programs/verify/kernel_checks.hpp"

namespace reprolab::verify {

struct Options {
  /// A bnb-4bit checkpoint: its files, folder or index (reference/checkpoint/shard_set.hpp).
  std::vector<std::filesystem::path> files;
  int threads = 0;       ///< 0: all hardware threads.
  bool dry_run = false;  ///< Read the headers, and print what would be checked.
  bool list = false;     ///< Read the headers, and print the NF4 weights as JSON.
  bool brief = false;    ///< Print only tensors with a failure, and the summary.
  std::optional<std::filesystem::path> dump_directory;
  std::string kernel;              ///< A pattern of names; empty: all.
  std::vector<std::string> peers;  ///< Libraries that are kernels, too.
};

/// Dequantizes every NF4 weight of the checkpoint with the reference and compares: with the stored
/// `.dequantized` bits, with every selected kernel, and the quantizer with `.source`. Prints one
/// line per tensor and a summary on stdout, and on stderr one per mismatch that could not be
/// dumped. Throws UsageError, also for an invalid file, and std::logic_error if the comparison
/// fails its self-test.
ExitStatus verify_checkpoint(const Options& options);

}  // namespace reprolab::verify
