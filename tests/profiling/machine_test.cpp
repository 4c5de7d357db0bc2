#include "profiling/machine.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

using nlohmann::json;

constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();

TEST(Machine, ReadsTheSystemsFilesOrSaysThatTheyAreUnknown) {
  const auto read = [](auto reader, const char* text) {
    std::istringstream file(text);
    return reader(file);
  };
  EXPECT_EQ(read(cpu_model, "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\n"),
            "Some CPU @ 2.0 GHz");
  EXPECT_EQ(read(memory_total_bytes, "MemFree:  12 kB\nMemTotal:       131891232 kB\n"),
            131891232ull * 1024);
  EXPECT_EQ(read(memory_available_bytes,
                 "MemTotal:       131891232 kB\nMemFree:  12 kB\nMemAvailable:   98304001 kB\n"),
            98304001ull * 1024);
  EXPECT_EQ(read(os_name, "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n"),
            "Ubuntu 24.04.1 LTS");
  EXPECT_EQ(read(cpu_model, ""), "unknown");
  EXPECT_EQ(read(memory_total_bytes, ""), 0u);
  EXPECT_EQ(read(os_name, ""), "unknown");
  EXPECT_EQ(read(memory_available_bytes, ""), unbounded);
  EXPECT_EQ(read(memory_available_bytes, "MemTotal: 7 kB\nMemFree: 5 kB\n"), unbounded)
      << "of a Linux that does not say";
}

TEST(Machine, AControlGroupLeavesItsLimitLessWhatItUses) {
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
  EXPECT_EQ(left("", ""), unbounded);
  EXPECT_EQ(left("1000\n", ""), unbounded);
}

TEST(Machine, JsonHasTheSchemasMembers) {
  EXPECT_EQ(json(Host{"a cpu", 16, 1024, "an os"}),
            json::parse(R"({"cpu": "a cpu", "cores": 16, "memory_bytes": 1024, "os": "an os"})"));
  for (const char* member : {"compiler", "nvcc", "type", "architectures"}) {
    EXPECT_FALSE(json(describe_build()).at(member).get<std::string>().empty()) << member;
  }
  Gpu gpu;
  gpu.name = "NVIDIA H200";
  gpu.uuid = "GPU-00000000-0000-0000-0000-000000000000";
  gpu.compute_capability = "9.0";
  gpu.multiprocessors = 132;
  gpu.memory_bytes = 1000;
  gpu.l2_bytes = 100;
  gpu.cuda_driver = "13.0";
  gpu.cuda_runtime = "12.4";
  EXPECT_EQ(json(gpu), json::parse(R"({
    "name": "NVIDIA H200", "unit": "e74c83d305b66600", "compute_capability": "9.0",
    "multiprocessors": 132, "memory_bytes": 1000, "l2_bytes": 100, "theoretical_bandwidth_gb_s": null, "driver": null,
    "cuda_driver": "13.0", "cuda_runtime": "12.4", "ecc": false, "power_limit_w": null})"));
  gpu.theoretical_bandwidth_gb_s = 4814.0;
  gpu.driver = "580.65.06";
  gpu.power_limit_w = 700.0;
  EXPECT_EQ(json(gpu)["theoretical_bandwidth_gb_s"], 4814.0);
  EXPECT_EQ(json(gpu)["driver"], "580.65.06");
  EXPECT_EQ(json(gpu)["power_limit_w"], 700.0);
}

TEST(Machine, WithoutAGpuTheReasonIsOneLine) {
  std::string why_not;
  if (find_gpu(&why_not)) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(why_not.rfind("no device: ", 0), 0u) << why_not;
  EXPECT_NE(why_not.find("`nvidia-smi`"), std::string::npos) << why_not;
  EXPECT_EQ(why_not.find('\n'), std::string::npos) << why_not;
}

}  // namespace
}  // namespace reprolab::profiling
