#include "profiling/activity_parser.hpp"

#include <stdexcept>

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

// The newest kernel record that these headers have; its beginning must match the oldest layout.
#if CUPTI_API_VERSION >= 130000
using NewestKernelRecord = CUpti_ActivityKernel10;
#else
using NewestKernelRecord = CUpti_ActivityKernel9;
#endif

NewestKernelRecord kernel_record(std::uint32_t correlation_id, std::uint64_t start_ns,
                                 std::uint64_t end_ns) {
  NewestKernelRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = "_Z6kernelIfEvPT_";
  record.correlationId = correlation_id;
  record.start = start_ns;
  record.end = end_ns;
  return record;
}

CUpti_ActivityExternalCorrelation tag_record(std::uint32_t correlation_id, std::uint64_t tag) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = tag_kind;
  record.correlationId = correlation_id;
  record.externalId = tag;
  return record;
}

template <class Record>
void add(ActivityParser& parser, const Record& record) {
  parser.add(reinterpret_cast<const CUpti_Activity&>(record));
}

TEST(ActivityParser, TakesEveryMember) {
  auto record = kernel_record(7, 1000, 3500);
  record.gridX = 10, record.gridY = 20, record.gridZ = 30;
  record.blockX = 256, record.blockY = 2, record.blockZ = 1;
  record.registersPerThread = 40;
  record.staticSharedMemory = 64;
  record.dynamicSharedMemory = 4096;
  ActivityParser parser;
  add(parser, record);
  const auto kernels = parser.take();
  ASSERT_EQ(kernels.size(), 1u);
  const KernelActivity& kernel = kernels[0];
  EXPECT_EQ(kernel.name, "void kernel<float>(float*)");
  EXPECT_DOUBLE_EQ(kernel.duration_us(), 2.5);
  EXPECT_TRUE(kernel.is_kernel);
  EXPECT_EQ(kernel.correlation_id, 7u);
  EXPECT_FALSE(kernel.tag);
  EXPECT_EQ(kernel.grid, (std::array<std::int32_t, 3>{10, 20, 30}));
  EXPECT_EQ(kernel.block, (std::array<std::int32_t, 3>{256, 2, 1}));
  EXPECT_EQ(kernel.registers_per_thread, 40u);
  EXPECT_EQ(kernel.static_shared_bytes, 64);
  EXPECT_EQ(kernel.dynamic_shared_bytes, 4096);
  EXPECT_TRUE(parser.take().empty());
}

TEST(ActivityParser, TagsReachKernelsOfTheSameCallInAnyOrder) {
  ActivityParser parser;
  add(parser, kernel_record(2, 500, 600));
  add(parser, tag_record(1, 11));
  add(parser, kernel_record(1, 100, 200));
  add(parser, kernel_record(1, 300, 400));  // a graph's second kernel
  add(parser, tag_record(2, 22));
  add(parser, kernel_record(3, 700, 800));
  auto foreign = tag_record(3, 33);
  foreign.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_OPENACC;
  add(parser, foreign);
  CUpti_ActivityAPI api{};
  api.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  add(parser, api);

  const auto kernels = parser.take();
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[0].tag, 11u);
  EXPECT_EQ(kernels[1].tag, 11u);
  EXPECT_EQ(kernels[2].tag, 22u);
  EXPECT_FALSE(kernels[3].tag);
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    EXPECT_GT(kernels[i].start_ns, kernels[i - 1].start_ns);
  }
}

TEST(ActivityParser, CopiesAndFillsAreActivityAsWell) {
  CUpti_ActivityMemcpy5 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.start = 100, copy.end = 350, copy.correlationId = 1;
  CUpti_ActivityMemset4 fill{};
  fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  fill.start = 400, fill.end = 500, fill.correlationId = 2;
  ActivityParser parser;
  add(parser, copy);
  add(parser, tag_record(2, 22));
  add(parser, fill);
  const auto activities = parser.take();
  ASSERT_EQ(activities.size(), 2u);
  EXPECT_EQ(activities[0].name, "copy");
  EXPECT_DOUBLE_EQ(activities[0].duration_us(), 0.25);
  EXPECT_FALSE(activities[0].tag);
  EXPECT_EQ(activities[1].name, "fill");
  EXPECT_DOUBLE_EQ(activities[1].duration_us(), 0.1);
  EXPECT_EQ(activities[1].tag, 22u);
  EXPECT_FALSE(activities[0].is_kernel || activities[1].is_kernel);
}

TEST(ActivityParser, KernelsWithoutTimesAreAnError) {
  ActivityParser parser;
  add(parser, kernel_record(1, 100, 200));
  add(parser, kernel_record(2, 0, 0));
  add(parser, kernel_record(3, 300, 0));
  EXPECT_EQ(message_of<std::runtime_error>([&] { parser.take(); }),
            "CUPTI gave no times for 2 of 3 kernels: they had not finished, or its device memory "
            "for times ran out. Synchronize the device before the flush, or flush more often.");
}

TEST(ActivitySum, BusyIsOfTheKernelsAndTheSpanFromTheFirstToTheLast) {
  ActivityParser parser;
  for (std::uint32_t i = 1; i <= 4; ++i) add(parser, kernel_record(i, 1000 * i, 1000 * i + 400));
  const auto all = sum(parser.take());
  EXPECT_EQ(all.kernels, 4u);
  EXPECT_DOUBLE_EQ(all.busy_us, 1.6);
  EXPECT_DOUBLE_EQ(all.span_us(), 3.4);
  EXPECT_EQ(sum({}).kernels, 0u);
  EXPECT_EQ(sum({}).span_us(), 0.0);
}

}  // namespace
}  // namespace reprolab::profiling
