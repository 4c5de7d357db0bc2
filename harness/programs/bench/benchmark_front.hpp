// Google Benchmark as the front end: its names, filters, flags, console and JSON, for samples that
// this project takes interleaved, one problem at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/programs/bench/plan.hpp"

namespace reprolab::bench {

/// Measures a problem's rows: the rows of these kernels and of the ceilings.
using MeasureGroup =
    std::function<std::vector<Record>(const Group& group, const std::vector<VariantInfo>& kernels)>;

/// A row's name in Google Benchmark: "family/problem/kernel".
std::string row_name(const Group& group, const std::string& kernel);

/// Passes `words` to Google Benchmark. Returns whether they only request a list of the rows. Throws
/// UsageError for an unknown word and for flags that conflict with our order of samples.
bool initialize_benchmark(const std::string& program, std::vector<std::string> words);

/// Prints the name of each row of `groups` that --benchmark_filter selects.
void list_benchmarks(const std::vector<Group>& groups, const std::vector<VariantInfo>& ceilings);

/// Runs the selected rows and returns their records; a group is measured when its first row is run,
/// so that only one group holds memory at a time. `context` is printed above the table. Throws
/// UsageError if the filter selects nothing.
std::vector<Record> run_benchmarks(const std::vector<Group>& groups,
                                   const std::vector<VariantInfo>& ceilings, int samples,
                                   const std::string& context, const MeasureGroup& measure);

}  // namespace reprolab::bench
