#include "harness/plain_family.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "harness/errors.hpp"
#include "harness/selection.hpp"

namespace reprolab {

void PlainSelection::add_options(CLI::App& app, const FamilyFacts& facts,
                                 std::vector<PlainOption> options, bool may_halve) {
  *this = {};
  auto* group = app.add_option_group(facts.name);
  size_option_ = facts.size_option;
  others_.reserve(options.size());
  for (const PlainOption& number : options) {
    if (number.option.empty()) {
      of_size_.push_back(number);
      continue;
    }
    group->add_option(number.option, others_.emplace_back(), number.help)
        ->check(CLI::Range(std::int64_t{0}, number.most))
        ->default_str(std::to_string(number.usual));
  }
  group->add_option(
      size_option_, sizes_,
      "The size of a problem, such as " + facts.profiled_size + ", instead of the usual ones");
  if (may_halve) {
    group->add_flag("--halve-to-fit", halve_, "Halve a problem of this family until it fits");
  }
}

std::vector<std::vector<std::int64_t>> PlainSelection::sizes() const {
  std::vector<std::string> names;
  for (const auto& number : of_size_) names.push_back(number.name);
  std::vector<std::vector<std::int64_t>> sizes;
  for (const auto& text : sizes_) {
    const auto& size = sizes.emplace_back(parse_extent(size_option_, text, names));
    for (std::size_t i = 0; i < size.size(); ++i) {
      if (size[i] <= of_size_[i].most) continue;
      throw UsageError(fmt::format("{}: {} has more than {} {}; give fewer", size_option_, text,
                                   of_size_[i].most, names[i]));
    }
  }
  return sizes;
}

std::string plain_name(const std::vector<PlainOption>& numbers,
                       const std::vector<std::int64_t>& values, const std::string& data) {
  std::string size, rest;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].option.empty()) {
      size += fmt::format("{}{}", size.empty() ? "" : "x", values[i]);
    } else if (values[i] != numbers[i].usual) {
      rest += fmt::format("{}{}", numbers[i].mark, values[i]);
    }
  }
  return size + rest + (data.empty() ? "" : "/" + data);
}

std::string plain_mismatch(const std::string& element, const reference::Comparison& comparison,
                           std::uint64_t words, const std::string& place, std::uint32_t expected,
                           std::uint32_t actual) {
  return fmt::format("{} of {} {}s differ; first at {}: expected {:#010x}, actual {:#010x}",
                     comparison.mismatches, words, element, place, expected, actual);
}

}  // namespace reprolab
