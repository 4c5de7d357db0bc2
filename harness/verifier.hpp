// The verdict on a kernel's output: before it is timed, and again after every sample.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/device_compare.hpp"
#include "harness/protected_memory.hpp"
#include "harness/repeat_check.hpp"
#include "harness/worker.hpp"
#include "harness/workload.hpp"
#include "profiling/instrument.hpp"

namespace reprolab {

struct Verification {
  Outcome outcome = Outcome::not_verified;
  std::string reason{};
  /// Comparison with the reference, for a mismatch and for a declared deviation; equal for a kernel
  /// that does not deviate as declared.
  reference::Comparison found{};
  std::map<std::string, std::int64_t> findings{};  ///< As in Findings.
};

/// Throws if a launch failed; run_or_fail() distinguishes that from a kernel that fails as it runs.
void require_launched(cudaError_t error);

/// Runs `launches`, which enqueue a kernel and wait for it; in every turn of a kernel, something
/// does. If they fail, returns launch_failed with the reason; if the harness fails, not_measured;
/// otherwise not_verified. Throws KernelCrashed if the device does not survive it, or is not left
/// in `state`: a new process finds it as it was.
Verification run_or_fail(const VariantInfo& variant, const DeviceState& state,
                         const std::function<void()>& launches);

/// Consecutive launches: `calls` calls of one kernel, one per buffer set, cyclically from `first`
/// on; or all of them in that buffer set.
struct Launches {
  int first = 0, calls = 1;
  bool rotate = true;
  bool check_repeats = false;  ///< Whether one of them is looked at by a RepeatCheck.

  /// The buffer set of the call of this index.
  int buffer_set(int call, int buffer_sets) const {
    return (first + (rotate ? call : 0)) % buffer_sets;
  }
};

/// Verifies the kernels of one workload. Every comparison is over the whole output, in bits, and
/// outputs are poisoned first. All members throw KernelCrashed if a kernel has made the device
/// unusable, or has changed its state or memory that is not its output.
class Verifier {
 public:
  /// The host's comparison must have been tested by reference::prove_comparison(). `experiment`
  /// names the NVTX ranges around launches.
  Verifier(const Workload& workload, const Comparisons& comparisons, cudaStream_t stream,
           std::string experiment = "bench");

  /// To be called when the workload has exchanged its inputs.
  void protect_memory();

  /// Makes what the outputs of a bounded workload's kernel are compared with, which may take the
  /// host longer than a kernel's turn may last. Nothing if that was done.
  void prepare(const VariantInfo& variant);

  /// Launches the kernel on every buffer set through `instrument`. Compares buffer set 0 on the
  /// host with the reference, or with the output that the kernel declares, and the other buffer
  /// sets on the device; if the host has no reference, compares all buffer sets on the device. Then
  /// has the workload inspect the kernel. To be called before the workload exchanges its inputs.
  Verification verify(const VariantInfo& variant, profiling::Instrument& instrument);

  /// One sample of a verified kernel: the readings of `instrument`, and the verdict on what exactly
  /// these launches wrote, and how; not_verified if none of their outputs can be judged. Repeated,
  /// twice at most, if its time was late.
  struct Sampled {
    profiling::Sample sample;
    Verification written;
  };
  Sampled sample(const VariantInfo& variant, Launches launches, profiling::Instrument& instrument,
                 bool held = true);

  /// Compares, on the device, an output of `matrix` that is not in a buffer set.
  Verification judge(const VariantInfo& variant, int matrix, const void* output);

  /// A mismatch if the chosen launch did not write its output again; otherwise not_verified.
  Verification judge_repeat(const VariantInfo& variant, const RepeatCheck& repeat);

  /// Enqueues a comparison with the reference of an output of `matrix` that is not in a buffer set;
  /// the next `collect()` of the comparison in the launches' stream returns the result.
  void enqueue_comparison(int matrix, const void* output) const;

  /// Fills the outputs that the launches will write with poison.
  void poison(Launches launches) const;

  /// Whether inputs, guards, or what outputs are compared with have changed.
  bool protected_memory_changed() const { return protected_->changed(); }

  /// Whether one of these outputs is no longer poison, while the stream is held and nothing may
  /// have been written yet.
  bool written_already(Launches launches) const;

  /// The output that was copied back last, such as one with a mismatch.
  std::span<const std::byte> actual() const { return actual_; }

 private:
  void enqueue(const VariantInfo& variant, Launches launches, cudaStream_t stream,
               const profiling::Call& call);
  std::vector<int> touched(Launches launches) const;
  Sampled sample_once(const VariantInfo& variant, Launches launches,
                      profiling::Instrument& instrument, bool held);
  bool judges(const VariantInfo& variant, int buffer_set) const;
  Verification judge_on_host(const VariantInfo& variant);
  void enqueue_judgement(const VariantInfo& variant, int buffer_set);
  void enqueue_spot_check(const VariantInfo& variant, int buffer_set);
  Verification judge_buffer_sets(const VariantInfo& variant, Launches launches);
  void inspect(const VariantInfo& variant, Verification& judged);
  ExpectedOutput reference_output(const std::string& reading, int matrix) const;
  ExpectedOutput wanted_on_device(const VariantInfo& variant, int matrix);
  Bounds wanted(const VariantInfo& variant);
  std::span<const std::byte> bring_back(const void* output);
  std::uint32_t device_bits(const void* array, std::int64_t index) const;

  const Workload& workload_;
  cudaStream_t stream_;
  std::string experiment_;
  const DeviceComparison& comparison_;
  const DeviceComparison& beside_;
  const DeviceState& state_;
  /// What outputs are compared with; the upper ends only of a workload that is bounded.
  struct Expected {
    profiling::DeviceBuffer low, high;
  };
  /// By reading, which is empty where every bit is given; then by matrix.
  std::map<std::string, std::vector<Expected>> expected_;
  std::optional<ProtectedMemory> protected_;
  RepeatCheck repeat_;
  std::vector<std::byte> actual_;  ///< The output that was copied back last.
  /// The declared output of the deviating kernel that was judged last, on the host and the device.
  std::string declared_by_;
  std::vector<std::byte> declared_;
  profiling::DeviceBuffer declared_on_device_;
  bool equals_reference_ = false;  ///< Whether the declared output equals the reference's.
};

/// Takes a sample, and takes it again, twice at most, if the GPU waited for the host in it or if
/// other streams went on after it. The last one is then launch_failed.
Verifier::Sampled repeat_if_late(const std::function<Verifier::Sampled()>& sample);

/// The verdict on a sample whose outputs were found to be as `written` says: what the instrument
/// recorded may speak against it, too.
Verification with_records(Verification written, const profiling::Sample& sample);

/// Comparison on the host of elements of 2 or 4 bytes, each from `low` to `high`.
reference::Comparison compare_on_host(std::span<const std::byte> low,
                                      std::span<const std::byte> high,
                                      std::span<const std::byte> actual, int element_bytes);

}  // namespace reprolab
