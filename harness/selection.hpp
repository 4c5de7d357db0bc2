// Selection by the command line, and the one-line error if it selects nothing or cannot be read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/facts.hpp"

namespace reprolab {

/// Whether `pattern` selects `name`: as in a shell's `case`, `*` stands for any characters, `?` for
/// one, `[ab]` for one of these, and `|` separates alternatives, one of which must match the whole
/// name. A pattern that begins with `!` selects the names that the rest of it does not; an empty
/// one selects every name. Takes time in proportion to the product of both lengths at most.
bool selects(std::string_view pattern, const std::string& name);

/// Throws UsageError: "<option> '<pattern>' selects nothing; there are: ...", each name once, then
/// the lines of `absent`, which describe missing kernels.
[[noreturn]] void nothing_matches(const std::string& option, const std::string& pattern,
                                  std::vector<std::string> known,
                                  const std::vector<std::string>& absent = {});

/// The kernels that `pattern` selects. Throws UsageError, as above, if there are none; prints to
/// stderr the names in `pattern` that no kernel has.
std::vector<VariantInfo> select_kernels(const std::string& pattern,
                                        const std::vector<VariantInfo>& kernels,
                                        const std::vector<std::string>& absent = {});

/// The kernels' names, in their order.
std::vector<std::string> names_of(const std::vector<VariantInfo>& kernels);

/// The kernel of that name, which must be among `kernels`.
const VariantInfo& kernel_named(const std::vector<VariantInfo>& kernels, const std::string& name);

/// Reads "4096x4100", a positive number for each name. Throws UsageError that names `option`, also
/// for a product above 2^40: more elements than any GPU holds, and few enough that no size in bytes
/// overflows.
std::vector<std::int64_t> parse_extent(const std::string& option, const std::string& text,
                                       const std::vector<std::string>& names = {"rows", "columns"});

}  // namespace reprolab
