#include "harness/nf4/code_data.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

#include "reference/nf4/nf4.hpp"

namespace reprolab::nf4 {
namespace {

constexpr std::uint8_t twice(int code) { return static_cast<std::uint8_t>(code << 4 | code); }

void sort(std::int64_t n, std::span<std::uint8_t> codes) {
  std::array<std::int64_t, 16> count{};
  for (std::int64_t i = 0; i < n; ++i) ++count[reference::code_at(codes, i)];
  std::int64_t begin = 0;
  for (int code = 0; code < 16; ++code) {
    const std::int64_t end = begin + count[code];
    if (begin < end) {
      // The byte in which the code begins may hold the code before it in its high nibble.
      if (begin % 2 != 0)
        codes[begin / 2] = static_cast<std::uint8_t>((codes[begin / 2] & 0xf0) | code);
      std::fill(codes.begin() + (begin + 1) / 2, codes.begin() + (end + 1) / 2, twice(code));
    }
    begin = end;
  }
}

/// Eight bytes, sixteen codes, from each number.
void draw_uniformly(std::uint64_t seed, std::span<std::uint8_t> codes) {
  std::mt19937_64 random(seed);
  for (std::size_t begin = 0; begin < codes.size(); begin += 8) {
    std::uint64_t bits = random();
    const std::size_t end = std::min(begin + 8, codes.size());
    for (std::size_t i = begin; i < end; ++i, bits >>= 8)
      codes[i] = static_cast<std::uint8_t>(bits);
  }
}

}  // namespace

CodeData code_data_named(std::string_view name) {
  const auto found = std::ranges::find(code_data_names, name);
  if (found == code_data_names.end()) {
    throw std::invalid_argument("no codes are called '" + std::string(name) + "'");
  }
  return static_cast<CodeData>(found - code_data_names.begin());
}

void replace_codes(CodeData data, std::uint64_t seed, std::int64_t n,
                   std::span<std::uint8_t> codes) {
  if (codes.empty()) return;
  const int past_the_end = codes.back() & 0x0f;
  switch (data) {
    case CodeData::normal:
      return;
    case CodeData::sorted:
      sort(n, codes);
      break;
    case CodeData::uniform:
      draw_uniformly(seed, codes);
      break;
    case CodeData::equal:
      std::ranges::fill(codes, twice(equal_code));
      break;
  }
  if (n % 2 != 0) codes.back() = static_cast<std::uint8_t>((codes.back() & 0xf0) | past_the_end);
}

}  // namespace reprolab::nf4
