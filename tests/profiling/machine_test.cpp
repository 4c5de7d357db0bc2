// Descriptions of the machine, its errors and its kernels' ranges.
#include "profiling/machine.hpp"

#include <limits>
#include <sstream>
#include <stdexcept>

#include "profiling/basics.hpp"
#include "profiling/cuda_check.hpp"
#include "profiling/nvtx.hpp"
#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();

TEST(Machine, ReadsTheAvailableMemory) {
  const auto available = [](const char* text) {
    std::istringstream file(text);
    return memory_available_bytes(file);
  };
  EXPECT_EQ(available("MemTotal:  131891232 kB\nMemFree:  12 kB\nMemAvailable:   98304001 kB\n"),
            98304001ull * 1024);
  EXPECT_EQ(available("MemTotal: 7 kB\nMemFree: 5 kB\n"), unbounded);
}

TEST(Machine, AControlGroupLeavesItsLimitMinusItsUse) {
  const auto left = [](const char* limit, const char* used, const char* of_it = "") {
    std::istringstream max(limit), current(used), stat(of_it);
    return control_group_free_bytes(max, current, stat);
  };
  EXPECT_EQ(left("137438953472\n", "7438953472\n"), 130000000000u);
  EXPECT_EQ(left("1000\n", "1000\n"), 0u);
  EXPECT_EQ(left("1000\n", "900\n", "anon 500\nfile 400\ninactive_file 300\nshmem 0\n"), 400u);
  EXPECT_EQ(left("1000\n", "100\n", "inactive_file 300\n"), 1000u);
  EXPECT_EQ(left("1000\n", "1001\n"), 0u) << "as after the limit was lowered";
  EXPECT_EQ(left("max\n", "7438953472\n"), unbounded);
  EXPECT_EQ(left("1000\n", ""), unbounded);
}

}  // namespace
}  // namespace reprolab::profiling
