#include "experiments/verify/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/printable.hpp"

namespace reprolab::verify {

void Summary::add(const std::string& subject, Outcome outcome, const std::string& reason) {
  auto [counts, is_new] = counts_.try_emplace(subject);
  if (is_new) order_.push_back(subject);
  Count& count = counts->second[outcome];
  if (count.tensors++ == 0) count.first_reason = reason;
  any_failure_ = any_failure_ || is_failure(outcome);
  any_comparison_ = any_comparison_ || may_be_timed(outcome) || outcome == Outcome::mismatch;
}

std::string Summary::text() const {
  std::size_t width = 0;
  for (const auto& subject : order_) width = std::max(width, printable(subject).size());
  std::string text;
  for (const auto& subject : order_) {
    text += fmt::format("  {:<{}}", printable(subject), width);
    for (const auto& [outcome, count] : counts_.at(subject)) {
      text += fmt::format("  {} {}", name(outcome), count.tensors);
      const bool explain = !count.first_reason.empty() && !is_failure(outcome);
      if (explain) text += fmt::format(" ({})", printable(count.first_reason));
    }
    text += '\n';
  }
  return text;
}

}  // namespace reprolab::verify
