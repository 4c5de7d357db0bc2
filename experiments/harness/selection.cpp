#include "experiments/harness/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/harness/errors.hpp"

namespace reprolab {

std::regex to_regex(const std::string& option, const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error&) {
    throw UsageError(fmt::format("{}: '{}' is not a regular expression", option, pattern));
  }
}

void nothing_matches(const std::string& option, const std::string& pattern,
                     std::vector<std::string> known) {
  std::ranges::sort(known);
  known.erase(std::ranges::unique(known).begin(), known.end());
  throw UsageError(fmt::format("{} '{}' selects nothing; there are: {}", option, pattern,
                               fmt::join(known, ", ")));
}

std::vector<VariantInfo> select_kernels(const std::string& pattern,
                                        const std::vector<VariantInfo>& kernels) {
  const std::regex regex = to_regex("--kernel", pattern);
  std::vector<VariantInfo> selected;
  std::vector<std::string> known;
  for (const auto& kernel : kernels) {
    known.push_back(kernel.name);
    if (pattern.empty() || std::regex_match(kernel.name, regex)) selected.push_back(kernel);
  }
  if (selected.empty()) nothing_matches("--kernel", pattern, known);
  return selected;
}

}  // namespace reprolab
