#include "experiments/harness/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

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

Extent parse_extent(const std::string& option, const std::string& text) {
  Extent extent;
  const char* const end = text.data() + text.size();
  const auto rows = std::from_chars(text.data(), end, extent.rows);
  if (rows.ec == std::errc{} && rows.ptr != end && *rows.ptr == 'x') {
    const auto columns = std::from_chars(rows.ptr + 1, end, extent.columns);
    if (columns.ec == std::errc{} && columns.ptr == end && extent.rows > 0 && extent.columns > 0) {
      if (extent.columns <= (std::int64_t{1} << 40) / extent.rows) return extent;
      throw UsageError(fmt::format("{}: {} has more than 2^40 elements", option, text));
    }
  }
  throw UsageError(
      fmt::format("{}: expected ROWSxCOLUMNS, such as 4096x4096; got '{}'", option, text));
}

}  // namespace reprolab
