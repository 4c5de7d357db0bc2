#include "harness/verifier.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "harness/result_file.hpp"
#include "profiling/basics.hpp"
#include "profiling/nvtx.hpp"

namespace reprolab {
namespace {

std::string describe(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

/// Thrown while enqueueing if the launch itself fails.
struct LaunchError : profiling::CudaError {
  explicit LaunchError(cudaError_t error) : CudaError(error, "launch: " + describe(error)) {}
};

/// Maximum time that other streams may run after the stop event; the host needs some 10 us of it.
constexpr double max_lingering_us = 200;

/// Maximum excess of the host's time over the events' time; the host needs some 20 us of it.
constexpr double max_unseen_us = 300, max_unseen_of_batch = 0.05;

/// A sample may look late because the host was not scheduled for a while, or because another
/// process had the GPU (tests of exactness share one), but not this often in a row.
constexpr int max_attempts = 8;

/// Why the batch's time is not the time of its work; empty if it is.
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

template <class Bits>
std::span<const Bits> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Bits*>(bytes.data()), bytes.size() / sizeof(Bits)};
}

/// Time for work that does not wait for the blocked stream to write something.
constexpr std::chrono::microseconds look_after{200};

/// Less than the memory that no problem uses (family.cpp).
constexpr std::size_t max_late_bytes = std::size_t{16} << 20;

profiling::DeviceBuffer on_device(std::span<const std::byte> bytes) {
  profiling::DeviceBuffer copy(bytes.size());
  profiling::check(cudaMemcpy(copy.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                   "copying what outputs are compared with to the GPU");
  return copy;
}

/// Elements of 2 or 4 bytes.
reference::Comparison compare_on_host(const Bounds& wanted, std::span<const std::byte> actual,
                                      int element_bytes) {
  const auto compare = [&]<class Bits>(Bits) {
    return reference::compare_within(as<Bits>(wanted.low), as<Bits>(wanted.high), as<Bits>(actual));
  };
  if (element_bytes == 2) return compare(std::uint16_t{});
  if (element_bytes == 4) return compare(std::uint32_t{});
  throw std::invalid_argument("compare: elements of 2 or 4 bytes only");
}

}  // namespace

Verification failed(std::string reason) { return {Outcome::launch_failed, std::move(reason), {}}; }

void require_launched(cudaError_t error) {
  if (error != cudaSuccess) throw LaunchError(error);
}

Verification run_or_fail(const VariantInfo& variant, const DeviceState& state,
                         const std::function<void()>& launches) {
  Verification verdict;
  try {
    launches();
    const cudaError_t left = cudaGetLastError();
    if (left != cudaSuccess) verdict = failed("left an error: " + describe(left));
  } catch (const profiling::CudaError& error) {
    cudaGetLastError();  // otherwise the next row would report it
    const bool in_launch = dynamic_cast<const LaunchError*>(&error) != nullptr;
    const std::string reason = in_launch ? error.what() : "kernel: " + describe(error.code);
    if (cudaDeviceSynchronize() != cudaSuccess) throw KernelCrashed(variant.name, reason);
    verdict = failed(reason);
  } catch (const NotMeasured& fault) {
    // An earlier launch may have failed on its own.
    if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
      throw KernelCrashed(variant.name, "kernel: " + describe(error));
    }
    verdict = {Outcome::not_measured, fault.what(), {}};
  }
  state.reset_persisting_lines();
  if (const std::string changes = state.changes(); !changes.empty()) {
    throw KernelCrashed(variant.name, changes);
  }
  return verdict;
}

Sampled repeat_if_late(const std::function<Sampled()>& sample) {
  Sampled sampled;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    sampled = sample();
    if (!sampled.sample.held || sampled.written.is_bad()) return sampled;
    const std::string late = why_late(*sampled.sample.held);
    if (late.empty()) return sampled;
    sampled.written = failed(late);
  }
  return sampled;
}

Verification with_records(Verification written, const profiling::Sample& sample) {
  if (written.is_bad()) return written;
  if (sample.foreign > 0) {
    return failed(fmt::format(
        "{} kernels, copies or fills ran in between that no call of it launched; a launch must "
        "enqueue all of its work in the thread that calls it",
        sample.foreign));
  }
  if (!sample.lost.empty()) return {Outcome::not_measured, sample.lost, {}};
  return written;
}

Verifier::Verifier(const Workload& workload, const Comparisons& comparisons, cudaStream_t stream,
                   std::string experiment)
    : workload_(workload),
      comparisons_(comparisons),
      stream_(stream),
      experiment_(std::move(experiment)) {
  if (!facts_.bounded) {
    for (int matrix = 0; matrix < workload.matrices(); ++matrix) {
      auto& expected = expected_[""].emplace_back();
      expected.low = profiling::DeviceBuffer(facts_.output_bytes());
      workload.write_expected(matrix, expected.low.data(), stream);
    }
  }
  protect_memory();
}

void Verifier::prepare(const VariantInfo& variant) {
  const std::string& reading = variant.contract.reading;
  if (!facts_.bounded || expected_.contains(reading)) return;
  if (!workload_.supports(variant.name).ok) return;
  for (int matrix = 0; matrix < workload_.matrices(); ++matrix) {
    const Bounds bounds = workload_.bounds(matrix, reading);
    expected_[reading].push_back({on_device(bounds.low), on_device(bounds.high)});
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
  return compares_all(variant) || workload_.matrix_of(buffer_set) == 0;
}

bool Verifier::compares_all(const VariantInfo& variant) const {
  return !variant.contract.deviates() || show_no_deviation_.contains(variant.name);
}

void Verifier::poison(Launches launches) const {
  for (const int buffer_set : touched(launches)) {
    profiling::check(
        cudaMemsetAsync(workload_.output(buffer_set), poison_byte, facts_.output_bytes(), stream_),
        "poisoning an output");
  }
}

/// Enqueues one launch after the other.
void Verifier::enqueue(const VariantInfo& variant, Launches launches, cudaStream_t stream,
                       const profiling::Call& call) {
  const profiling::NvtxRange range(experiment_, variant.name, facts_.name);
  for (int i = 0; i < launches.calls; ++i) {
    call(kernel_time, [&] {
      const int buffer_set = launches.buffer_set(i, workload_.buffer_sets());
      repeat_.around(i, buffer_set, workload_.output(buffer_set), facts_.elements,
                     facts_.element_bytes, stream,
                     [&] { require_launched(workload_.launch(variant.name, buffer_set, stream)); });
    });
  }
}

bool Verifier::written_already(Launches launches) const {
  std::this_thread::sleep_for(look_after);
  for (const int buffer_set : touched(launches)) {
    comparisons_.beside.enqueue(nullptr, workload_.output(buffer_set), facts_.elements,
                                facts_.element_bytes);
  }
  return !comparisons_.beside.collect().equal();
}

Sampled Verifier::sample(const VariantInfo& variant, Launches launches,
                         profiling::Instrument& instrument, bool held) {
  return repeat_if_late([&] { return sample_once(variant, launches, instrument, held); });
}

/// One attempt, which may be late.
Sampled Verifier::sample_once(const VariantInfo& variant, Launches launches,
                              profiling::Instrument& instrument, bool held) {
  const int last = launches.buffer_set(launches.calls - 1, workload_.buffer_sets());
  const bool judges_last = judges(variant, last);
  // Outside of the timed region.
  const ExpectedOutput of_last =
      judges_last ? wanted_on_device(variant, workload_.matrix_of(last)) : nullptr;
  bool too_early = false;
  Sampled sampled;
  launches.check_repeats ? repeat_.choose(launches.calls) : repeat_.choose_none();
  poison(launches);
  sampled.written = run_or_fail(variant, comparisons_.state, [&] {
    sampled.sample = instrument.measure(
        {.name = variant.name,
         .calls = launches.calls,
         .per_call = true,
         .enqueue = [&](cudaStream_t stream,
                        const auto& call) { enqueue(variant, launches, stream, call); },
         .held = held && launches.calls <= profiling::max_blocked_launches,
         .while_blocked = [&] { too_early = written_already(launches); },
         .after_stop =
             [&](cudaStream_t) {
               if (!judges_last) return;
               comparisons_.in_order.enqueue_spot_check(of_last, workload_.output(last),
                                                        facts_.elements, facts_.element_bytes);
             }},
        stream_);
  });
  const bool in_time = comparisons_.in_order.collect().equal();
  require_untouched(variant);
  if (sampled.written.is_bad()) return sampled;
  const auto& timer = sampled.sample.held;
  if (timer && timer->host_ahead && too_early) {
    sampled.written =
        failed(fmt::format("wrote its output while the stream was still held{}", escapes));
    return sampled;
  }
  sampled.written = judge_buffer_sets(variant, launches);
  if (sampled.written.is_bad()) return sampled;
  if (const Verification repeat = judge_repeat(variant, repeat_); repeat.is_bad()) {
    sampled.written = repeat;
  } else if (!in_time) {
    sampled.written =
        failed(fmt::format("had not written its output when the stop event had passed{}", escapes));
  } else {
    sampled.written = with_records(sampled.written, sampled.sample);
  }
  return sampled;
}

Verification Verifier::verify(const VariantInfo& variant, profiling::Instrument& instrument) {
  if (const Support support = workload_.supports(variant.name); !support.ok) {
    return {Outcome::unsupported, support.reason, {}};
  }
  const bool bounded = variant.contract.kind == Contract::Kind::within_bound;
  if (bounded != facts_.bounded) {
    throw std::logic_error(variant.name + (bounded ? ": this family proves no bound"
                                                   : ": in this family a kernel is WithinBound"));
  }
  prepare(variant);
  const bool on_host =
      workload_.bounds(0, variant.contract.reading).low.size() == facts_.output_bytes();
  if (!on_host && variant.contract.deviates()) {
    return {Outcome::unsupported,
            "its declared output is computed on the host, for which this problem is too large"};
  }
  // The first launch loads the kernel's module and waits for it; its output is also judged.
  const Sampled once = sample(variant, {0, 1}, instrument, false);
  if (once.written.is_bad() && once.written.outcome != Outcome::mismatch) return once.written;
  Verification judged = on_host ? judge_on_host(variant) : once.written;
  for (int first = 0; may_be_timed(judged.outcome) && first < workload_.buffer_sets();
       first += profiling::max_blocked_launches) {
    const int calls = std::min(profiling::max_blocked_launches, workload_.buffer_sets() - first);
    const Sampled sampled = sample(variant, {first, calls}, instrument);
    const Outcome written = sampled.written.outcome;
    if (written != Outcome::not_verified && written != judged.outcome) judged = sampled.written;
  }
  if (may_be_timed(judged.outcome)) inspect(variant, judged);
  if (may_be_timed(judged.outcome)) {
    if (const Verification late = judge_late_input(variant); late.is_bad()) return late;
  }
  return judged;
}

/// Whether the kernel waits for the work before it. A programmatic launch may begin before that has
/// ended; one that never waits would be timed while launches overlap, on inputs that a model has
/// not computed yet.
Verification Verifier::judge_late_input(const VariantInfo& variant) {
  const auto all = workload_.late_input(0);
  const auto input = all.first(std::min(all.size(), max_late_bytes));
  const profiling::DeviceBuffer saved(input.size());
  profiling::check(
      cudaMemcpyAsync(saved.data(), input.data(), input.size(), cudaMemcpyDeviceToDevice, stream_),
      "saving an input");
  profiling::check(
      cudaMemsetAsync(const_cast<std::byte*>(input.data()), poison_byte, input.size(), stream_),
      "poisoning an input");
  poison({0, 1});
  const Verification ran = run_or_fail(variant, comparisons_.state, [&] {
    deliver_late(input, saved.data(), stream_);
    require_launched(workload_.launch(variant.name, 0, stream_));
    profiling::check(cudaStreamSynchronize(stream_), variant.name);
  });
  require_untouched(variant);
  if (ran.is_bad()) return ran;
  Verification judged = judge(variant, 0, workload_.output(0));
  if (judged.is_bad()) {
    judged.reason = "does not wait for the work before it in its stream: " + judged.reason;
  }
  return judged;
}

void Verifier::inspect(const VariantInfo& variant, Verification& judged) {
  Findings inspection;
  const Verification ran = run_or_fail(variant, comparisons_.state, [&] {
    inspection = workload_.inspect(variant, comparisons_.in_order, stream_);
  });
  require_untouched(variant);
  if (ran.is_bad()) {
    judged = ran;
  } else if (!inspection.broken.empty()) {
    judged = {Outcome::mismatch, inspection.broken};
  }
  judged.findings = std::move(inspection.numbers);
}

Verification Verifier::judge_on_host(const VariantInfo& variant) {
  actual_.resize(facts_.output_bytes());
  profiling::check(cudaMemcpyAsync(actual_.data(), workload_.output(0), actual_.size(),
                                   cudaMemcpyDeviceToHost, stream_),
                   "bringing an output back");
  profiling::check(cudaStreamSynchronize(stream_), "bringing an output back");
  const auto compare = [&](const Bounds& bounds) {
    return compare_on_host(bounds, actual_, facts_.element_bytes);
  };
  const auto described = [&](const reference::Comparison& comparison, const Bounds& bounds) {
    return describe(0, comparison, {bounds.low.data(), bounds.high.data()}, actual_.data(),
                    cudaMemcpyHostToHost);
  };
  const Bounds wanted_here = wanted(variant);
  const auto from_wanted = compare(wanted_here);
  if (!variant.contract.deviates()) {
    if (from_wanted.equal()) return {kept(variant)};
    return {Outcome::mismatch, described(from_wanted, wanted_here), from_wanted};
  }
  if (!from_wanted.equal()) {
    return {Outcome::mismatch,
            "does not deviate as declared: " + described(from_wanted, wanted_here)};
  }
  const Bounds reference = workload_.bounds(0, "");
  const auto from_reference = compare(reference);
  if (from_reference.equal()) return {Outcome::bit_exact};
  return {Outcome::deviation_as_declared, described(from_reference, reference), from_reference};
}

/// Compares all outputs at once, and one by one if any is wrong.
Verification Verifier::judge_buffer_sets(const VariantInfo& variant, Launches launches) {
  std::vector<int> buffer_sets = touched(launches);
  std::erase_if(buffer_sets, [&](int buffer_set) { return !judges(variant, buffer_set); });
  if (buffer_sets.empty()) return {};
  for (const int buffer_set : buffer_sets) {
    enqueue_comparison(wanted_on_device(variant, workload_.matrix_of(buffer_set)),
                       workload_.output(buffer_set));
  }
  if (comparisons_.in_order.collect().equal()) return {kept(variant)};
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
  const ExpectedOutput wanted = wanted_on_device(variant, matrix);
  enqueue_comparison(wanted, output);
  const auto comparison = comparisons_.in_order.collect();
  if (comparison.equal()) return {kept(variant)};
  return {Outcome::mismatch, describe(matrix, comparison, wanted, output, cudaMemcpyDeviceToHost),
          variant.contract.deviates() ? reference::Comparison{} : comparison};
}

Verification Verifier::judge_repeat(const VariantInfo& variant, const RepeatCheck& repeat) {
  if (repeat.buffer_set() < 0 || !judges(variant, repeat.buffer_set())) return {};
  const ExpectedOutput wanted = wanted_on_device(variant, workload_.matrix_of(repeat.buffer_set()));
  if (repeat.written_again(wanted, facts_.element_bytes, comparisons_.in_order)) return {};
  return {Outcome::mismatch,
          "a launch did not write its whole output again, which an earlier one had written"};
}

void Verifier::enqueue_comparison(ExpectedOutput expected, const void* output) const {
  comparisons_.in_order.enqueue(expected, output, facts_.elements, facts_.element_bytes);
}

/// The outcome of an output that fulfils the contract. If a declared output equals the reference's,
/// the kernel is bit-exact.
Outcome Verifier::kept(const VariantInfo& variant) const {
  if (variant.contract.kind == Contract::Kind::within_bound) return Outcome::within_bound;
  return compares_all(variant) ? Outcome::bit_exact : Outcome::deviation_as_declared;
}

/// The workload's line about the first mismatch, in arrays that the host reads by `to_host`.
std::string Verifier::describe(int matrix, const reference::Comparison& comparison,
                               ExpectedOutput expected, const void* actual,
                               cudaMemcpyKind to_host) const {
  const auto bits = [&](const void* array) {
    std::uint32_t element = 0;  // one of 2 bytes is in the low half
    const auto bytes = static_cast<std::size_t>(facts_.element_bytes);
    const auto* const at = static_cast<const std::byte*>(array) + comparison.first_mismatch * bytes;
    profiling::check(cudaMemcpy(&element, at, bytes, to_host), "bringing an element back");
    return element;
  };
  const std::uint32_t low = bits(expected.low), high = bits(expected.high),
                      found_bits = bits(actual);
  const std::uint32_t wanted_bits =
      facts_.element_bytes == 2 ? reference::nearer_end<std::uint16_t>(low, high, found_bits)
                                : reference::nearer_end<std::uint32_t>(low, high, found_bits);
  return workload_.describe(matrix, comparison, wanted_bits, found_bits);
}

ExpectedOutput Verifier::reference_output(const std::string& reading, int matrix) const {
  const auto& [low, high] = expected_.at(reading).at(static_cast<std::size_t>(matrix));
  return {low.data(), high.bytes() == 0 ? low.data() : high.data()};
}

ExpectedOutput Verifier::wanted_on_device(const VariantInfo& variant, int matrix) {
  if (!variant.contract.deviates()) return reference_output(variant.contract.reading, matrix);
  if (matrix != 0 && compares_all(variant)) return reference_output("", matrix);
  if (matrix != 0) throw std::logic_error(variant.name + " is declared for matrix 0 alone");
  const auto declared = wanted(variant).low;
  if (declared_on_device_.bytes() == 0) {
    declared_on_device_ = on_device(declared);
    enqueue_comparison(reference_output("", 0), declared_on_device_.data());
    if (comparisons_.in_order.collect().equal()) show_no_deviation_.insert(variant.name);
  }
  return declared_on_device_.data();
}

/// The bounds that the host compares matrix 0 with.
Bounds Verifier::wanted(const VariantInfo& variant) {
  if (!variant.contract.deviates()) return workload_.bounds(0, variant.contract.reading);
  if (declared_by_ != variant.name) {
    declared_.assign(facts_.output_bytes(), static_cast<std::byte>(poison_byte));
    workload_.write_declared(variant.name, declared_);
    declared_by_ = variant.name;
    declared_on_device_ = {};
  }
  return {declared_, declared_};
}

}  // namespace reprolab
