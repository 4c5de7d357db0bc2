#include "experiments/transpose/verdicts.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "experiments/harness/statistics.hpp"
#include "experiments/harness/verdict.hpp"
#include "experiments/transpose/protocol.hpp"

namespace reprolab::transpose {
namespace {

using nlohmann::json;

constexpr const char* source = "transpose_blog";

/// The rows of the matrix, by kernel and data.
class Rows {
 public:
  explicit Rows(const std::vector<Record>& records) : records_(records) {}

  const Record* find(std::string_view kernel, std::string_view data = "random") const {
    const auto found = std::ranges::find_if(records_, [&](const Record& record) {
      return record.variant.name == kernel && record.problem.at("data") == data;
    });
    return found == records_.end() ? nullptr : &*found;
  }

  /// Why a matrix of this size says nothing about the post's; empty when it does.
  std::string not_the_posts_matrix() const {
    for (const Record& record : records_) {
      const auto rows = record.problem.at("rows").get<std::int64_t>();
      if (rows >= least_size && rows % posts_tile == 0) continue;
      return fmt::format(
          "decided on matrices of at least {0} x {0} whose size is a multiple of {1}; this one has "
          "{2} rows",
          least_size, posts_tile, rows);
    }
    return "";
  }

  /// Why the times of `kernels` decide nothing; empty when they do.
  std::string obstacle(std::initializer_list<std::string_view> kernels) const {
    for (const auto kernel : kernels) {
      const Record* row = find(kernel);
      if (row == nullptr) return fmt::format("{} did not run", kernel);
      if (!may_be_timed(row->outcome)) {
        return fmt::format("{} is {}: {}", kernel, name(row->outcome), row->reason);
      }
      if (row->samples_us.empty()) return fmt::format("{} was not timed", kernel);
    }
    return "";
  }

 private:
  const std::vector<Record>& records_;
};

Ranged bandwidth_gb_s(const Record& row) {
  const Summary us = summarize(row.samples_us);
  const double kilobytes = 1e-3 * static_cast<double>(row.bytes_read + row.bytes_written);
  return {kilobytes / us.median, kilobytes / us.high(), kilobytes / us.low()};
}

/// What one step of the post's ladder does to the bandwidth.
VerdictRecord decide_gain(const Rows& rows, const json& published, const std::string& claim,
                          double source_gain, std::string_view slow, std::string_view fast,
                          const std::string& remark) {
  auto verdict = start_verdict(published, source, claim, "x");
  verdict.source_value = source_gain;
  verdict.tolerance = fmt::format("at least {:g} of the source's factor", least_gain);
  verdict.reason = rows.obstacle({slow, fast});
  if (!verdict.reason.empty()) return verdict;
  const Record &before = *rows.find(slow), &after = *rows.find(fast);
  set_ours(verdict, ratio(before.samples_us, after.samples_us));
  verdict.decided_by = {before.key, after.key};
  const bool holds = *verdict.our_value >= least_gain * source_gain;
  verdict.verdict = holds ? Verdict::reproduced : Verdict::not_reproduced;
  verdict.reason =
      fmt::format("{}: {:.0f} GB/s, {}: {:.0f} GB/s; {}", slow, bandwidth_gb_s(before).value, fast,
                  bandwidth_gb_s(after).value, remark);
  return verdict;
}

/// "84.1056 % of the card's bandwidth", of the code that it was measured with.
VerdictRecord decide_share(const Rows& rows, std::optional<double> theoretical_gb_s,
                           const json& published) {
  auto verdict = start_verdict(published, source, "84-percent", "%");
  const json& post = published.at(source);
  verdict.source_value = post.at("best_percent_of_peak").get<double>();
  verdict.tolerance = within(share_tolerance_percent);
  verdict.reason = rows.obstacle({published_batched});
  if (verdict.reason.empty() && !theoretical_gb_s) {
    verdict.reason = "this GPU does not say its theoretical bandwidth";
  }
  if (!verdict.reason.empty()) return verdict;
  const Record& row = *rows.find(published_batched);
  const Ranged ours = bandwidth_gb_s(row);
  const double percent = 100.0 / *theoretical_gb_s;
  set_ours(verdict, {percent * ours.value, percent * ours.low, percent * ours.high});
  verdict.decided_by = {row.key};
  judge_within(verdict, share_tolerance_percent);
  verdict.reason += fmt::format(
      "; {:.0f} of {:.0f} GB/s in theory, where the post takes {} GB/s for its {}", ours.value,
      *theoretical_gb_s, post.at("peak_gb_s").dump(), post.at("gpu").get<std::string>());
  const Record* copy = rows.find("copy");
  if (copy != nullptr && !copy->samples_us.empty()) {
    verdict.reason += fmt::format("; of what a copy reaches here it is {:.1f} %",
                                  100.0 * ours.value / bandwidth_gb_s(*copy).value);
  }
  return verdict;
}

/// "Mojo can achieve CUDA-like performance on exactly the same task."
VerdictRecord decide_same_task(const Rows& rows, const json& published) {
  auto verdict = start_verdict(published, source, "mojo-is-cuda-like", "x");
  const json& post = published.at(source);
  verdict.source_value = post.at("mojo_gb_s").at("tma_swizzle_batched").get<double>() /
                         post.at("cuda_gb_s").at("tma_swizzle_batched").get<double>();
  verdict.tolerance = "the same task; the speed would need a run of Mojo itself";
  verdict.reason = rows.obstacle({batched, published_batched});
  if (!verdict.reason.empty()) return verdict;
  const Record &cuda = *rows.find(batched), &mojo = *rows.find(published_batched);
  set_ours(verdict, ratio(cuda.samples_us, mojo.samples_us));
  verdict.decided_by = {cuda.key, mojo.key};
  const std::string speeds = fmt::format(
      "Mojo itself was not run; in CUDA, its indices and the right ones move the same bytes at "
      "{:.0f} "
      "and {:.0f} GB/s, so its speed may well stand",
      bandwidth_gb_s(mojo).value, bandwidth_gb_s(cuda).value);
  if (mojo.outcome == Outcome::deviation_as_declared) {
    verdict.verdict = Verdict::premise_false;
    verdict.reason = fmt::format(
        "not the same task: with the Mojo code's indices {} of {} elements are wrong; {}",
        mojo.mismatches.value_or(0), mojo.problem.at("n").get<std::int64_t>(), speeds);
  } else {
    verdict.reason = speeds;
  }
  return verdict;
}

/// The Mojo kernel's own check against ours.
VerdictRecord decide_correct(const Rows& rows, const json& published) {
  auto verdict = start_verdict(published, source, "correct", "");
  verdict.tolerance = "the check passes, and on random data every bit equals the reference";
  const Record* random = rows.find(published_batched);
  const Record* constant = rows.find(published_batched, "constant");
  for (const Record* row : {random, constant}) {
    if (row == nullptr) {
      verdict.reason = fmt::format("{} did not run on both kinds of data", published_batched);
      return verdict;
    }
    verdict.decided_by.push_back(row->key);
    if (!may_be_timed(row->outcome)) {  // our fault, which decides nothing about the post
      verdict.reason = fmt::format("{}: {}", name(row->outcome), row->reason);
      return verdict;
    }
  }
  if (constant->outcome != Outcome::bit_exact) {
    verdict.verdict = Verdict::not_reproduced;
    verdict.reason = "the post's check fails here: " + constant->reason;
  } else if (random->outcome != Outcome::bit_exact) {
    // What the claim rests on: that a kernel which passes the check transposes.
    verdict.verdict = Verdict::premise_false;
    verdict.reason =
        "the check passes here too, but shows nothing: a matrix of one constant is its own "
        "transpose whatever the indices; on random data " +
        random->reason;
  } else {
    verdict.verdict = Verdict::reproduced;
    verdict.reason = "the post's check passes, and on random data the output is right";
  }
  return verdict;
}

}  // namespace

std::vector<VerdictRecord> decide(const std::vector<Record>& records,
                                  std::optional<double> theoretical_gb_s, const json& published) {
  const Rows rows(records);
  if (const std::string why = rows.not_the_posts_matrix(); !why.empty()) {
    auto undecided = decide({}, theoretical_gb_s, published);
    for (auto& verdict : undecided) verdict.reason = why;
    return undecided;
  }
  const json& mojo = published.at(source).at("mojo_gb_s");
  const auto gain = [&](const char* over, const char* under) {
    return mojo.at(over).get<double>() / mojo.at(under).get<double>();
  };
  return {decide_gain(rows, published, "swizzle", gain("tma_swizzle", "tma_naive"), naive, swizzle,
                      "by the indices alone 32-way bank conflicts become 4-way ones; that this is "
                      "why needs counters"),
          decide_gain(rows, published, "batched", gain("tma_swizzle_batched", "tma_swizzle"),
                      swizzle, batched, "with indices that are right"),
          decide_share(rows, theoretical_gb_s, published), decide_same_task(rows, published),
          decide_correct(rows, published)};
}

}  // namespace reprolab::transpose
