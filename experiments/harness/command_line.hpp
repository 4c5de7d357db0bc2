// What the measuring programs' command lines share.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "experiments/harness/measure.hpp"

namespace reprolab {

/// Reads the command line. An exit status when it asked for help, which has been printed; throws
/// UsageError that points to --help when it cannot be read.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

/// Adds --samples, --seed and --instrument, which are written to `options` as they are read.
void add_measure_options(CLI::App& app, MeasureOptions& options);

}  // namespace reprolab
