#include "harness/verifier.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "common/not_measured.hpp"
#include "profiling/nvtx.hpp"
#include "reference/ulps.hpp"

namespace reprolab {
namespace {

template <class Bits>
std::span<const Bits> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Bits*>(bytes.data()), bytes.size() / sizeof(Bits)};
}

/// The bits of one element; those of a 2-byte element are in the low half.
std::uint32_t bits_of(std::span<const std::byte> array, std::int64_t index, int element_bytes) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, array.data() + index * element_bytes, static_cast<std::size_t>(element_bytes));
  return bits;
}

/// The end of an interval that a value outside of it lies beyond.
std::uint32_t nearer_end(std::uint32_t low, std::uint32_t high, std::uint32_t actual,
                         int element_bytes) {
  const auto is_below = [&]<class Bits>(Bits) {
    return reference::in_order(static_cast<Bits>(actual)) <
           reference::in_order(static_cast<Bits>(low));
  };
  return (element_bytes == 2 ? is_below(std::uint16_t{}) : is_below(std::uint32_t{})) ? low : high;
}

using profiling::max_blocked_launches;

/// What other streams may still do after the stop event: the host's own share of this time is some
/// 10 us.
constexpr double max_lingering_us = 200;

/// By how much the host's clock may exceed the events' time: its share is some 20 us.
constexpr double max_unseen_us = 300, max_unseen_of_batch = 0.05;

/// A sample may look late because the host was not scheduled for a while, but not so often in a
/// row.
constexpr int max_attempts = 3;

Verification failed(std::string reason) { return {Outcome::launch_failed, std::move(reason), {}}; }

/// Time in which work that does not wait for the blocked stream can write something.
constexpr std::chrono::microseconds look_after{200};

const std::string escapes =
    ": some of its work is outside the timed stream; a launch must enqueue all of it on the stream "
    "that it is given";

/// Why the batch's time is not that of its work; empty if it is.
std::string why_late(const profiling::BatchTime& batch) {
  if (!batch.host_ahead) {
    return "waits for the GPU when it is launched; a launch only enqueues its work";
  }
  if (batch.lingering_us > max_lingering_us) {
    return fmt::format("was still at work {:.1f} ms after the stop event{}",
                       1e-3 * batch.lingering_us, escapes);
  }
  if (batch.host_us > batch.us + max_unseen_us + max_unseen_of_batch * batch.us) {
    return fmt::format("took {:.0f} us between the events, and {:.0f} us on the host's clock",
                       batch.us, batch.host_us);
  }
  return "";
}

/// Whether an output was judged and is not what it has to be, or could not be made.
bool is_bad(const Verification& written) {
  return written.outcome != Outcome::not_verified && !may_be_timed(written.outcome);
}

/// What a kernel's output is when it is as its contract says; `equals_reference`: of a declared
/// one.
Outcome kept(const Promise& promise, bool equals_reference) {
  switch (promise.kind) {
    case Promise::Kind::within_bound:
      return Outcome::within_bound;
    case Promise::Kind::declared_deviation:
      return equals_reference ? Outcome::bit_exact : Outcome::deviation_as_declared;
    default:
      return Outcome::bit_exact;
  }
}

}  // namespace

Verifier::Sampled repeat_if_late(const std::function<Verifier::Sampled()>& sample) {
  Verifier::Sampled sampled;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    sampled = sample();
    if (!sampled.sample.held || is_bad(sampled.written)) return sampled;
    const std::string late = why_late(*sampled.sample.held);
    if (late.empty()) return sampled;
    sampled.written = failed(late);
  }
  return sampled;
}

Verification with_records(Verification written, const profiling::Sample& sample) {
  if (is_bad(written)) return written;
  if (sample.foreign > 0) {
    return failed(fmt::format(
        "{} kernels, copies or fills ran in between that no call of it launched; a launch must "
        "enqueue all of its work in the thread that calls it",
        sample.foreign));
  }
  if (!sample.lost.empty()) return {Outcome::not_measured, sample.lost, {}};
  return written;
}

reference::Comparison compare_on_host(std::span<const std::byte> low,
                                      std::span<const std::byte> high,
                                      std::span<const std::byte> actual, int element_bytes) {
  using std::uint16_t, std::uint32_t;
  if (element_bytes == 2) {
    return reference::compare_within(as<uint16_t>(low), as<uint16_t>(high), as<uint16_t>(actual));
  }
  if (element_bytes == 4) {
    return reference::compare_within(as<uint32_t>(low), as<uint32_t>(high), as<uint32_t>(actual));
  }
  throw std::invalid_argument("compare: elements of 2 or 4 bytes only");
}

Verifier::Verifier(const Workload& workload, const Comparisons& comparisons, cudaStream_t stream,
                   std::string experiment)
    : workload_(workload),
      stream_(stream),
      experiment_(std::move(experiment)),
      comparison_(comparisons.in_order),
      beside_(comparisons.beside),
      state_(comparisons.state) {
  const std::size_t on_host = workload.expected().size();
  if (on_host != 0 && on_host != workload.facts().output_bytes()) {
    throw std::logic_error(workload.facts().name + ": the reference's output has another size");
  }
  for (int matrix = 0; matrix < workload.matrices() && !workload.is_bounded(); ++matrix) {
    auto& expected = expected_[""].emplace_back();
    expected.low = profiling::DeviceBuffer(workload.facts().output_bytes());
    workload.write_expected(matrix, expected.low.data(), stream);
  }
  protect_memory();
}

void Verifier::prepare(const VariantInfo& variant) {
  const std::string& reading = variant.promise.reading;
  if (!workload_.is_bounded() || expected_.contains(reading)) return;
  if (!workload_.supports(variant.name).ok) return;
  const auto bring = [&](std::span<const std::byte> ends) {
    profiling::DeviceBuffer on_device(ends.size());
    profiling::check(cudaMemcpy(on_device.data(), ends.data(), ends.size(), cudaMemcpyHostToDevice),
                     "copying the ends of intervals to the GPU");
    return on_device;
  };
  for (int matrix = 0; matrix < workload_.matrices(); ++matrix) {
    const Bounds bounds = workload_.bounds(matrix, reading);
    expected_[reading].push_back({bring(bounds.low), bring(bounds.high)});
  }
  protect_memory();
}

void Verifier::protect_memory() {
  std::vector<ProtectedMemory::Region> regions;
  for (const auto& [reading, matrices] : expected_) {
    for (const auto& [low, high] : matrices) {
      for (const auto* ends : {&low, &high}) regions.push_back({ends->data(), ends->bytes()});
    }
  }
  for (int buffer_set = 0; buffer_set < workload_.buffer_sets(); ++buffer_set) {
    regions.push_back({workload_.input(buffer_set).data(), workload_.input(buffer_set).size()});
  }
  for (const auto guard : workload_.guards()) {
    profiling::check(cudaMemsetAsync(guard.data(), poison_byte, guard.size(), stream_),
                     "making a guard");
    regions.push_back({guard.data(), guard.size()});
  }
  protected_.emplace(regions, stream_);
}

/// The buffer sets that the launches write, each once, in their order.
std::vector<int> Verifier::touched(Launches launches) const {
  const int most = launches.rotate ? workload_.buffer_sets() : 1;
  std::vector<int> buffer_sets;
  for (int i = 0; i < std::min(launches.calls, most); ++i) {
    buffer_sets.push_back(launches.buffer_set(i, workload_.buffer_sets()));
  }
  return buffer_sets;
}

/// Whether a buffer set's output can be judged: a declared output is made only for matrix 0.
bool Verifier::judges(const VariantInfo& variant, int buffer_set) const {
  return !variant.promise.deviates() || workload_.matrix_of(buffer_set) == 0;
}

void Verifier::poison(Launches launches) const {
  for (const int buffer_set : touched(launches)) {
    profiling::check(cudaMemsetAsync(workload_.output(buffer_set), poison_byte,
                                     workload_.facts().output_bytes(), stream_),
                     "poisoning an output");
  }
}

/// Enqueues one launch after the other.
void Verifier::enqueue(const VariantInfo& variant, Launches launches, cudaStream_t stream,
                       const profiling::Call& call) {
  const profiling::NvtxRange range(experiment_, variant.name, workload_.facts().name);
  for (int i = 0; i < launches.calls; ++i) {
    call(kernel_time, [&] {
      const int buffer_set = launches.buffer_set(i, workload_.buffer_sets());
      repeat_.around(i, buffer_set, workload_.output(buffer_set), workload_.facts().output_bytes(),
                     stream,
                     [&] { require_launched(workload_.launch(variant.name, buffer_set, stream)); });
    });
  }
}

bool Verifier::written_already(Launches launches) const {
  std::this_thread::sleep_for(look_after);
  for (const int buffer_set : touched(launches)) {
    beside_.enqueue(nullptr, workload_.output(buffer_set), workload_.facts().elements,
                    workload_.facts().element_bytes);
  }
  return !beside_.collect().equal();
}

Verifier::Sampled Verifier::sample(const VariantInfo& variant, Launches launches,
                                   profiling::Instrument& instrument, bool held) {
  return repeat_if_late([&] { return sample_once(variant, launches, instrument, held); });
}

/// One attempt, whose time may be late.
Verifier::Sampled Verifier::sample_once(const VariantInfo& variant, Launches launches,
                                        profiling::Instrument& instrument, bool held) {
  const int last = launches.buffer_set(launches.calls - 1, workload_.buffer_sets());
  const bool judges_last = judges(variant, last);
  if (judges_last) wanted_on_device(variant, workload_.matrix_of(last));  // outside the timed part
  bool too_early = false;
  Sampled sampled;
  launches.check_repeats ? repeat_.choose(launches.calls) : repeat_.choose_none();
  poison(launches);
  sampled.written = run_or_fail(variant, state_, [&] {
    sampled.sample = instrument.measure(
        {.name = variant.name,
         .calls = launches.calls,
         .per_call = true,
         .enqueue = [&](cudaStream_t stream,
                        const auto& call) { enqueue(variant, launches, stream, call); },
         .held = held && launches.calls <= max_blocked_launches,
         .while_blocked = [&] { too_early = written_already(launches); },
         .after_stop =
             [&](cudaStream_t) {
               if (judges_last) enqueue_spot_check(variant, last);
             }},
        stream_);
  });
  const bool in_time = comparison_.collect().equal();
  if (protected_memory_changed())
    throw KernelCrashed(variant.name, "changed memory that is not its output");
  if (is_bad(sampled.written)) return sampled;
  const auto& timer = sampled.sample.held;
  if (timer && timer->host_ahead && too_early) {
    sampled.written = failed("wrote its output while the stream was still held" + escapes);
    return sampled;
  }
  sampled.written = judge_buffer_sets(variant, launches);
  if (is_bad(sampled.written)) return sampled;
  if (const Verification repeat = judge_repeat(variant, repeat_); is_bad(repeat)) {
    sampled.written = repeat;
  } else if (!in_time) {
    sampled.written = failed("had not written its output when the stop event had passed" + escapes);
  } else {
    sampled.written = with_records(sampled.written, sampled.sample);
  }
  return sampled;
}

Verification Verifier::verify(const VariantInfo& variant, profiling::Instrument& instrument) {
  if (const Support support = workload_.supports(variant.name); !support.ok) {
    return {Outcome::unsupported, support.reason, {}};
  }
  const bool bounded = variant.promise.kind == Promise::Kind::within_bound;
  if (bounded != workload_.is_bounded()) {
    throw std::logic_error(variant.name + (bounded ? ": this family proves no bound"
                                                   : ": in this family a kernel is WithinBound"));
  }
  prepare(variant);
  const bool on_host = bounded || workload_.expected().size() == workload_.facts().output_bytes();
  if (!on_host && variant.promise.deviates()) {
    return {Outcome::unsupported,
            "its declared output is computed on the host, for which this problem is too large",
            {}};
  }
  // The first launch loads the kernel's module and waits for that; its output is judged as well.
  const Sampled once = sample(variant, {0, 1}, instrument, false);
  if (is_bad(once.written) && once.written.outcome != Outcome::mismatch) return once.written;
  Verification judged = on_host ? judge_on_host(variant) : once.written;
  for (int first = 0; may_be_timed(judged.outcome) && first < workload_.buffer_sets();
       first += max_blocked_launches) {
    const int calls = std::min(max_blocked_launches, workload_.buffer_sets() - first);
    const Sampled sampled = sample(variant, {first, calls}, instrument);
    const Outcome written = sampled.written.outcome;
    if (written != Outcome::not_verified && written != judged.outcome) judged = sampled.written;
  }
  if (may_be_timed(judged.outcome)) inspect(variant, judged);
  return judged;
}

void Verifier::inspect(const VariantInfo& variant, Verification& judged) {
  Findings found;
  const Verification ran = run_or_fail(
      variant, state_, [&] { found = workload_.inspect(variant, comparison_, stream_); });
  if (protected_memory_changed())
    throw KernelCrashed(variant.name, "changed memory that is not its output");
  if (is_bad(ran)) judged = ran;
  if (!is_bad(ran) && !found.broken.empty()) judged = {Outcome::mismatch, found.broken};
  judged.findings = std::move(found.numbers);
}

Verification Verifier::judge_on_host(const VariantInfo& variant) {
  const auto actual = bring_back(workload_.output(0));
  const int element_bytes = workload_.facts().element_bytes;
  const auto compare = [&](const Bounds& wanted) {
    return compare_on_host(wanted.low, wanted.high, actual, element_bytes);
  };
  const auto describe = [&](const reference::Comparison& found, const Bounds& wanted) {
    const auto bits = [&](auto array) {
      return bits_of(array, found.first_mismatch, element_bytes);
    };
    return workload_.describe(
        0, found, nearer_end(bits(wanted.low), bits(wanted.high), bits(actual), element_bytes),
        bits(actual));
  };
  const Bounds wanted_here = wanted(variant);
  const auto from_wanted = compare(wanted_here);
  if (!variant.promise.deviates()) {
    if (from_wanted.equal()) return {kept(variant.promise, true)};
    return {Outcome::mismatch, describe(from_wanted, wanted_here), from_wanted};
  }
  if (!from_wanted.equal()) {
    return {Outcome::mismatch,
            "does not deviate as declared: " + describe(from_wanted, wanted_here)};
  }
  const Bounds reference{workload_.expected(), workload_.expected()};
  const auto from_reference = compare(reference);
  if (from_reference.equal()) return {Outcome::bit_exact};
  return {Outcome::deviation_as_declared, describe(from_reference, reference), from_reference};
}

void Verifier::enqueue_judgement(const VariantInfo& variant, int buffer_set) {
  comparison_.enqueue(wanted_on_device(variant, workload_.matrix_of(buffer_set)),
                      workload_.output(buffer_set), workload_.facts().elements,
                      workload_.facts().element_bytes);
}

void Verifier::enqueue_spot_check(const VariantInfo& variant, int buffer_set) {
  comparison_.enqueue_spot_check(wanted_on_device(variant, workload_.matrix_of(buffer_set)),
                                 workload_.output(buffer_set), workload_.facts().elements,
                                 workload_.facts().element_bytes);
}

/// Compares all at once, and one by one if something is wrong.
Verification Verifier::judge_buffer_sets(const VariantInfo& variant, Launches launches) {
  std::vector<int> buffer_sets = touched(launches);
  std::erase_if(buffer_sets, [&](int buffer_set) { return !judges(variant, buffer_set); });
  if (buffer_sets.empty()) return {};
  for (const int buffer_set : buffer_sets) enqueue_judgement(variant, buffer_set);
  if (comparison_.collect().equal()) {
    return {kept(variant.promise, equals_reference_)};
  }
  for (const int buffer_set : buffer_sets) {
    Verification one =
        judge(variant, workload_.matrix_of(buffer_set), workload_.output(buffer_set));
    if (may_be_timed(one.outcome)) continue;
    one.reason = fmt::format("copy {}: {}", buffer_set, one.reason);
    return one;
  }
  return {Outcome::mismatch,
          "an output was wrong, then right when compared again: it changed during the comparison"};
}

Verification Verifier::judge(const VariantInfo& variant, int matrix, const void* output) {
  const ProblemFacts& facts = workload_.facts();
  const ExpectedOutput wanted = wanted_on_device(variant, matrix);
  const auto found = comparison_.compare(wanted, output, facts.elements, facts.element_bytes);
  const auto bits = [&](const void* array) { return device_bits(array, found.first_mismatch); };
  if (!found.equal()) {
    return {Outcome::mismatch,
            workload_.describe(
                matrix, found,
                nearer_end(bits(wanted.low), bits(wanted.high), bits(output), facts.element_bytes),
                bits(output)),
            variant.promise.deviates() ? reference::Comparison{} : found};
  }
  return {kept(variant.promise, equals_reference_)};
}

Verification Verifier::judge_repeat(const VariantInfo& variant, const RepeatCheck& repeat) {
  if (repeat.buffer_set() < 0 || !judges(variant, repeat.buffer_set())) return {};
  const ExpectedOutput wanted = wanted_on_device(variant, workload_.matrix_of(repeat.buffer_set()));
  if (repeat.written_again(wanted, workload_.facts().element_bytes, comparison_)) return {};
  return {Outcome::mismatch,
          "a launch did not write its whole output again, which an earlier one had written"};
}

void Verifier::enqueue_comparison(int matrix, const void* output) const {
  comparison_.enqueue(reference_output("", matrix), output, workload_.facts().elements,
                      workload_.facts().element_bytes);
}

ExpectedOutput Verifier::reference_output(const std::string& reading, int matrix) const {
  const auto& [low, high] = expected_.at(reading).at(static_cast<std::size_t>(matrix));
  return {low.data(), high.bytes() == 0 ? low.data() : high.data()};
}

ExpectedOutput Verifier::wanted_on_device(const VariantInfo& variant, int matrix) {
  if (!variant.promise.deviates()) return reference_output(variant.promise.reading, matrix);
  if (matrix != 0) throw std::logic_error(variant.name + " is declared for matrix 0 alone");
  const auto bits = wanted(variant).low;
  if (declared_on_device_.bytes() == 0) {
    declared_on_device_ = profiling::DeviceBuffer(bits.size());
    profiling::check(
        cudaMemcpy(declared_on_device_.data(), bits.data(), bits.size(), cudaMemcpyHostToDevice),
        "copying a declared output to the GPU");
    // If the declared output equals the reference's, the kernel is simply right.
    equals_reference_ = comparison_
                            .compare(reference_output("", 0), declared_on_device_.data(),
                                     workload_.facts().elements, workload_.facts().element_bytes)
                            .equal();
  }
  return declared_on_device_.data();
}

/// What the host compares matrix 0 with.
Bounds Verifier::wanted(const VariantInfo& variant) {
  if (workload_.is_bounded()) return workload_.bounds(0, variant.promise.reading);
  if (!variant.promise.deviates()) return {workload_.expected(), workload_.expected()};
  if (declared_by_ != variant.name) {
    declared_.assign(workload_.facts().output_bytes(), static_cast<std::byte>(poison_byte));
    workload_.write_declared(variant.name, declared_);
    declared_by_ = variant.name;
    declared_on_device_ = {};
  }
  return {declared_, declared_};
}

std::uint32_t Verifier::device_bits(const void* array, std::int64_t index) const {
  const auto bytes = static_cast<std::size_t>(workload_.facts().element_bytes);
  std::uint32_t bits = 0;
  profiling::check(cudaMemcpy(&bits, static_cast<const std::byte*>(array) + index * bytes, bytes,
                              cudaMemcpyDeviceToHost),
                   "bringing an element back");
  return bits;
}

std::span<const std::byte> Verifier::bring_back(const void* output) {
  actual_.resize(workload_.facts().output_bytes());
  profiling::check(
      cudaMemcpyAsync(actual_.data(), output, actual_.size(), cudaMemcpyDeviceToHost, stream_),
      "bringing an output back");
  profiling::check(cudaStreamSynchronize(stream_), "bringing an output back");
  return actual_;
}

}  // namespace reprolab
