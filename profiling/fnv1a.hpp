// A hash that is stable across machines and versions: the 64-bit FNV-1a (Fowler, Noll, Vo).
#pragma once

#include <cstdint>
#include <string_view>

namespace reprolab {

constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace reprolab
