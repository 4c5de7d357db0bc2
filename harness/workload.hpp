// A problem with its data on the device: the only interface between a family of kernels and the
// code that verifies, times and reports. Nothing here depends on what the kernels compute.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device_checks.hpp"
#include "harness/facts.hpp"
#include "kernels/registry.hpp"
#include "profiling/cuda_check.hpp"
#include "reference/compare.hpp"
#include "reference/parallel.hpp"

namespace reprolab {

/// Number of different matrices in a problem's buffer sets, assigned cyclically, so that a kernel
/// that reuses a pointer or an output of an earlier launch is wrong in the next buffer set.
inline constexpr int distinct_matrices = 2;

/// Device memory of the workload after every output, which no launch may write.
inline constexpr std::uint64_t guard_bytes = 256;

/// The ends of the interval for each element of an output, on the host; the same array twice for
/// bit-exact outputs.
struct Bounds {
  std::span<const std::byte> low, high;
};

/// Results of inspecting a kernel beyond its outputs.
struct Findings {
  std::map<std::string, std::int64_t> numbers{};  ///< For its record, by name.
  std::string broken;  ///< The part of its contract that it breaks, in one line; empty: none.
};

class Workload {
 public:
  explicit Workload(ProblemFacts facts) : facts_(std::move(facts)) {}
  virtual ~Workload() = default;

  const ProblemFacts& facts() const { return facts_; }
  /// Number of copies of input and output, each with its own memory, to rotate over.
  int buffer_sets() const { return static_cast<int>(outputs_.size()); }
  /// Number of different matrices that rotate over the buffer sets; buffer set 0 holds matrix 0 at
  /// first.
  int matrices() const { return std::min(buffer_sets(), distinct_matrices); }
  int matrix_of(int buffer_set) const { return (buffer_set + exchanges_) % matrices(); }
  /// Copies the next matrix to every buffer set, so that a kernel that has cached its result for a
  /// pointer is wrong from then on. Waits for the GPU.
  void exchange() {
    ++exchanges_;
    fill_inputs();
  }

  virtual Support supports(const std::string& kernel) const = 0;
  virtual cudaError_t launch(const std::string& kernel, int buffer_set,
                             cudaStream_t stream) const = 0;
  /// The output of a buffer set; its memory is `guard_bytes` longer, and starts no later than the
  /// multiple of `DeviceBuffer::alignment` before the output.
  void* output(int buffer_set) const {
    return outputs_[static_cast<std::size_t>(buffer_set)].as<std::byte>() + output_offset_bytes_;
  }
  /// All memory that a launch may read and nothing may write: at least `bytes_read`.
  virtual std::span<const std::byte> input(int buffer_set) const = 0;
  /// The part of the input that the work before a launch may still be writing, for which a kernel
  /// waits; the rest was there before.
  virtual std::span<const std::byte> late_input(int buffer_set) const { return input(buffer_set); }
  /// Memory that no launch may access, after the memory that it may write; by default the guards of
  /// outputs.
  virtual std::vector<std::span<std::byte>> guards() const {
    std::vector<std::span<std::byte>> guards;
    for (int buffer_set = 0; buffer_set < buffer_sets(); ++buffer_set) {
      auto* const begin = static_cast<std::byte*>(output(buffer_set));
      guards.push_back({begin + facts_.output_bytes(), guard_bytes});
    }
    return guards;
  }

  /// The reference's bounds of a matrix's output, by a reading of the problem
  /// (kernels/registry.hpp); valid as long as this object. Empty if the output is too large for a
  /// host: then only write_expected() computes it, and a kernel with a declared deviation is not
  /// run.
  virtual Bounds bounds(int matrix, const std::string& reading) const = 0;
  /// Writes the reference's output for a matrix to device memory, for bit-exact outputs.
  virtual void write_expected(int matrix, void* to, cudaStream_t stream) const {
    profiling::check(cudaMemcpyAsync(to, bounds(matrix, "").low.data(), facts_.output_bytes(),
                                     cudaMemcpyHostToDevice, stream),
                     "copying the reference's output to the GPU");
  }
  /// Inspects a kernel whose outputs are right by further launches on `stream`; throws as
  /// profiling::check does.
  virtual Findings inspect(const VariantInfo& kernel, const DeviceComparison&, cudaStream_t) const {
    if (!kernel.contract.independent_of_batch) return {};
    return {.broken = "promises to be independent of the batch, which its family does not check"};
  }
  /// Overwrites `output` (host) with what a deviating kernel is declared to write for matrix 0.
  virtual void write_declared(const std::string& kernel, std::span<std::byte> output) const = 0;
  /// One line about a comparison that found a mismatch. The bits are those of the first mismatch
  /// and, for an interval, of its nearer end.
  virtual std::string describe(int matrix, const reference::Comparison& comparison,
                               std::uint32_t expected, std::uint32_t actual) const = 0;

 protected:
  /// Makes the output of one more buffer set, `offset_bytes` past an aligned address, the same for
  /// all.
  void add_output(std::uint64_t offset_bytes = 0) {
    output_offset_bytes_ = offset_bytes;
    outputs_.emplace_back(facts_.output_bytes() + guard_bytes + offset_bytes);
  }

 private:
  /// Fills the input of each buffer set with its matrix_of().
  virtual void fill_inputs() = 0;

  ProblemFacts facts_;
  std::vector<profiling::DeviceBuffer> outputs_;
  std::uint64_t output_offset_bytes_ = 0;
  int exchanges_ = 0;
};

/// Bytes of the workspace that a kernel needs for a problem that it supports.
template <class Problem>
std::uint64_t workspace_of(const Kernel<Problem>& kernel, const Problem& problem) {
  return kernel.workspace_bytes ? kernel.workspace_bytes(problem) : 0;
}

/// Bytes of all workspaces of a problem: each kernel that supports it has its own.
template <class Problem, class Supports>
std::uint64_t workspace_bytes(const Problem& problem, const Supports& supports) {
  std::uint64_t bytes = 0;
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    if (supports(name).ok) bytes += guard_bytes + workspace_of(kernel, problem);
  }
  return bytes;
}

/// A workload of a family's registered kernels.
template <class Problem>
class FamilyWorkload : public Workload {
 public:
  using Workload::Workload;

  /// The problem that a kernel gets for a buffer set.
  virtual Problem problem(const std::string& kernel, int buffer_set) const = 0;

  Support supports(const std::string& kernel) const override {
    return kernel_named<Problem>(kernel).supports(problem(kernel, 0));
  }
  cudaError_t launch(const std::string& kernel, int buffer_set,
                     cudaStream_t stream) const override {
    return kernel_named<Problem>(kernel).launch(problem(kernel, buffer_set), stream);
  }
  void write_declared(const std::string& kernel, std::span<std::byte> output) const override {
    const auto expected_output = kernel_named<Problem>(kernel).expected_output;
    const Problem host = problem_on_host(output.data());
    reference::parallel_for(facts().elements, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
      expected_output(host, begin, end);
    });
  }
  /// The guards after outputs and workspaces.
  std::vector<std::span<std::byte>> guards() const override {
    auto all = Workload::guards();
    for (const auto& [name, memory] : workspaces_) {
      all.push_back({memory.template as<std::byte>() + memory.bytes() - guard_bytes, guard_bytes});
    }
    return all;
  }

 protected:
  /// Makes the workspace of each kernel that supports the problem, with values that no kernel may
  /// rely on.
  void make_workspaces() {
    for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
      if (!supports(name).ok) continue;
      const std::uint64_t bytes = workspace_of(kernel, problem(name, 0)) + guard_bytes;
      auto& memory = workspaces_[name] = profiling::DeviceBuffer(bytes);
      profiling::check(cudaMemset(memory.data(), poison_byte, bytes), "filling a workspace");
    }
  }
  /// Null if the kernel does not support the problem.
  void* workspace(const std::string& kernel) const {
    const auto made = workspaces_.find(kernel);
    return made == workspaces_.end() ? nullptr : made->second.data();
  }

 private:
  /// Matrix 0 with all pointers to host memory.
  virtual Problem problem_on_host(void*) const {
    throw std::logic_error(facts().name + ": has no declared output to make");
  }

  std::map<std::string, profiling::DeviceBuffer> workspaces_;  ///< Each `guard_bytes` longer.
};

/// All registered kernels of a family, sorted by name.
template <class Problem>
std::vector<VariantInfo> registered_variants() {
  std::vector<VariantInfo> variants;
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    variants.push_back({name, kernel.origin, kernel.lineage, kernel.source_file, kernel.contract,
                        kernel.code_files, kernel.language, kernel.counterpart});
  }
  return variants;
}

}  // namespace reprolab
