// Google Benchmark as the front end: its names, filters, flags, console and JSON, over samples that
// are taken interleaved, a problem at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/bench/plan.hpp"
#include "experiments/harness/measure.hpp"

namespace reprolab::bench {

/// Registers "family/problem/kernel" for each row of `groups`, runs those that --benchmark_filter
/// selects (benchmark::Initialize has been called) and returns their records. Empty when the filter
/// matches nothing or when tests were only listed. `l2_bytes`: of the GPU, for cold rotation.
std::vector<Record> run_benchmarks(const std::vector<Group>& groups, const MeasureOptions& options,
                                   std::uint64_t l2_bytes);

/// The same rows verified and launched without a benchmark around them, for programs that watch
/// this one: one line a row.
std::vector<Record> run_without_timing(const std::vector<Group>& groups,
                                       const MeasureOptions& options);

}  // namespace reprolab::bench
