// The bytes that ceilings move: exactly the requested ones.
#include "profiling/ceilings.hpp"

#include <algorithm>
#include <vector>

#include "profiling/cuda_check.hpp"
#include "tests/on_gpu.hpp"

namespace reprolab::profiling {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes to_host(const DeviceBuffer& buffer) {
  Bytes bytes(buffer.bytes());
  check(cudaMemcpy(bytes.data(), buffer.data(), bytes.size(), cudaMemcpyDeviceToHost),
        "copying to the host");
  return bytes;
}

void fill(const DeviceBuffer& buffer, int value) {
  check(cudaMemset(buffer.data(), value, buffer.bytes()), "filling device memory");
}

std::uint8_t pattern_byte(std::uint64_t i) {
  return static_cast<std::uint8_t>(ceilings::pattern_word(i / 4) >> 8 * (i % 4));
}

/// The XOR of the words of the pattern's first bytes; those past the end count as zero.
std::uint32_t checksum_of_pattern(std::uint64_t bytes) {
  std::uint32_t sum = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) {
    sum ^= static_cast<std::uint32_t>(pattern_byte(i)) << 8 * (i % 4);
  }
  return sum;
}

std::uint32_t word_of(const DeviceBuffer& buffer) {
  std::uint32_t word = 0;
  check(cudaMemcpy(&word, buffer.data(), sizeof word, cudaMemcpyDeviceToHost), "copying a word");
  return word;
}

/// Sizes around every boundary: element, cache line, block, and several blocks; and one for every
/// form of the ceilings (profiling/ceilings.cu), few of them whole panels of tiles.
const std::vector<std::uint64_t> sizes = {
    1,       3,       15,      16,      17,       127,      128,     129,    2047,
    2048,    2049,    16383,   16384,   16385,    65536,    70001,   262149, 1048576,
    2200001, 5000011, 6291455, 9437189, 21000016, 26214401, 38800003};
constexpr std::uint64_t guard_bytes = 4096;

void expect_pattern(const Bytes& bytes, std::uint64_t size) {
  for (std::uint64_t i = 0; i < bytes.size(); ++i) {
    const std::uint8_t expected = i < size ? pattern_byte(i) : 0xcd;
    if (bytes[i] == expected) continue;
    FAIL() << "byte " << i << " of " << size << ": expected " << int{expected} << ", got "
           << int{bytes[i]};
  }
}

class OnGpuKernelCeilings : public OnGpuTest {};

TEST_F(OnGpuKernelCeilings, WriteOnlyWritesEveryByteAndNoOther) {
  for (const std::uint64_t size : sizes) {
    const DeviceBuffer buffer(size + guard_bytes);
    fill(buffer, 0xcd);
    ceilings::write_only(buffer.data(), size, nullptr);
    expect_pattern(to_host(buffer), size);
  }
}

TEST_F(OnGpuKernelCeilings, ReadOnlyReadsEveryByte) {
  for (const std::uint64_t size : sizes) {
    const DeviceBuffer buffer(size + guard_bytes), checksum(4);
    fill(buffer, 0xcd);
    fill(checksum, 0);
    ceilings::write_only(buffer.data(), size, nullptr);
    ceilings::read_only(buffer.data(), size, nullptr, checksum.as<std::uint32_t>());
    EXPECT_EQ(word_of(checksum), checksum_of_pattern(size)) << size;
  }
}

TEST_F(OnGpuKernelCeilings, ReadOnlyWritesNothing) {
  const DeviceBuffer buffer(1 << 20);
  fill(buffer, 0xcd);
  ceilings::read_only(buffer.data(), buffer.bytes(), nullptr);
  EXPECT_EQ(to_host(buffer), Bytes(buffer.bytes(), 0xcd));
}

/// Copies `bytes` bytes; the `guard_bytes` around the copy must not change.
void expect_kernel_copies(const DeviceBuffer& from, const Bytes& content, std::uint64_t bytes) {
  const DeviceBuffer to(bytes + 2 * guard_bytes);
  fill(to, 0xcd);
  ceilings::copy_kernel(to.as<char>() + guard_bytes, from.data(), bytes, nullptr);
  Bytes expected(to.bytes(), 0xcd);
  std::copy_n(content.begin(), bytes, expected.begin() + guard_bytes);
  const Bytes actual = to_host(to);
  const auto wrong = std::mismatch(actual.begin(), actual.end(), expected.begin()).first;
  if (wrong == actual.end()) return;
  FAIL() << "byte " << wrong - actual.begin() - static_cast<std::int64_t>(guard_bytes) << " of "
         << bytes << " is wrong";
}

TEST_F(OnGpuKernelCeilings, CopyKernelCopiesEveryByteAndNoOther) {
  const DeviceBuffer from(64 << 20);
  ceilings::write_only(from.data(), from.bytes(), nullptr);  // more than is copied
  const Bytes content = to_host(from);
  std::vector<std::uint64_t> copied = sizes;
  for (std::uint64_t bytes = 0; bytes <= 5000; ++bytes) copied.push_back(bytes);
  for (const std::uint64_t bytes : copied) {
    ASSERT_NO_FATAL_FAILURE(expect_kernel_copies(from, content, bytes));
  }
}

TEST_F(OnGpuKernelCeilings, SameBytesWritesEveryByteAndNoOther) {
  for (const std::uint64_t write_bytes : sizes) {
    for (const std::uint64_t read_bytes :
         {std::uint64_t{0}, std::uint64_t{1}, write_bytes * 9 / 32, write_bytes, 3 * write_bytes}) {
      const DeviceBuffer from(read_bytes), to(write_bytes + guard_bytes);
      if (read_bytes > 0) fill(from, 0x5a);  // which must change nothing
      fill(to, 0xcd);
      ceilings::same_bytes(from.data(), read_bytes, to.data(), write_bytes, nullptr);
      expect_pattern(to_host(to), write_bytes);
    }
  }
}

TEST_F(OnGpuKernelCeilings, SameBytesReadsEveryByteOnce) {
  for (const std::uint64_t read_bytes : sizes) {
    for (const std::uint64_t write_bytes : {std::uint64_t{0}, read_bytes, read_bytes * 32 / 9}) {
      const DeviceBuffer from(read_bytes), to(write_bytes), checksum(4);
      fill(checksum, 0);
      ceilings::write_only(from.data(), read_bytes, nullptr);
      ceilings::same_bytes(from.data(), read_bytes, to.data(), write_bytes, nullptr,
                           checksum.as<std::uint32_t>());
      EXPECT_EQ(word_of(checksum), checksum_of_pattern(read_bytes)) << read_bytes;
    }
  }
}

}  // namespace
}  // namespace reprolab::profiling
