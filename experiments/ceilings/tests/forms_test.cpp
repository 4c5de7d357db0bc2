// Every form of the sweep: it exists, is named after its template arguments, and moves exactly its
// bytes.
#include <functional>

#include "experiments/ceilings/traffic.hpp"
#include "harness/family.hpp"
#include "tests/kernels/testing.hpp"
#include "tests/profiling/moved_bytes.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab::ceilings {
namespace {

template <class Problem>
std::string code_of(const std::string& name) {
  return kernel_named<Problem>(name).lineage;
}

TEST(CeilingForms, AreAllThere) {
  EXPECT_EQ(registered_variants<Copy>().size(), 172u);
  EXPECT_EQ(registered_variants<Mixed>().size(), 312u);
  EXPECT_EQ(registered_variants<Even>().size(), 84u);
}

TEST(CeilingForms, SayHowTheyAreWrittenInTheCode) {
  EXPECT_EQ(code_of<Copy>("copy_256x2_evict_first_cs"),
            "CopyForm<256, 2, HintedReads<L2Priority::evict_first>, StreamingAccess>");
  EXPECT_EQ(code_of<Copy>("bulk_16k_evict_last_plain"), "BulkForm<16384, true, false>");
  EXPECT_EQ(code_of<Copy>("copy_256x1_evict_last_cs_ahead4"),
            "CopyForm<256, 1, KeepReads, StreamingAccess, Line, 4 << 20>");
  EXPECT_EQ(code_of<Copy>("copy_64x8_cs_cs_tile128of4096"),
            "CopyForm<64, 8, StreamingAccess, StreamingAccess, Tile<128, 4096>>");
  EXPECT_EQ(code_of<Mixed>("mixed_128x8_load16_cs_cs_tile64of2048"),
            "MixedForm<128, 8, uint4, 3, 1, StreamingAccess, StreamingAccess, Tile<64, 2048>>");
  // 9 bytes for two elements, or 8 of codes in a separate stream.
  EXPECT_EQ(code_of<Mixed>("mixed_64x8_load4_evict_last_cs"),
            "MixedForm<64, 8, std::uint32_t, 9, 1, KeepReads, StreamingAccess>");
  EXPECT_EQ(code_of<Mixed>("mixed_64x8_load4_two_streams_evict_last_cs"),
            "MixedForm<64, 8, std::uint32_t, 8, 2, KeepReads, StreamingAccess>");
  EXPECT_EQ(code_of<Even>("even_128x2_load16_evict_last_plain"),
            "MixedForm<128, 2, uint4, 2, 1, KeepReads, PlainAccess>");
}

/// The problem of that name.
PlannedProblem planned(const std::string& name) {
  std::vector<PlannedProblem> all;
  for (const Family* family : families()) {
    for (auto& one : family->problems({}, family->data())) all.push_back(std::move(one));
  }
  return *std::ranges::find(all, name, [](const auto& one) { return one.facts.name; });
}

TEST(CeilingProblems, MoveTheBytesOfACopyOfADequantizationAndOfATransposition) {
  for (const char* name : {"copy/16MiB", "even/16MiB"}) {
    EXPECT_EQ(planned(name).facts.bytes_read, std::uint64_t{16} << 20) << name;
    EXPECT_EQ(planned(name).facts.bytes_written, std::uint64_t{16} << 20) << name;
  }
  const ProblemFacts mixed = planned("mixed/448MiB").facts;
  EXPECT_EQ(mixed.description.at("output_mib"), 448);
  // 28672 x 8192 weights, of half a byte, with a scale of 4 bytes for 64.
  constexpr std::uint64_t weights = 28672 * 8192;
  EXPECT_EQ(mixed.bytes_written, 2 * weights);
  EXPECT_EQ(mixed.bytes_read, weights / 2 + 4 * (weights / 64));
  EXPECT_EQ(mixed.output_bytes(), mixed.bytes_written);
}

class CeilingsProgram : public Programs {};

TEST_F(CeilingsProgram, PlansEverySizeOfEachFamily) {
  const std::string plan = output_of(CEILINGS, "--dry-run");
  for (const char* family : {"copy", "mixed", "even"}) {
    for (const std::uint64_t mib : sizes_mib) {
      EXPECT_TRUE(contains(plan, fmt::format("\n{}/{}MiB ", family, mib)));
    }
  }
}

using profiling::DeviceBuffer;
using profiling::fill;
using profiling::guard_bytes;
using profiling::to_host;

/// All forms of a family in one test: there are hundreds. Those that this GPU lacks are left out.
class OnGpuCeilingsForms : public OnGpuTest {
 protected:
  /// Around every boundary: an element, a block, several blocks.
  static constexpr std::uint64_t sizes[] = {1, 15, 17, 2049, 65536, 262149, 5000011};

  template <class Problem>
  static void for_each_form(const std::function<void(const Kernel<Problem>&)>& use) {
    int tested = 0;
    for (const auto& [name, form] : Registry<Problem>::instance().kernels()) {
      if (!form.supports({}).ok) continue;
      SCOPED_TRACE(name);
      use(form);
      ++tested;
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(tested, 0);
  }
  /// Forms that read and write different bytes.
  template <class Use>
  static void for_each_mixture(Use use) {
    for_each_form<Mixed>(use);
    for_each_form<Even>(use);
  }

  template <class Problem>
  static void launch(const Kernel<Problem>& form, const DeviceBuffer& from,
                     std::uint64_t read_bytes, const DeviceBuffer& to, std::uint64_t write_bytes,
                     std::uint32_t* checksum = nullptr) {
    Problem problem;
    static_cast<Traffic&>(problem) = {from.as<std::uint8_t>(), read_bytes, to.as<std::uint8_t>(),
                                      write_bytes, checksum};
    profiling::check(form.launch(problem, nullptr), form.name);
    profiling::check(cudaDeviceSynchronize(), form.name);
  }
};

TEST_F(OnGpuCeilingsForms, CopyEveryByteAndNoOther) {
  for (const std::uint64_t bytes : sizes) {
    const DeviceBuffer from(bytes + guard_bytes), to(bytes + guard_bytes);
    profiling::ceilings::write_only(from.data(), from.bytes(), nullptr);  // to show overruns
    for_each_form<Copy>([&](const Kernel<Copy>& form) {
      fill(to, 0xcd);
      launch(form, from, bytes, to, bytes);
      profiling::expect_pattern(to_host(to), bytes);
    });
  }
}

TEST_F(OnGpuCeilingsForms, WriteEveryByteAndNoOtherWhateverTheyRead) {
  for (const std::uint64_t write_bytes : sizes) {
    for (const std::uint64_t read_bytes :
         {std::uint64_t{0}, std::uint64_t{1}, Mixed::read_of(write_bytes), write_bytes}) {
      const DeviceBuffer from(read_bytes), to(write_bytes + guard_bytes);
      if (read_bytes > 0) fill(from, 0x5a);
      for_each_mixture([&](const auto& form) {
        fill(to, 0xcd);
        launch(form, from, read_bytes, to, write_bytes);
        profiling::expect_pattern(to_host(to), write_bytes);
      });
    }
  }
}

TEST_F(OnGpuCeilingsForms, ReadEveryByteOnce) {
  for (const std::uint64_t read_bytes : sizes) {
    const std::uint64_t write_bytes = read_bytes * 32 / 9;
    const DeviceBuffer from(read_bytes), to(write_bytes + 16), checksum(4);
    profiling::ceilings::write_only(from.data(), read_bytes, nullptr);
    const std::uint32_t expected = profiling::checksum_of_pattern(read_bytes);
    for_each_mixture([&](const auto& form) {
      fill(checksum, 0);
      launch(form, from, read_bytes, to, write_bytes, checksum.as<std::uint32_t>());
      EXPECT_EQ(profiling::word_of(checksum), expected) << read_bytes;
    });
  }
}

/// As in the sweep before timing, and with the other inputs used for timing.
template <class Problem>
void expect_bit_exact() {
  const Proof proof;
  const auto workload = planned(std::string(Problem::family) + "/8MiB").prepare(3, 1);
  for (const char* inputs : {"first", "exchanged"}) {
    for (const VariantInfo& form : registered_variants<Problem>()) {
      const Verification verification = proof.verify(form, *workload);
      if (verification.outcome == Outcome::unsupported) continue;
      EXPECT_EQ(name(verification.outcome), "bit_exact")
          << form.name << ": " << inputs << verification.reason;
    }
    workload->exchange();
  }
}

TEST_F(OnGpuCeilingsForms, AreVerifiedAsTheSweepDoes) {
  expect_bit_exact<Copy>();
  expect_bit_exact<Mixed>();
  expect_bit_exact<Even>();
}

}  // namespace
}  // namespace reprolab::ceilings
