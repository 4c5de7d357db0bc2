// The verdict on a kernel's launches and output: before it is timed, and again after every sample.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/device_checks.hpp"
#include "harness/workload.hpp"
#include "profiling/instrument.hpp"

namespace reprolab {

struct Verification {
  Outcome outcome = Outcome::not_verified;
  std::string reason{};
  /// Comparison with the reference, for a mismatch and for a declared deviation; equal for a kernel
  /// that does not deviate as declared.
  reference::Comparison comparison{};
  std::map<std::string, std::int64_t> findings{};  ///< As in Findings.

  /// Whether an output was judged and is wrong, or could not be made.
  bool is_bad() const { return outcome != Outcome::not_verified && !may_be_timed(outcome); }
};

Verification failed(std::string reason);  ///< launch_failed

/// One sample of a row: the readings of the instrument, and the verdict on these launches and their
/// outputs; not_verified if none of the outputs can be judged.
struct Sampled {
  profiling::Sample sample;
  Verification written;
};

/// Throws if a launch failed; run_or_fail() distinguishes this from a kernel that fails while it
/// runs.
void require_launched(cudaError_t error);

/// Runs `launches`, which enqueue a kernel and wait for it. If they fail, returns launch_failed
/// with the reason; if the harness fails, not_measured; otherwise not_verified. Throws
/// KernelCrashed if the device becomes unusable, or its state differs from `state`: a new process
/// starts with the original state.
Verification run_or_fail(const VariantInfo& variant, const DeviceState& state,
                         const std::function<void()>& launches);

/// Takes a sample, and repeats it up to seven times if the GPU waited for the host during it, or if
/// other streams were still running after it. If the last one is also late, it is launch_failed.
Sampled repeat_if_late(const std::function<Sampled()>& sample);

/// The verdict on a sample: `written`, the verdict on its outputs, unless the instrument's records
/// contradict it.
Verification with_records(Verification written, const profiling::Sample& sample);

/// The message about work outside of the stream that a launch is given.
inline constexpr const char* escapes =
    ": some of its work is outside the timed stream; a launch must enqueue all of it on the stream "
    "that it is given";

/// Consecutive launches: `calls` calls of one kernel, one per buffer set, cyclically from `first`
/// on; or all of them in that buffer set.
struct Launches {
  int first = 0, calls = 1;
  bool rotate = true;
  bool check_repeats = false;  ///< Whether a RepeatCheck checks one of them.

  /// The buffer set of the call of this index.
  int buffer_set(int call, int buffer_sets) const {
    return (first + (rotate ? call : 0)) % buffer_sets;
  }
};

/// Verifies the kernels of one workload. Every comparison covers all bits of the output, and
/// outputs are poisoned first. All members throw KernelCrashed if a kernel has made the device
/// unusable, or has changed the device's state or memory that is not the kernel's output.
class Verifier {
 public:
  /// The host's comparison must have been tested by reference::self_test_comparison(). `experiment`
  /// names the NVTX ranges around launches.
  Verifier(const Workload& workload, const Comparisons& comparisons, cudaStream_t stream,
           std::string experiment = "bench");

  /// Must be called after the workload has exchanged its inputs.
  void protect_memory();

  /// Computes the bounds for a bounded workload's kernel, once: this may take the host longer than
  /// the time limit of a kernel.
  void prepare(const VariantInfo& variant);

  /// Launches the kernel on every buffer set through `instrument`. Compares buffer set 0 on the
  /// host with the reference, or with the output that the kernel declares, and the other buffer
  /// sets on the device; if the host has no reference, compares all buffer sets on the device. Then
  /// has the workload inspect the kernel, and launches it on an input that comes late. Must be
  /// called before the workload exchanges its inputs.
  Verification verify(const VariantInfo& variant, profiling::Instrument& instrument);

  /// One sample of a verified kernel, repeated up to seven times if it was late.
  Sampled sample(const VariantInfo& variant, Launches launches, profiling::Instrument& instrument,
                 bool held = true);

  /// Compares, on the device, an output of `matrix` that is not in a buffer set.
  Verification judge(const VariantInfo& variant, int matrix, const void* output);

  /// A mismatch if the chosen launch did not write its output again; otherwise not_verified.
  Verification judge_repeat(const VariantInfo& variant, const RepeatCheck& repeat);

  /// Whether every output of a kernel is compared with the reference's: its contract declares no
  /// deviation, or the declared output showed none.
  bool compares_all(const VariantInfo& variant) const;

  /// Enqueues a comparison with the reference of an output of `matrix` that is not in a buffer set;
  /// the next `collect()` of the comparison in the launches' stream returns the result.
  void enqueue_comparison(int matrix, const void* output) const {
    enqueue_comparison(reference_output("", matrix), output);
  }

  /// Fills the outputs that the launches will write with poison.
  void poison(Launches launches) const;

  /// Throws KernelCrashed if inputs, guards or expected outputs have changed.
  void require_untouched(const VariantInfo& variant) const {
    protected_->require_unchanged(variant.name);
  }

  /// Whether one of these outputs is no longer poison, while the stream is held and nothing may
  /// have been written yet.
  bool written_already(Launches launches) const;

  /// The output that was last copied back, such as one with a mismatch.
  std::span<const std::byte> actual() const { return actual_; }

 private:
  /// Expected outputs; the upper ends only where outputs are bounded.
  struct Expected {
    profiling::DeviceBuffer low, high;
  };

  void enqueue(const VariantInfo& variant, Launches launches, cudaStream_t stream,
               const profiling::Call& call);
  std::vector<int> touched(Launches launches) const;
  Sampled sample_once(const VariantInfo& variant, Launches launches,
                      profiling::Instrument& instrument, bool held);
  bool judges(const VariantInfo& variant, int buffer_set) const;
  void enqueue_comparison(ExpectedOutput expected, const void* output) const;
  Verification judge_on_host(const VariantInfo& variant);
  Verification judge_buffer_sets(const VariantInfo& variant, Launches launches);
  void inspect(const VariantInfo& variant, Verification& judged);
  Verification judge_late_input(const VariantInfo& variant);
  ExpectedOutput reference_output(const std::string& reading, int matrix) const;
  ExpectedOutput wanted_on_device(const VariantInfo& variant, int matrix);
  Bounds wanted(const VariantInfo& variant);
  Outcome kept(const VariantInfo& variant) const;
  std::string describe(int matrix, const reference::Comparison& comparison, ExpectedOutput expected,
                       const void* actual, cudaMemcpyKind to_host) const;

  const Workload& workload_;
  const ProblemFacts& facts_ = workload_.facts();
  const Comparisons& comparisons_;
  cudaStream_t stream_;
  std::string experiment_;
  /// By reading, which is empty for bit-exact outputs; then by matrix.
  std::map<std::string, std::vector<Expected>> expected_;
  std::optional<ProtectedMemory> protected_;
  RepeatCheck repeat_;
  std::vector<std::byte> actual_;  ///< The output that was copied back last.
  /// The declared output of the deviating kernel that was last judged, on the host and the device.
  std::string declared_by_;
  std::vector<std::byte> declared_;
  profiling::DeviceBuffer declared_on_device_;
  std::set<std::string> show_no_deviation_;  ///< Kernels whose declared output is the reference's.
};

}  // namespace reprolab
