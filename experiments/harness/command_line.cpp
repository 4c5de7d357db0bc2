#include "experiments/harness/command_line.hpp"

#include <fmt/core.h>

#include "experiments/harness/errors.hpp"

namespace reprolab {

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; see {} --help", error.what(), app.get_name()));
  }
  return std::nullopt;
}

void add_measure_options(CLI::App& app, MeasureOptions& options) {
  app.add_option("--samples", options.samples, "Timed batches a row")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the data and of the order of samples")
      ->check(CLI::Range(0, 2147483647))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--instrument",
         [&options](const std::string& name) {
           options.instrument = profiling::parse_instrument(name);
         },
         "events, or none: verify and launch only, for ncu and compute-sanitizer")
      ->check(CLI::IsMember({"events", "none"}))
      ->default_str("events");
}

}  // namespace reprolab
