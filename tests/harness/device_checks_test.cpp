// The verifier's tools: the comparison on the device, protected memory, and the check of repeated
// launches.
#include "harness/device_checks.hpp"

#include <numeric>
#include <set>

#include "tests/on_gpu.hpp"

namespace reprolab {
namespace {

class OnGpuKernelComparison : public OnGpuTest {
 protected:
  void SetUp() override {
    OnGpuTest::SetUp();
    if (!IsSkipped()) comparison_.emplace(nullptr);  // its constructor plants faults of all kinds
  }

  std::optional<DeviceComparison> comparison_;
};

template <class Bits>
profiling::DeviceBuffer uploaded(const std::vector<Bits>& values) {
  profiling::DeviceBuffer buffer(values.size() * sizeof(Bits));
  profiling::check(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice),
                   "copying to the GPU");
  return buffer;
}

/// Counts around one load of a thread, one thread, one block, the largest grid, and a second
/// iteration of its loop, including odd ones; arrays that do not start at a multiple of 16 bytes
/// are compared element by element.
constexpr std::int64_t counts[] = {
    1, 2, 3, 7, 8, 9, 1001, 256 * 8, 256 * 8 + 1, 2048 * 1024, 2048 * 1024 + 3, 2048 * 2048 + 5};

TEST_F(OnGpuKernelComparison, DetectsOneChangedElementAnywhereAtAnyAlignment) {
  for (const std::int64_t count : counts) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count) + 8);
    std::iota(values.begin(), values.end(), std::uint16_t{1});
    const profiling::DeviceBuffer expected = uploaded(values);
    for (const std::int64_t skipped : {0, 1, 8}) {
      for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1, count}) {
        auto changed = values;
        changed[static_cast<std::size_t>(skipped + at)] ^= 0x20;
        const auto actual = uploaded(changed);
        const auto comparison = comparison_->compare(
            expected.as<std::uint16_t>() + skipped, actual.as<std::uint16_t>() + skipped, count, 2);
        EXPECT_EQ(comparison.mismatches, at < count)
            << at << " of " << count << " from " << skipped;
        EXPECT_EQ(comparison.first_mismatch, at < count ? at : -1) << at << " of " << count;
      }
    }
  }
}

TEST_F(OnGpuKernelComparison, ASpotCheckLooksAtPlacesAllOverAndAtTheEnd) {
  for (const std::int64_t count : counts) {
    const std::vector<std::uint16_t> values(static_cast<std::size_t>(count), 7);
    const auto expected = uploaded(values);
    const auto mismatches = [&](std::int64_t first_wrong) {
      auto changed = values;
      std::fill(changed.begin() + first_wrong, changed.end(), std::uint16_t{8});
      const auto actual = uploaded(changed);
      comparison_->enqueue_spot_check(expected.data(), actual.data(), count, 2);
      return comparison_->collect().mismatches;
    };
    EXPECT_EQ(mismatches(count), 0) << count;
    EXPECT_EQ(mismatches(count - 1), 1) << count;
    EXPECT_GE(mismatches(0), std::min<std::int64_t>(count, 8 * 8000)) << count;
    EXPECT_LE(mismatches(0), 8 * 16385) << count;
    EXPECT_NEAR(mismatches(count / 2), mismatches(0) / 2.0, 16) << count;
  }
}

TEST_F(OnGpuKernelComparison, EnqueuedComparisonsAddUpUntilCollected) {
  const auto a = uploaded(std::vector<std::uint16_t>{1, 2, 3, 4}),
             b = uploaded(std::vector<std::uint16_t>{1, 9, 3, 9}),
             c = uploaded(std::vector<std::uint16_t>{9, 2, 3, 4});
  comparison_->enqueue(a.data(), b.data(), 4, 2);
  comparison_->enqueue(a.data(), a.data(), 4, 2);
  comparison_->enqueue(a.data(), c.data(), 4, 2);
  const auto comparison = comparison_->collect();
  EXPECT_EQ(comparison.mismatches, 3);
  EXPECT_EQ(comparison.first_mismatch, 0);
  EXPECT_EQ(comparison.max_ulps, 8u);
  EXPECT_TRUE(comparison_->collect().equal());
}

class OnGpuKernelMemory : public OnGpuTest {};

/// A region of one word, one of many, one longer than a grid's stride, and one that starts inside a
/// word, without the byte before it.
TEST_F(OnGpuKernelMemory, AnyChangedByteOfAnyRegionShows) {
  const profiling::Stream stream;
  std::vector<profiling::DeviceBuffer> buffers;
  std::vector<ProtectedMemory::Region> regions;
  for (const std::uint64_t bytes : {4, 4096, 1 << 20, 64 << 20}) {
    buffers.emplace_back(bytes);
    profiling::check(cudaMemset(buffers.back().data(), 0x11, bytes), "filling");
    regions.push_back({buffers.back().data(), bytes});
  }
  for (const std::uint64_t before : {1, 2, 3}) {
    const ProtectedMemory odd({{buffers[1].data(), 1024 + before}}, stream.get());
    for (std::uint64_t at = 1023; at < 1024 + before + 1; ++at) {
      auto* const byte = buffers[1].as<std::byte>() + at;
      profiling::check(cudaMemset(byte, 0x10, 1), "changing a byte");
      EXPECT_EQ(odd.changed(), at < 1024 + before) << "byte " << at << " of " << 1024 + before;
      profiling::check(cudaMemset(byte, 0x11, 1), "restoring it");
    }
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

TEST_F(OnGpuKernelMemory, WordsThatChangePlacesShow) {
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

class OnGpuKernelRepeats : public OnGpuTest {};

/// Whether the check finds that each of `launches` launches wrote its output of `bytes` again;
/// `writes` says which do.
bool seen_as_written(RepeatCheck& check, int launches, std::uint64_t bytes, int element_bytes,
                     const std::function<bool(int)>& writes) {
  const auto elements = static_cast<std::int64_t>(bytes) / element_bytes;
  const profiling::Stream stream;
  const profiling::DeviceBuffer expected(bytes), output(bytes);
  profiling::check(cudaMemset(expected.data(), 0x5a, bytes), "a reference");
  profiling::check(cudaMemset(output.data(), 0x5a, bytes), "an output");
  profiling::check(cudaDeviceSynchronize(), "both");
  check.choose(launches);
  for (int i = 0; i < launches; ++i) {
    check.around(i, i % 3, output.data(), elements, element_bytes, stream.get(), [&] {
      if (!writes(i)) return;
      profiling::check(cudaMemsetAsync(output.data(), 0x5a, bytes, stream.get()), "a launch");
    });
  }
  stream.synchronize();
  const DeviceComparison comparison(stream.get());
  return check.written_again(expected.data(), element_bytes, comparison);
}

TEST_F(OnGpuKernelRepeats, TellsWorkFromNone) {
  RepeatCheck check;
  for (const auto& [bytes, element_bytes] :
       {std::pair{256, 2}, {258, 2}, {100'002, 2}, {256, 4}, {100'004, 4}}) {
    for (const bool writes : {true, false}) {
      EXPECT_EQ(seen_as_written(check, 5, static_cast<std::uint64_t>(bytes), element_bytes,
                                [&](int) { return writes; }),
                writes)
          << bytes;
    }
  }
}

/// Later correct launches do not hide a missing write; each launch is chosen at some time.
TEST_F(OnGpuKernelRepeats, DetectsAnIdleLaunchIfItIsChosen) {
  RepeatCheck check;
  std::set<int> buffer_sets;
  for (int i = 0; i < 40; ++i) {  // each misses with a chance of 2 / 3
    const bool written = seen_as_written(check, 3, 1000, 2, [](int launch) { return launch != 1; });
    buffer_sets.insert(check.buffer_set());
    EXPECT_EQ(written, check.buffer_set() != 1) << "its launches are in buffer sets 0, 1 and 2";
  }
  EXPECT_EQ(buffer_sets, (std::set<int>{0, 1, 2}));
}

}  // namespace
}  // namespace reprolab
