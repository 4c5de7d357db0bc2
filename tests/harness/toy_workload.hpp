// A workload of the harness that needs no kernel: its launches are copies, and some go wrong.
#pragma once

#include <fmt/core.h>

#include <cstring>
#include <string>
#include <vector>

#include "experiments/harness/workload.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab {

struct ToySpec {
  std::int64_t elements = 1000;
  int element_bytes = 4;
  bool on_host = true;     ///< Whether the host has the reference's output.
  std::int64_t fault = 0;  ///< Element that the wrong kernels spoil.

  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(element_bytes);
  }
};

inline ProblemFacts facts_of(const ToySpec& spec) {
  return {.name = "toy",
          .description = {{"name", "toy"}, {"family", "toys"}},
          .elements = spec.elements,
          .element_bytes = spec.element_bytes,
          .bytes_read = spec.bytes(),
          .bytes_written = spec.bytes()};
}

/// Kernels: "right"; "wrong", which spoils element `fault`; "wrong_in_slot_2", there alone;
/// "silent", which writes nothing; "fails"; "unsupported".
class ToyWorkload : public Workload {
 public:
  static constexpr int spoilt_byte = 0x5a;
  static constexpr std::uint32_t spoilt_bits = 0x5a5a5a5au;

  ToyWorkload(const ToySpec& spec, int slots) : spec_(spec), facts_(facts_of(spec)) {
    for (std::int64_t i = 0; i < spec.elements; ++i) {
      const std::uint32_t bits = wanted_bits(i);
      const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
      wanted_.insert(wanted_.end(), bytes, bytes + spec.element_bytes);
    }
    for (int slot = 0; slot < slots; ++slot) {
      inputs_.emplace_back(spec.bytes());
      outputs_.emplace_back(spec.bytes());
      profiling::check(
          cudaMemcpy(inputs_.back().data(), wanted_.data(), wanted_.size(), cudaMemcpyHostToDevice),
          "filling a toy");
    }
  }

  /// Of element `index`; never poison, and never spoilt.
  std::uint32_t wanted_bits(std::int64_t index) const {
    const auto bits = static_cast<std::uint32_t>(index) % 20000 + 1;
    return spec_.element_bytes == 2 ? bits : bits << 16 | bits;
  }

  const ProblemFacts& facts() const override { return facts_; }
  int slots() const override { return static_cast<int>(outputs_.size()); }
  Support supports(const std::string& kernel) const override {
    return kernel == "unsupported" ? Support::no("a toy of another sort") : Support::yes();
  }
  cudaError_t launch(const std::string& kernel, int slot, cudaStream_t stream) const override {
    if (kernel == "fails") return cudaErrorInvalidValue;
    if (kernel == "silent") return cudaSuccess;
    const cudaError_t copied = cudaMemcpyAsync(output(slot), traffic(slot).read, spec_.bytes(),
                                               cudaMemcpyDeviceToDevice, stream);
    const bool spoils = kernel == "wrong" || (kernel == "wrong_in_slot_2" && slot == 2);
    if (!spoils || copied != cudaSuccess) return copied;
    return cudaMemsetAsync(
        static_cast<std::byte*>(output(slot)) + spec_.fault * spec_.element_bytes, spoilt_byte,
        static_cast<std::size_t>(spec_.element_bytes), stream);
  }
  void* output(int slot) const override { return outputs_[static_cast<std::size_t>(slot)].data(); }
  Traffic traffic(int slot) const override {
    return {inputs_[static_cast<std::size_t>(slot)].data(), output(slot)};
  }
  std::span<const std::byte> expected() const override {
    return spec_.on_host ? wanted_ : std::span<const std::byte>{};
  }
  void write_expected(void* to, cudaStream_t stream) const override {
    if (spec_.on_host) return Workload::write_expected(to, stream);
    profiling::check(cudaMemcpyAsync(to, inputs_.front().data(), spec_.bytes(),
                                     cudaMemcpyDeviceToDevice, stream),
                     "writing a toy's reference");
  }
  /// Every kernel that deviates is declared to do what "wrong" does.
  void emulate(const std::string&, std::span<std::byte> output) const override {
    std::ranges::copy(wanted_, output.begin());
    std::memset(output.data() + spec_.fault * spec_.element_bytes, spoilt_byte,
                static_cast<std::size_t>(spec_.element_bytes));
  }
  std::string describe(const reference::Comparison& found, std::uint32_t expected,
                       std::uint32_t actual) const override {
    return fmt::format("{} differ, first at {}: expected {:#x}, actual {:#x}", found.mismatches,
                       found.first_mismatch, expected, actual);
  }

 private:
  ToySpec spec_;
  ProblemFacts facts_;
  std::vector<std::byte> wanted_;
  std::vector<profiling::DeviceBuffer> inputs_, outputs_;
};

inline VariantInfo toy_kernel(const std::string& name, const std::string& deviation = "") {
  return {name, Role::kernel, "a toy", "tests/harness/toy_workload.hpp", deviation};
}

}  // namespace reprolab
