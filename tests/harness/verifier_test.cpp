// Outputs whose reference is on the host, or only on the device; and launches that break the rules.
#include "harness/verifier.hpp"

#include "tests/harness/toy_workload.hpp"
#include "tests/on_gpu.hpp"
#include "tests/refusal.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

constexpr std::int64_t elements = 5003;

/// A workload and its verifier.
struct Bench {
  explicit Bench(const ToySpec& spec, int buffer_sets = 3)
      : workload((reference::self_test_comparison(), spec), buffer_sets) {}

  Verification verify(const VariantInfo& kernel) { return verifier.verify(kernel, *instrument); }
  Sampled sample(const char* kernel, Launches launches) {
    return verifier.sample(toy_kernel(kernel), launches, *instrument);
  }

  ToyWorkload workload;
  profiling::Stream stream;
  Comparisons comparisons{stream.get()};
  std::unique_ptr<profiling::Instrument> instrument =
      profiling::make_instrument(profiling::InstrumentKind::events);
  Verifier verifier{workload, comparisons, stream.get()};
};

class OnGpuVerifier : public OnGpuTest {
 protected:
  /// Calls `body(spec)` for elements of either size, with and without the host's reference.
  template <class Body>
  void for_each_spec(Body body) const {
    for (const int element_bytes : {2, 4}) {
      for (const bool on_host : {true, false}) {
        SCOPED_TRACE(fmt::format("{} bytes, {}", element_bytes, on_host ? "host" : "device"));
        body(ToySpec{.elements = elements, .element_bytes = element_bytes, .on_host = on_host});
      }
    }
  }

  static Verification verify(const ToySpec& spec, const VariantInfo& kernel, int buffer_sets = 4) {
    return Bench(spec, buffer_sets).verify(kernel);
  }
};

std::uint32_t of_width(std::uint32_t bits, const ToySpec& spec) {
  return spec.element_bytes == 2 ? bits & 0xffffu : bits;
}

TEST_F(OnGpuVerifier, ARightOutputIsBitExact) {
  for_each_spec([](const ToySpec& spec) {
    for (const int buffer_sets : {1, 2, 3, 700}) {
      const Verification verdict = verify(spec, toy_kernel("right"), buffer_sets);
      EXPECT_EQ(name(verdict.outcome), "bit_exact") << buffer_sets << " buffer sets";
      EXPECT_EQ(verdict.reason, "");
    }
  });
}

/// At both ends and between; unwritten; and in only one copy.
TEST_F(OnGpuVerifier, AWrongElementIsAMismatchWithItsBitsAndItsCopy) {
  for_each_spec([](ToySpec spec) {
    const auto described = [&](std::int64_t mismatches, std::uint32_t actual) {
      return fmt::format("{} differ in matrix 0, first at {}: expected {:#x}, actual {:#x}",
                         mismatches, spec.fault, ToyWorkload(spec, 1).wanted_bits(spec.fault),
                         of_width(actual, spec));
    };
    for (const std::int64_t fault : {std::int64_t{0}, elements / 2, elements - 1}) {
      spec.fault = fault;
      const Verification verdict = verify(spec, toy_kernel("wrong"));
      EXPECT_EQ(name(verdict.outcome), "mismatch");
      EXPECT_EQ(verdict.comparison.mismatches, 1);
      EXPECT_EQ(verdict.comparison.first_mismatch, fault);
      EXPECT_TRUE(ends(verdict.reason, described(1, ToyWorkload::spoilt_bits)));
    }
    spec.fault = 17;
    EXPECT_EQ(verify(spec, toy_kernel("wrong_in_buffer_set_2")).reason,
              "copy 2: " + described(1, ToyWorkload::spoilt_bits));
    EXPECT_EQ(name(verify(spec, toy_kernel("wrong_in_buffer_set_2"), 2).outcome), "bit_exact");
    spec.fault = 0;
    const Verification silent = verify(spec, toy_kernel("silent"));
    EXPECT_EQ(silent.comparison.mismatches, elements);
    EXPECT_TRUE(ends(silent.reason, described(elements, 0xffffffffu)));
  });
}

/// It is right as long as a pointer has the same data.
TEST_F(OnGpuVerifier, AKernelThatRemembersIsAMismatchAfterTheExchange) {
  for_each_spec([](const ToySpec& spec) {
    Bench bench(spec, 4);
    for (const char* kernel : {"remembers", "right"}) {
      EXPECT_EQ(name(bench.verify(toy_kernel(kernel)).outcome), "bit_exact");
    }
    bench.workload.exchange();
    bench.verifier.protect_memory();
    EXPECT_EQ(bench.workload.matrix_of(0), 1);
    const auto outcome = [&](const char* kernel) { return bench.sample(kernel, {0, 4}).written; };
    EXPECT_EQ(name(outcome("right").outcome), "bit_exact");
    EXPECT_EQ(name(outcome("remembers").outcome), "mismatch");
    EXPECT_TRUE(begins(outcome("remembers").reason, "copy 0: 5003 differ in matrix 1, "));
  });
}

TEST_F(OnGpuVerifier, KernelsThatDoNotRunHaveAReason) {
  for_each_spec([](const ToySpec& spec) {
    const Verification failed = verify(spec, toy_kernel("fails"));
    EXPECT_EQ(name(failed.outcome), "launch_failed");
    EXPECT_TRUE(contains(failed.reason, "cudaErrorInvalidValue"));
    const Verification unsupported = verify(spec, toy_kernel("unsupported"));
    EXPECT_EQ(name(unsupported.outcome), "unsupported");
    EXPECT_EQ(unsupported.reason, "a toy of another sort");
  });
}

/// The output of 5003 elements of 2 bytes ends inside a word.
TEST_F(OnGpuVerifier, AKernelThatWritesOutsideItsOutputCrashes) {
  for_each_spec([](const ToySpec& spec) {
    for (const char* kernel : {"changes_input", "writes_past_end"}) {
      try {
        verify(spec, toy_kernel(kernel), 3);
        FAIL() << "not detected";
      } catch (const KernelCrashed& crashed) {
        EXPECT_EQ(crashed.kernel, kernel);
        EXPECT_TRUE(contains(crashed.what(), "memory"));
      }
    }
  });
}

/// A kernel's declared output is made on the host.
TEST_F(OnGpuVerifier, ADeviationIsJudgedOnlyWithTheReferenceOnTheHost) {
  for_each_spec([](const ToySpec& spec) {
    const Verification deviates = verify(spec, deviating_toy("wrong", "spoils an element"));
    const Verification right = verify(spec, deviating_toy("right", "spoils an element"));
    if (!spec.on_host) {
      EXPECT_EQ(name(deviates.outcome), "unsupported");
      EXPECT_TRUE(contains(deviates.reason, "host"));
      return;
    }
    EXPECT_EQ(name(deviates.outcome), "deviation_as_declared");
    EXPECT_EQ(deviates.comparison.mismatches, 1);
    EXPECT_TRUE(begins(deviates.reason, "1 differ in matrix 0, first at 0: "));
    EXPECT_EQ(name(right.outcome), "mismatch");
    EXPECT_TRUE(right.comparison.equal());
    EXPECT_TRUE(ends(right.reason, fmt::format("1 differ in matrix 0, first at 0: "
                                               "expected {:#x}, actual {:#x}",
                                               of_width(ToyWorkload::spoilt_bits, spec),
                                               ToyWorkload(spec, 1).wanted_bits(0))));
  });
}

TEST_F(OnGpuVerifier, ABoundHoldsUpToItsEndsAndNotBeyondThem) {
  for_each_spec([](ToySpec spec) {
    spec.bound = 3;
    for (const std::int64_t fault : {std::int64_t{10}, elements - 7}) {
      spec.fault = fault;
      for (const char* kernel : {"right", "at_bound"}) {
        EXPECT_EQ(name(verify(spec, bounded_toy(kernel)).outcome), "within_bound") << kernel;
      }
      const Verification beyond = verify(spec, bounded_toy("beyond_bound"));
      EXPECT_EQ(name(beyond.outcome), "mismatch");
      EXPECT_EQ(beyond.comparison.first_mismatch, fault);
      EXPECT_EQ(beyond.comparison.max_ulps, 1u);
    }
    for (const char* kernel : {"wrong", "silent", "right_once"}) {
      EXPECT_EQ(name(verify(spec, bounded_toy(kernel)).outcome), "mismatch") << kernel;
    }
  });
}

TEST_F(OnGpuVerifier, EitherAllKernelsOfAFamilyHaveABoundOrNone) {
  const auto refused = [](const ToySpec& spec, const VariantInfo& kernel) {
    return message_of<std::logic_error>([&] { verify(spec, kernel); });
  };
  EXPECT_TRUE(ends(refused({}, bounded_toy("right")), "bound"));
  EXPECT_TRUE(ends(refused({.bound = 1}, toy_kernel("right")), "WithinBound"));
}

TEST_F(OnGpuVerifier, APromiseThatTheFamilyDoesNotCheckIsBroken) {
  VariantInfo kernel = bounded_toy("right");
  kernel.contract.independent_of_batch = true;
  const Verification verdict = verify({.bound = 1}, kernel);
  EXPECT_EQ(name(verdict.outcome), "mismatch");
  EXPECT_TRUE(contains(verdict.reason, "independent of the batch"));
}

/// Tests more launches than buffer sets, and more than a blocked stream takes.
TEST_F(OnGpuVerifier, ASampleIsJudgedByTheOutputsOfItsOwnLaunches) {
  for_each_spec([](const ToySpec& spec) {
    Bench bench(spec);
    for (const Launches launches : {Launches{0, 1}, {2, 2}, {1, 7}, {0, 600}}) {
      const auto right = bench.sample("right", launches);
      EXPECT_EQ(name(right.written.outcome), "bit_exact") << right.written.reason;
      EXPECT_EQ(right.sample.readings.size(),
                launches.calls > profiling::max_blocked_launches ? 0u : 1u);
    }
    const auto elsewhere = bench.sample("wrong_in_buffer_set_2", {0, 2});
    EXPECT_EQ(name(elsewhere.written.outcome), "bit_exact") << "buffer set 2 was not written";
    const auto wrong = bench.sample("wrong_in_buffer_set_2", {1, 2});
    EXPECT_EQ(name(wrong.written.outcome), "mismatch");
    EXPECT_TRUE(begins(wrong.written.reason, "copy 2: 1 differ in matrix 0, "));
    const auto silent = bench.sample("silent", {0, 3});
    EXPECT_EQ(name(silent.written.outcome), "mismatch") << "earlier contents do not count";
  });
}

TEST_F(OnGpuVerifier, AnOutputElsewhereIsJudgedByItsMatrix) {
  for_each_spec([](const ToySpec& spec) {
    Bench bench(spec);
    ASSERT_EQ(name(bench.verify(toy_kernel("right")).outcome), "bit_exact");
    const auto judge = [&](int matrix, int buffer_set) {
      return bench.verifier.judge(toy_kernel("right"), matrix, bench.workload.output(buffer_set));
    };
    EXPECT_EQ(name(judge(0, 2).outcome), "bit_exact");
    EXPECT_EQ(name(judge(1, 1).outcome), "bit_exact");
    EXPECT_TRUE(begins(judge(1, 2).reason, "5003 differ in matrix 1, first at 0: "));
    bench.verifier.enqueue_comparison(0, bench.workload.output(0));
    bench.verifier.enqueue_comparison(0, bench.workload.output(1));
    EXPECT_EQ(bench.comparisons.in_order.collect().mismatches, elements);
    EXPECT_TRUE(bench.comparisons.in_order.collect().equal()) << "each is reported once";
  });
}

}  // namespace
}  // namespace reprolab
