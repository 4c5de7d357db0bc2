// The command line of a family, for its tests; apart from them, because nvcc is slow with CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "harness/family.hpp"

namespace reprolab {

std::vector<PlannedProblem> planned(const std::string& name, const std::string& options,
                                    const std::string& data) {
  const auto all = families();
  Family& family = **std::ranges::find(all, name, &Family::name);
  CLI::App app;
  family.add_options(app);
  app.parse(options);
  family.configure();
  return family.problems({~0ull, ~0ull}, {data.empty() ? family.data().front() : data});
}

}  // namespace reprolab
