// Launches that write their output again, and one that finds it written and does nothing.
#include "harness/repeat_check.hpp"

#include <set>

#include "tests/on_gpu.hpp"

namespace reprolab {
namespace {

class OnGpuRepeatCheck : public OnGpuTest {};

/// Whether each of `launches` launches of so many bytes wrote its output again, as far as is seen;
/// `writes` says which do.
bool seen_as_written(RepeatCheck& check, int launches, std::uint64_t bytes,
                     const std::function<bool(int)>& writes) {
  const profiling::Stream stream;
  const profiling::DeviceBuffer expected(bytes), output(bytes);
  profiling::check(cudaMemset(expected.data(), 0x5a, bytes), "a reference");
  profiling::check(cudaMemset(output.data(), 0x5a, bytes), "an output");
  profiling::check(cudaDeviceSynchronize(), "both");
  check.choose(launches);
  for (int i = 0; i < launches; ++i) {
    check.around(i, i % 3, output.data(), bytes, stream.get(), [&] {
      if (!writes(i)) return;
      profiling::check(cudaMemsetAsync(output.data(), 0x5a, bytes, stream.get()), "a launch");
    });
  }
  stream.synchronize();
  const DeviceComparison comparison(stream.get());
  return check.written_again(expected.data(), 2, comparison);
}

TEST_F(OnGpuRepeatCheck, TellsWorkFromNone) {
  RepeatCheck check;
  for (const std::uint64_t bytes : {2, 254, 256, 258, 100'002}) {
    for (const bool writes : {true, false}) {
      EXPECT_EQ(seen_as_written(check, 5, bytes, [&](int) { return writes; }), writes) << bytes;
    }
  }
}

/// Later launches that work do not hide one that did not; each is chosen at some time.
TEST_F(OnGpuRepeatCheck, FindsOneLaunchThatDidNothingWhenItIsChosen) {
  RepeatCheck check;
  std::set<int> buffer_sets;
  bool found = false;
  for (int i = 0; i < 200; ++i) {
    const bool written = seen_as_written(check, 3, 1000, [](int launch) { return launch != 1; });
    buffer_sets.insert(check.buffer_set());
    EXPECT_EQ(written, check.buffer_set() != 1) << "its launches are in buffer sets 0, 1 and 2";
    found = found || !written;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(buffer_sets, (std::set<int>{0, 1, 2}));
}

}  // namespace
}  // namespace reprolab
