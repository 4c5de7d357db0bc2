// What a command line selects, and the one-line error if that is nothing or cannot be read.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "experiments/harness/result_file.hpp"

namespace reprolab {

/// Throws UsageError that names `option` when `pattern` is not a regular expression.
std::regex to_regex(const std::string& option, const std::string& pattern);

/// Throws UsageError: "<option> '<pattern>' selects nothing; there are: ...", each name once.
[[noreturn]] void nothing_matches(const std::string& option, const std::string& pattern,
                                  std::vector<std::string> known);

/// The kernels whose whole name matches `pattern` (if it is empty, all). Throws UsageError.
std::vector<VariantInfo> select_kernels(const std::string& pattern,
                                        const std::vector<VariantInfo>& kernels);

struct Extent {
  std::int64_t rows = 0, columns = 0;
};

/// Reads "4096x4100". Throws UsageError that names `option`, also for more than 2^40 elements: more
/// than any GPU holds, and few enough that no size in bytes overflows.
Extent parse_extent(const std::string& option, const std::string& text);

}  // namespace reprolab
