// What ceilings and the clock probe do before they reach the GPU.
#include "profiling/ceilings.hpp"

#include <cstdint>
#include <set>
#include <stdexcept>

#include "profiling/sm_clock_probe.hpp"
#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

char* misaligned() { return reinterpret_cast<char*>(std::uintptr_t{24}); }

TEST(Ceilings, MisalignedPointersAreRefused) {
  const std::string to_write =
      "ceilings: the buffer to write is not 16-byte aligned; pass the start of an allocation";
  const std::string to_read =
      "ceilings: the buffer to read is not 16-byte aligned; pass the start of an allocation";
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { ceilings::write_only(misaligned(), 16, nullptr); }),
      to_write);
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { ceilings::read_only(misaligned(), 16, nullptr); }),
      to_read);
  for (const std::uint64_t bytes : {0, 16}) {
    EXPECT_EQ(message_of<std::invalid_argument>(
                  [&] { ceilings::copy_kernel(misaligned(), nullptr, bytes, nullptr); }),
              to_write);
    EXPECT_EQ(message_of<std::invalid_argument>(
                  [&] { ceilings::copy_kernel(nullptr, misaligned(), bytes, nullptr); }),
              to_read);
  }
}

TEST(Ceilings, TooManyBytesAreRefused) {
  const std::string text =
      "ceilings: 35184372088832 bytes need more blocks than a grid holds; pass fewer";
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { ceilings::write_only(nullptr, 1ull << 45, nullptr); }),
      text);
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { ceilings::same_bytes(nullptr, 16, nullptr, 1ull << 45, nullptr); }),
            text);
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { ceilings::copy_kernel(nullptr, nullptr, 1ull << 45, nullptr); }),
            text);
  // One byte more than a grid of blocks of 512 threads writes, with 16 bytes per thread.
  constexpr std::uint64_t most = 0x7fffffffull * 512 * 16;
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { ceilings::write_only(nullptr, most + 1, nullptr); }),
      "ceilings: 17592186036225 bytes need more blocks than a grid holds; pass fewer");
}

TEST(Ceilings, NothingToMoveNeedsNoGpu) {
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

TEST(SmClockProbe, MegahertzOfAReading) {
  EXPECT_DOUBLE_EQ(to_mhz({198000, 100000}).value(), 1980.0);
  EXPECT_FALSE(to_mhz({}));
  EXPECT_FALSE(to_mhz({198000, 0}));
}

}  // namespace
}  // namespace reprolab::profiling
