// What the transpose experiment declares before it measures.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace reprolab::transpose {

/// Rows and columns of the post's matrix.
inline constexpr std::int64_t posts_size = 32768;
/// Where it does not fit: half as many rows and columns, and so on, down to this.
inline constexpr std::int64_t smallest_size = 1024;
/// Smaller matrices, and those of which the post's tiles stick out, decide no claim.
inline constexpr std::int64_t least_size = 16384;
inline constexpr std::int64_t posts_tile = 32;

/// Of the sweep. Multiples of the tiles (64), of 4 alone, and of neither.
inline constexpr std::array<std::int64_t, 26> sizes = {
    256,  512,  1000, 1023,  1024,  1536,  2020,  2048,  2050,  3072,  4096,  4097,  4100,
    6144, 8191, 8192, 10000, 12288, 16383, 16384, 20004, 24576, 32767, 32768, 32772, 65536};

/// "The card's bandwidth": ours within this of the source's value.
inline constexpr double share_tolerance_percent = 10.0;
/// "Makes it faster by": ours at least this much of the source's factor. A gain may be greater on
/// another GPU without the claim being wrong.
inline constexpr double least_gain = 0.9;
inline constexpr std::string_view naive = "tma_naive";
inline constexpr std::string_view swizzle = "tma_swizzle";
inline constexpr std::string_view batched = "tma_batched";
inline constexpr std::string_view published_batched = "tma_batched_as_published";

}  // namespace reprolab::transpose
