#include "programs/verify/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/printable.hpp"

namespace reprolab::verify {
namespace {

/// In the order of Summary::compared_with_.
constexpr std::array<std::string_view, 3> compared_with = {"stored outputs", "what was quantized",
                                                           "kernels"};

std::size_t place_of(std::string_view subject) {
  return subject == reference_subject ? 0 : subject == quantizer_subject ? 1 : 2;
}

std::string tensors(std::size_t count) {
  return fmt::format("{} tensor{}", count, count == 1 ? "" : "s");
}

}  // namespace

void Summary::add_tensor(const std::vector<Note>& notes) {
  std::array<bool, compared_with.size()> compared{};
  for (const auto& [subject, outcome, reason] : notes) {
    auto [counts, is_new] = counts_.try_emplace(subject);
    if (is_new) order_.push_back(subject);
    Count& count = counts->second[outcome];
    if (count.tensors++ == 0) count.first_reason = reason;
    if (is_failure(outcome)) status_ = exit_wrong_output;
    if (outcome == Outcome::not_measured && status_ == exit_verified) status_ = exit_not_measured;
    const bool is_comparison = may_be_timed(outcome) || outcome == Outcome::mismatch;
    if (is_comparison) compared[place_of(subject)] = true;
  }
  ++tensors_;
  compared_ += std::ranges::count(compared, true) > 0;
  for (std::size_t i = 0; i < compared.size(); ++i) compared_with_[i] += compared[i];
}

std::string Summary::outcomes() const {
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

std::string Summary::coverage(const std::vector<reference::TensorKind>& others) const {
  std::size_t total = tensors_;
  for (const auto& kind : others) total += kind.count;
  std::string text = fmt::format("checked: {} of {}", compared_, tensors(total));
  std::string_view separator = ": ";
  for (std::size_t i = 0; i < compared_with.size(); ++i) {
    if (compared_with_[i] == 0) continue;
    text += fmt::format("{}{} with {}", separator, compared_with_[i], compared_with[i]);
    separator = ", ";
  }
  text += '\n';
  if (compared_ < tensors_) {
    text += fmt::format(
        "not checked: {} of NF4, dequantized by the reference with nothing to compare with, which "
        "proves nothing\n",
        tensors(tensors_ - compared_));
  }
  if (!others.empty()) text += fmt::format("not checked: {}\n", describe(others));
  return text;
}

}  // namespace reprolab::verify
