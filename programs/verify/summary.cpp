#include "programs/verify/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/printable.hpp"

namespace reprolab::verify {
namespace {

bool is_comparison(Outcome outcome) {
  return may_be_timed(outcome) || outcome == Outcome::mismatch;
}

std::string tensors(std::size_t count) {
  return fmt::format("{} tensor{}", count, count == 1 ? "" : "s");
}

}  // namespace

void Summary::add_tensor(const std::vector<Note>& notes) {
  bool stored_output = false, stored_source = false, kernel = false;
  for (const auto& [subject, outcome, reason] : notes) {
    auto [counts, is_new] = counts_.try_emplace(subject);
    if (is_new) order_.push_back(subject);
    Count& count = counts->second[outcome];
    if (count.tensors++ == 0) count.first_reason = reason;
    any_failure_ = any_failure_ || is_failure(outcome);
    any_not_measured_ = any_not_measured_ || outcome == Outcome::not_measured;
    if (is_comparison(outcome)) {
      (subject == reference_subject   ? stored_output
       : subject == quantizer_subject ? stored_source
                                      : kernel) = true;
    }
  }
  ++tensors_;
  compared_ += stored_output || stored_source || kernel;
  with_stored_outputs_ += stored_output;
  with_stored_sources_ += stored_source;
  with_kernels_ += kernel;
}

ExitStatus Summary::status() const {
  if (any_failure_) return exit_wrong_output;
  return any_not_measured_ ? exit_not_measured : exit_verified;
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
  std::string separator = ": ";
  const auto add_way = [&](std::size_t count, std::string_view way) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", separator, count, way);
    separator = ", ";
  };
  add_way(with_stored_outputs_, "with stored outputs");
  add_way(with_stored_sources_, "with what was quantized");
  add_way(with_kernels_, "with kernels");
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
