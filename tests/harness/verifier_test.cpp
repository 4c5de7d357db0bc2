// Where the reference's output is on the host, and where the device alone has it.
#include "experiments/harness/verifier.hpp"

#include "tests/harness/toy_workload.hpp"
#include "tests/kernels/testing.hpp"
#include "tests/message_of.hpp"

namespace reprolab {
namespace {

constexpr std::int64_t elements = 5003;

class OnGpuVerifier : public OnGpuTest {
 protected:
  /// What verifying takes: proven comparisons.
  struct Bench {
    Bench() : comparison(stream.get()) { reference::prove_comparison(); }
    profiling::Stream stream;
    DeviceComparison comparison;
  };

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

  static Verification verify(const ToySpec& spec, const VariantInfo& kernel, int slots = 4) {
    const Bench bench;
    const ToyWorkload workload(spec, slots);
    return Verifier(workload, bench.comparison, bench.stream.get()).verify(kernel);
  }
};

std::uint32_t of_width(std::uint32_t bits, const ToySpec& spec) {
  return spec.element_bytes == 2 ? bits & 0xffffu : bits;
}

TEST_F(OnGpuVerifier, ARightOutputIsBitExact) {
  for_each_spec([](const ToySpec& spec) {
    const Verification found = verify(spec, toy_kernel("right"));
    EXPECT_EQ(name(found.outcome), "bit_exact");
    EXPECT_EQ(found.reason, "");
  });
}

TEST_F(OnGpuVerifier, OneWrongElementIsAMismatchWithItsBits) {
  for_each_spec([](ToySpec spec) {
    for (const std::int64_t fault : {std::int64_t{0}, elements / 2, elements - 1}) {
      spec.fault = fault;
      const Verification found = verify(spec, toy_kernel("wrong"));
      EXPECT_EQ(name(found.outcome), "mismatch");
      EXPECT_EQ(found.found.mismatches, 1);
      EXPECT_EQ(found.found.first_mismatch, fault);
      EXPECT_EQ(found.reason, fmt::format("1 differ, first at {}: expected {:#x}, actual {:#x}",
                                          fault, ToyWorkload(spec, 1).wanted_bits(fault),
                                          of_width(ToyWorkload::spoilt_bits, spec)));
    }
  });
}

TEST_F(OnGpuVerifier, AnOutputThatNobodyWroteIsAMismatchThroughout) {
  for_each_spec([](const ToySpec& spec) {
    const Verification found = verify(spec, toy_kernel("silent"));
    EXPECT_EQ(name(found.outcome), "mismatch");
    EXPECT_EQ(found.found.mismatches, elements);
    EXPECT_EQ(found.reason,
              fmt::format("{} differ, first at 0: expected {:#x}, actual {:#x}", elements,
                          ToyWorkload(spec, 1).wanted_bits(0), of_width(0xffffffffu, spec)));
  });
}

TEST_F(OnGpuVerifier, OneWrongCopyIsAMismatchThatNamesIt) {
  for_each_spec([](ToySpec spec) {
    spec.fault = 17;
    const Verification found = verify(spec, toy_kernel("wrong_in_slot_2"));
    EXPECT_EQ(name(found.outcome), "mismatch");
    EXPECT_EQ(found.reason,
              fmt::format("copy 2: 1 differ, first at 17: expected {:#x}, actual {:#x}",
                          ToyWorkload(spec, 1).wanted_bits(17),
                          of_width(ToyWorkload::spoilt_bits, spec)));
    EXPECT_EQ(name(verify(spec, toy_kernel("wrong_in_slot_2"), 2).outcome), "bit_exact");
  });
}

TEST_F(OnGpuVerifier, WhatDoesNotRunSaysWhy) {
  for_each_spec([](const ToySpec& spec) {
    const Verification failed = verify(spec, toy_kernel("fails"));
    EXPECT_EQ(name(failed.outcome), "launch_failed");
    EXPECT_EQ(failed.reason, "launch: invalid argument (cudaErrorInvalidValue)");
    const Verification unsupported = verify(spec, toy_kernel("unsupported"));
    EXPECT_EQ(name(unsupported.outcome), "unsupported");
    EXPECT_EQ(unsupported.reason, "a toy of another sort");
  });
}

/// What a kernel is declared to write is made on the host.
TEST_F(OnGpuVerifier, ADeviationIsJudgedWhereTheHostHasTheReferenceAlone) {
  for_each_spec([](const ToySpec& spec) {
    const Verification deviates = verify(spec, toy_kernel("wrong", "spoils an element"));
    const Verification right = verify(spec, toy_kernel("right", "spoils an element"));
    if (!spec.on_host) {
      EXPECT_EQ(name(deviates.outcome), "unsupported");
      EXPECT_EQ(deviates.reason,
                "its declared output is made on the host, for which the problem is too large");
      return;
    }
    EXPECT_EQ(name(deviates.outcome), "deviation_as_declared");
    EXPECT_EQ(deviates.found.mismatches, 1);
    EXPECT_EQ(deviates.reason.substr(0, 22), "1 differ, first at 0: ");
    EXPECT_EQ(name(right.outcome), "mismatch");
    EXPECT_TRUE(right.found.equal());
    EXPECT_EQ(right.reason, fmt::format("does not deviate as declared: 1 differ, first at 0: "
                                        "expected {:#x}, actual {:#x}",
                                        of_width(ToyWorkload::spoilt_bits, spec),
                                        ToyWorkload(spec, 1).wanted_bits(0)));
  });
}

TEST_F(OnGpuVerifier, RefusesAReferenceOfAnotherSize) {
  class Odd : public ToyWorkload {
   public:
    Odd() : ToyWorkload({.elements = 10}, 1) { facts_.elements = 9; }
    const ProblemFacts& facts() const override { return facts_; }

   private:
    ProblemFacts facts_ = facts_of(ToySpec{.elements = 10});
  };
  const Bench bench;
  const Odd odd;
  EXPECT_EQ(message_of<std::logic_error>(
                [&] { const Verifier verifier(odd, bench.comparison, bench.stream.get()); }),
            "toy: the reference's output has another size");
}

TEST_F(OnGpuVerifier, BringsNothingBackWhereTheDeviceJudges) {
  for_each_spec([](const ToySpec& spec) {
    const Bench bench;
    const ToyWorkload workload(spec, 3);
    Verifier verifier(workload, bench.comparison, bench.stream.get());
    verifier.verify(toy_kernel("wrong"));
    EXPECT_EQ(verifier.actual().size(), spec.on_host ? spec.bytes() : 0);
  });
}

TEST_F(OnGpuVerifier, ComparesAgainWithoutLaunching) {
  for_each_spec([](const ToySpec& spec) {
    const Bench bench;
    const ToyWorkload workload(spec, 3);
    Verifier verifier(workload, bench.comparison, bench.stream.get());
    EXPECT_EQ(name(verifier.verify(toy_kernel("right")).outcome), "bit_exact");
    EXPECT_EQ(name(verifier.verify_again(toy_kernel("right"), 3).outcome), "bit_exact");
    verifier.poison(2);
    const Verification again = verifier.verify_again(toy_kernel("right"), 3);
    EXPECT_EQ(name(again.outcome), "mismatch");
    EXPECT_EQ(again.reason.substr(0, 8), "copy 0: ");
    EXPECT_EQ(name(verifier.judge_on_device(toy_kernel("right"), workload.output(2)).outcome),
              "bit_exact");
    EXPECT_EQ(verifier.judge_on_device(toy_kernel("right"), workload.output(1)).reason,
              fmt::format("{} differ, first at 0: expected {:#x}, actual {:#x}", elements,
                          workload.wanted_bits(0), of_width(0xffffffffu, spec)));
  });
}

}  // namespace
}  // namespace reprolab
