// The codes of a tensor: those of normal weights, or others, to see what depends on the data alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace reprolab::nf4 {

enum class CodeData {
  normal,   ///< Those of quantized normal weights, in their order.
  sorted,   ///< The same codes in ascending order: nearly every warp finds one code alone.
  uniform,  ///< Each code equally often, at random.
  equal     ///< `equal_code` alone.
};

/// The names on the command line and in result files, in the order of the enumerators.
inline constexpr std::array<std::string_view, 4> code_data_names = {"normal", "sorted", "uniform",
                                                                    "equal"};

/// Any but 7, whose value is 0.0 whatever its scale.
inline constexpr int equal_code = 11;

constexpr std::string_view name(CodeData data) {
  return code_data_names[static_cast<std::size_t>(data)];
}

/// The data of that name, which must be one of `code_data_names`.
CodeData code_data_named(std::string_view name);

/// Replaces the `n` codes of normal weights, two in a byte, by those of `data`. Past an odd end,
/// the low nibble stays. Depends only on the arguments.
void replace_codes(CodeData data, std::uint64_t seed, std::int64_t n,
                   std::span<std::uint8_t> codes);

}  // namespace reprolab::nf4
