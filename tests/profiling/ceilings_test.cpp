// What ceilings do before they reach the GPU.
#include "profiling/ceilings.hpp"

#include <cstdint>
#include <set>
#include <stdexcept>

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

template <class Action>
std::string refusal(Action action) {
  return message_of<std::invalid_argument>(action);
}

TEST(Ceilings, MisalignedPointersAreRefused) {
  char* const misaligned = reinterpret_cast<char*>(std::uintptr_t{24});
  const std::string advice = " is not 16-byte aligned; pass the start of an allocation";
  const std::string to_write = "ceilings: the buffer to write" + advice;
  const std::string to_read = "ceilings: the buffer to read" + advice;
  EXPECT_EQ(refusal([&] { ceilings::write_only(misaligned, 16, nullptr); }), to_write);
  EXPECT_EQ(refusal([&] { ceilings::read_only(misaligned, 16, nullptr); }), to_read);
  for (const std::uint64_t bytes : {0, 16}) {
    EXPECT_EQ(refusal([&] { ceilings::copy_kernel(misaligned, nullptr, bytes, nullptr); }),
              to_write);
    EXPECT_EQ(refusal([&] { ceilings::copy_kernel(nullptr, misaligned, bytes, nullptr); }),
              to_read);
  }
}

TEST(Ceilings, TooManyBytesAreRefusedAndNoneNeedNoGpu) {
  // One byte more than a grid of blocks of 512 threads writes, with 16 bytes per thread.
  constexpr std::uint64_t many = std::uint64_t{1} << 45, one_more = 0x7fffffffull * 512 * 16 + 1;
  const std::string advice = " bytes need more blocks than a grid holds; pass fewer";
  EXPECT_EQ(refusal([] { ceilings::write_only(nullptr, one_more, nullptr); }),
            "ceilings: 17592186036225" + advice);
  EXPECT_EQ(refusal([] { ceilings::same_bytes(nullptr, 16, nullptr, many, nullptr); }),
            "ceilings: 35184372088832" + advice);
  EXPECT_EQ(refusal([] { ceilings::copy_kernel(nullptr, nullptr, many, nullptr); }),
            "ceilings: 35184372088832" + advice);
  EXPECT_NO_THROW(ceilings::write_only(nullptr, 0, nullptr));
  EXPECT_NO_THROW(ceilings::copy_kernel(nullptr, nullptr, 0, nullptr));
  EXPECT_NO_THROW(ceilings::read_only(nullptr, 0, nullptr));
  EXPECT_NO_THROW(ceilings::same_bytes(nullptr, 0, nullptr, 0, nullptr));
}

TEST(Ceilings, ThePatternIsNotConstantOverALine) {
  for (const std::uint64_t line : {0ull, 1ull, 1ull << 33}) {
    std::set<std::uint32_t> words;
    for (std::uint64_t i = 0; i < 32; ++i) words.insert(ceilings::pattern_word(32 * line + i));
    EXPECT_EQ(words.size(), 32u);
  }
}

}  // namespace
}  // namespace reprolab::profiling
