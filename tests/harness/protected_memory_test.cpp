#include "harness/protected_memory.hpp"

#include "tests/on_gpu.hpp"

namespace reprolab {
namespace {

class OnGpuProtectedMemory : public OnGpuTest {};

/// A region of one word, one of many, one longer than a grid's stride, and one that begins inside a
/// word: the byte before it is not part of it.
TEST_F(OnGpuProtectedMemory, AnyChangedByteOfAnyRegionShows) {
  const profiling::Stream stream;
  std::vector<profiling::DeviceBuffer> buffers;
  std::vector<ProtectedMemory::Region> regions;
  for (const std::uint64_t bytes : {4, 4096, 1 << 20, 64 << 20}) {
    buffers.emplace_back(bytes);
    profiling::check(cudaMemset(buffers.back().data(), 0x11, bytes), "filling");
    regions.push_back({buffers.back().data(), bytes});
  }
  for (const std::uint64_t before : {1, 2, 3}) {
    regions.push_back({buffers[1].as<std::byte>() + 1024 + before, 64 - before});
    const ProtectedMemory within({regions.back()}, stream.get());
    for (const std::uint64_t at : {before - 1, before, std::uint64_t{63}, std::uint64_t{64}}) {
      auto* const byte = buffers[1].as<std::byte>() + 1024 + at;
      profiling::check(cudaMemset(byte, 0x10, 1), "changing a byte");
      EXPECT_EQ(within.changed(), at >= before && at < 64) << "byte " << at << " from " << before;
      profiling::check(cudaMemset(byte, 0x11, 1), "restoring it");
    }
  }
  const ProtectedMemory memory(regions, stream.get());
  EXPECT_FALSE(memory.changed());
  for (const auto& buffer : buffers) {
    for (const std::uint64_t at : {std::uint64_t{0}, buffer.bytes() / 2, buffer.bytes() - 1}) {
      auto* const byte = buffer.as<std::byte>() + at;
      profiling::check(cudaMemset(byte, 0x10, 1), "changing a byte");
      EXPECT_TRUE(memory.changed()) << "byte " << at << " of " << buffer.bytes();
      profiling::check(cudaMemset(byte, 0x11, 1), "restoring it");
      EXPECT_FALSE(memory.changed());
    }
  }
}

TEST_F(OnGpuProtectedMemory, WordsThatChangePlacesShow) {
  const profiling::Stream stream;
  const profiling::DeviceBuffer buffer(64);
  const auto fill = [&](std::uint32_t first, std::uint32_t second) {
    const std::uint32_t words[2] = {first, second};
    profiling::check(cudaMemcpy(buffer.data(), words, sizeof words, cudaMemcpyHostToDevice), "");
  };
  fill(1, 2);
  const ProtectedMemory memory({{buffer.data(), 64}}, stream.get());
  fill(2, 1);
  EXPECT_TRUE(memory.changed());
  fill(1, 2);
  EXPECT_FALSE(memory.changed());
}

}  // namespace
}  // namespace reprolab
