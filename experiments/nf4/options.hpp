// Command-line options that the NF4 programs share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "experiments/nf4/tensor.hpp"

namespace reprolab::nf4 {

/// Adds --block-size, --output-type and --nested, which are written to `spec` as they are read.
void add_format_options(CLI::App& app, TensorSpec& spec);

/// Adds --peer, repeatable.
void add_peer_option(CLI::App& app, std::vector<std::string>& libraries);

/// Registers each library (a path or NAME=path) as a kernel, after a separate process has shown
/// that loading it crashes nothing. Throws UsageError.
void load_peers(const std::vector<std::string>& libraries);

}  // namespace reprolab::nf4
