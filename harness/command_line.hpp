// Reads a program's command line.
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <optional>

#include "harness/errors.hpp"

namespace reprolab {

/// Reads what CLI::App::parse() takes. Returns an exit status if it contained --help, which has
/// then been printed. Throws UsageError that points to --help if it cannot be parsed.
template <class... CommandLine>
std::optional<int> parse(CLI::App& app, CommandLine... command_line) {
  try {
    app.parse(command_line...);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; see {} --help", error.what(), app.get_name()));
  }
  return std::nullopt;
}

}  // namespace reprolab
