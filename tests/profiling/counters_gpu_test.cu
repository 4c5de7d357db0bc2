// Counters of kernels whose work is known.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "profiling/counters.hpp"
#include "tests/on_gpu.hpp"

namespace reprolab::profiling {
namespace {

constexpr int threads = 256, warps_of_block = threads / 32;

/// One load, one addition and one store of 4 bytes for each thread, in place if `to` is `from`.
__global__ void add_one(std::uint32_t* to, const std::uint32_t* from) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  to[i] = from[i] + 1;
}

/// Each lane runs its own number of iterations, whose result no compiler can predict.
__global__ void diverge(std::uint32_t* to) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  std::uint32_t x = to[i];
  for (unsigned step = 0; step < threadIdx.x % 32; ++step) x = x * x + 12345;
  to[i] = x;
}

/// Threads of a warp read words whose distance is `stride`, all in bank 0 if that is 32.
__global__ void read_shared(std::uint32_t* to, int stride) {
  __shared__ std::uint32_t words[32 * 32];
  for (int i = threadIdx.x; i < 32 * 32; i += threads) words[i] = to[i];
  __syncthreads();
  std::uint32_t sum = 0;
  for (int step = 0; step < 64; ++step) {
    sum += reinterpret_cast<volatile std::uint32_t*>(words)[threadIdx.x % 32 * stride];
  }
  to[std::size_t{blockIdx.x} * threads + threadIdx.x] = sum;
}

class OnGpuCounters : public OnGpuTest {
 protected:
  void SetUp() override {
    OnGpuTest::SetUp();
    if (IsSkipped()) return;
    stream_.emplace(cudaStreamNonBlocking);
    std::ifstream file(PROJECT_ROOT "/data/counters.json");
    std::vector<Counter> counters = parse_counters(nlohmann::json::parse(file));
    add_chosen(counters, "sm__warps_launched.sum,sm__no_such_metric.sum");
    instrument_ = make_counters({counters, [this](const auto& reason) { warning_ = reason; }});
    // Loads the module.
    allocate(1);
    if (count("add_one", [&](auto stream) { launch(1, stream); }).empty())
      GTEST_SKIP() << "NOT TESTED, " << warning_;
  }

  /// Device memory of zeros, one word for each thread of `blocks` blocks.
  void allocate(unsigned blocks) {
    data_ = DeviceBuffer(std::uint64_t{blocks} * threads * 4);
    check(cudaMemset(data_.data(), 0, data_.bytes()), "zeroing");
  }
  std::uint32_t* words() const { return data_.as<std::uint32_t>(); }
  void launch(unsigned blocks, cudaStream_t stream) const {
    add_one<<<blocks, threads, 0, stream>>>(words(), words());
  }

  /// Values by id, without missing ones.
  template <class Enqueue>
  std::map<std::string, double> count(const std::string& name, Enqueue enqueue) {
    sample_ = instrument_->measure(
        {.name = name,
         .enqueue = [&](cudaStream_t stream,
                        const Call& call) { call("kernel_time", [&] { enqueue(stream); }); }},
        stream_->get());
    check(cudaGetLastError(), name);
    std::map<std::string, double> values;
    for (const Reading& reading : sample_.readings) values[reading.name] = reading.value;
    return values;
  }

  std::unique_ptr<Instrument> instrument_;
  std::string warning_;
  std::optional<Stream> stream_;
  DeviceBuffer data_;
  Sample sample_;
};

TEST_F(OnGpuCounters, CountTheWorkOfAKernel) {
  const unsigned blocks = 10000;
  const double warps = 1.0 * blocks * warps_of_block;
  allocate(blocks);
  auto counted = count("add_one", [&](auto stream) { launch(blocks, stream); });
  EXPECT_EQ(counted["blocks_launched"], blocks);
  EXPECT_EQ(counted["warps_launched"], warps);
  EXPECT_EQ(counted["sm__warps_launched.sum"], warps) << "chosen by its name";
  EXPECT_EQ(counted["global_loads"], warps);
  EXPECT_EQ(counted["global_stores"], warps);
  EXPECT_EQ(counted["shared_loads"], 0);
  EXPECT_EQ(counted["divergent_targets"], 0);
  EXPECT_EQ(counted["threads_per_instruction"], 32);
  EXPECT_DOUBLE_EQ(counted["sectors_per_load_request"], 4);
  EXPECT_GE(counted["warp_instructions"], 4 * warps) << "load, add, store, exit";
  EXPECT_LE(counted["warp_instructions"], 40 * warps);
  EXPECT_GE(counted["memory_instructions_32b"], 2 * warps);
  EXPECT_GT(counted["sm_clock"], 1e8);
  EXPECT_GT(counted["achieved_occupancy"], 0);
  EXPECT_LE(counted["achieved_occupancy"], 100);
  EXPECT_FALSE(counted.contains("kernel_time"));
  EXPECT_FALSE(counted.contains("sm__no_such_metric.sum"));
  EXPECT_EQ(sample_.missing.back().name, "sm__no_such_metric.sum");
  EXPECT_TRUE(sample_.missing.back().why.ends_with(" has no metric sm__no_such_metric.sum"));
}

/// 128 MiB and eight times the cache: what stays in the cache is a small part.
TEST_F(OnGpuCounters, CountTheBytesOfDram) {
  const auto blocks =
      static_cast<unsigned>((8 * gpu->l2_bytes + (128 << 20)) / (std::uint64_t{threads} * 4));
  allocate(blocks);
  auto counted = count("add_one", [&](auto stream) { launch(blocks, stream); });
  const auto bytes = static_cast<double>(data_.bytes());
  EXPECT_GT(counted["dram_bytes_read"], 0.75 * bytes);
  EXPECT_LT(counted["dram_bytes_read"], 1.25 * bytes);
  EXPECT_GT(counted["dram_bytes_written"], 0.75 * bytes);
  EXPECT_LT(counted["dram_bytes_written"], 1.25 * bytes);
  EXPECT_GT(counted["l2_sm_hits"] + counted["l2_sm_misses"], 0.95 * 2 * bytes / 32);
  EXPECT_LT(counted["l2_sm_hits"] + counted["l2_sm_misses"], 2 * 2 * bytes / 32);
}

TEST_F(OnGpuCounters, LeaveTheMemoryAsOneCallDoes) {
  const unsigned blocks = 1000;
  allocate(blocks);
  count("add_one", [&](auto stream) { launch(blocks, stream); });
  std::vector<std::uint32_t> counted(data_.bytes() / 4);
  check(cudaMemcpy(counted.data(), words(), data_.bytes(), cudaMemcpyDeviceToHost), "copying");
  EXPECT_EQ(counted, std::vector<std::uint32_t>(counted.size(), 1))
      << "CUPTI puts back what it repeats";
}

TEST_F(OnGpuCounters, SumTheKernelsOfACallAndAreThoseOfEachSampleAlone) {
  allocate(50);
  for (const unsigned blocks : {30u, 10u, 30u}) {
    auto counted = count("two", [&](auto stream) { launch(blocks, stream), launch(50, stream); });
    EXPECT_EQ(counted["blocks_launched"], blocks + 50);
    EXPECT_EQ(counted["warps_launched"], (blocks + 50) * warps_of_block);
    EXPECT_EQ(counted["global_loads"], (blocks + 50) * warps_of_block);
    EXPECT_EQ(counted["threads_per_instruction"], 32);
    counted = count("add_one", [&](auto stream) { launch(blocks, stream); });
    EXPECT_EQ(counted["blocks_launched"], blocks);
  }
}

TEST_F(OnGpuCounters, SeeThreadsThatDiverge) {
  allocate(100);
  auto counted =
      count("diverge", [&](auto stream) { diverge<<<100, threads, 0, stream>>>(words()); });
  EXPECT_GT(counted["divergent_targets"], 0);
  EXPECT_LT(counted["threads_per_instruction"], 30);
  EXPECT_GT(counted["threads_per_instruction"], 1);
}

TEST_F(OnGpuCounters, SeeBankConflicts) {
  allocate(10);
  const auto conflicts = [&](int stride) {
    auto counted = count("read_shared", [&](auto stream) {
      read_shared<<<10, threads, 0, stream>>>(words(), stride);
    });
    EXPECT_GE(counted["shared_loads"], 10 * warps_of_block * 64);
    return counted["shared_load_bank_conflicts"];
  };
  // All but one of the 32 threads wait, 64 times.
  EXPECT_GE(conflicts(32), 10 * warps_of_block * 64 * 31);
  EXPECT_LT(conflicts(1), 10 * warps_of_block * 64);
}

}  // namespace
}  // namespace reprolab::profiling
