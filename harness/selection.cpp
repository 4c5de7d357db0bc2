#include "harness/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "harness/errors.hpp"

namespace reprolab {

namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 40;

/// The parts between `|`.
std::vector<std::string> alternatives(std::string_view pattern) {
  std::istringstream text{std::string(pattern)};
  std::vector<std::string> parts;
  for (std::string part; std::getline(text, part, '|');) parts.push_back(part);
  return parts;
}

/// glibc's fnmatch backtracks only to the last `*`, so that no pattern takes exponential time.
bool any_matches(std::string_view pattern, const std::string& name) {
  return std::ranges::any_of(alternatives(pattern), [&](const std::string& one) {
    return fnmatch(one.c_str(), name.c_str(), 0) == 0;
  });
}

/// A kernel in another language may not be compiled here, so an unknown name is only an error if
/// nothing else is selected.
void say_unknown_names(std::string_view pattern, const std::vector<VariantInfo>& kernels) {
  if (pattern.starts_with('!')) pattern.remove_prefix(1);
  for (const std::string& name : alternatives(pattern)) {
    const bool is_name = !name.empty() && name.find_first_of("*?[") == name.npos;
    if (is_name && std::ranges::find(kernels, name, &VariantInfo::name) == kernels.end()) {
      fmt::print(stderr, "--kernel: no kernel is named '{}' here\n", name);
    }
  }
}

}  // namespace

bool selects(std::string_view pattern, const std::string& name) {
  if (pattern.empty()) return true;
  if (pattern.front() == '!') return !any_matches(pattern.substr(1), name);
  return any_matches(pattern, name);
}

void nothing_matches(const std::string& option, const std::string& pattern,
                     std::vector<std::string> known, const std::vector<std::string>& absent) {
  std::ranges::sort(known);
  known.erase(std::ranges::unique(known).begin(), known.end());
  std::string text = fmt::format("{} '{}' selects nothing; there are: {}", option, pattern,
                                 fmt::join(known, ", "));
  for (const auto& line : absent) text += "; " + line;
  throw UsageError(text);
}

std::vector<VariantInfo> select_kernels(const std::string& pattern,
                                        const std::vector<VariantInfo>& kernels,
                                        const std::vector<std::string>& absent) {
  std::vector<VariantInfo> selected;
  std::ranges::copy_if(kernels, std::back_inserter(selected),
                       [&](const auto& kernel) { return selects(pattern, kernel.name); });
  if (selected.empty()) nothing_matches("--kernel", pattern, names_of(kernels), absent);
  say_unknown_names(pattern, kernels);
  return selected;
}

std::vector<std::string> names_of(const std::vector<VariantInfo>& kernels) {
  std::vector<std::string> names;
  for (const auto& kernel : kernels) names.push_back(kernel.name);
  return names;
}

const VariantInfo& kernel_named(const std::vector<VariantInfo>& kernels, const std::string& name) {
  return *std::ranges::find(kernels, name, &VariantInfo::name);
}

std::vector<std::int64_t> parse_extent(const std::string& option, const std::string& text,
                                       const std::vector<std::string>& names) {
  std::vector<std::int64_t> numbers;
  std::int64_t product = 1;
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0 && (at == end || *at++ != 'x')) break;
    std::int64_t number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc{} || number < 1) break;
    at = read.ptr;
    product = number <= max_elements / product ? product * number : max_elements + 1;
    numbers.push_back(number);
  }
  if (at == end && numbers.size() == names.size()) {
    if (product <= max_elements) return numbers;
    throw UsageError(fmt::format("{}: {} has more than 2^40 elements", option, text));
  }
  const std::vector<int> example(names.size(), 4096);
  throw UsageError(fmt::format("{}: expected {}, such as {}; got '{}'", option,
                               fmt::join(names, " x "), fmt::join(example, "x"), text));
}

}  // namespace reprolab
