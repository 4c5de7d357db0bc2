// A workload of the harness that needs no kernel: its launches are copies, and some compute wrong
// outputs or break the rules for launches.
#pragma once

#include <fmt/core.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "harness/workload.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab {

struct ToySpec {
  std::int64_t elements = 1000;
  int element_bytes = 4;
  bool on_host = true;     ///< Whether the host has the reference's output.
  std::int64_t fault = 0;  ///< The element that the wrong kernels change.
  int bound = 0;           ///< This many steps above and below are also right; 0: bit-exact.

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
          .bytes_written = spec.bytes(),
          .bounded = spec.bound != 0};
}

/// Kernels: "right"; "wrong", which changes element `fault`; "wrong_in_buffer_set_2", wrong only
/// there; "at_bound" and "beyond_bound", which change it by as many steps as are allowed and by one
/// more; "silent", which writes nothing; "fails"; "unsupported"; "remembers", which writes its
/// cached result for an input's pointer; "right_once", wrong from its third launch on;
/// "changes_input" and "writes_past_end".
class ToyWorkload : public Workload {
 public:
  static constexpr int spoilt_byte = 0x5a;
  static constexpr std::uint32_t spoilt_bits = 0x5a5a5a5au;

  ToyWorkload(const ToySpec& spec, int buffer_sets) : Workload(facts_of(spec)), spec_(spec) {
    for (int matrix = 0; matrix < std::min(buffer_sets, distinct_matrices); ++matrix) {
      wanted_.push_back(made(matrix, 0));
      lower_.push_back(made(matrix, -spec.bound));
      upper_.push_back(made(matrix, spec.bound));
    }
    for (int buffer_set = 0; buffer_set < buffer_sets; ++buffer_set) {
      inputs_.emplace_back((spec.bytes() + 3) / 4 * 4);
      add_output();
      check(cudaMemset(inputs_.back().data(), 0, inputs_.back().bytes()));
    }
    fill_inputs();
  }

  /// Expected bits of element `index`; never poison, and never `spoilt_bits`.
  std::uint32_t wanted_bits(std::int64_t index, int matrix = 0) const {
    const auto bits = static_cast<std::uint32_t>(index + 7 * matrix) % 20000 + 1;
    return spec_.element_bytes == 2 ? bits : bits << 16 | bits;
  }

  Support supports(const std::string& kernel) const override {
    return kernel == "unsupported" ? Support::no("a toy of another sort") : Support::yes();
  }
  cudaError_t launch(const std::string& kernel, int buffer_set,
                     cudaStream_t stream) const override {
    ++launches_;
    if (kernel == "fails") return cudaErrorInvalidValue;
    if (kernel == "silent") return cudaSuccess;
    if (kernel == "changes_input")
      check(cudaMemsetAsync(input_at(buffer_set), spoilt_byte, 1, stream));
    if (kernel == "writes_past_end") set(buffer_set, spec_.bytes(), spoilt_byte, 1, stream);
    if (kernel == "remembers") {
      const auto [known, is_new] = remembered_.try_emplace(buffer_set, spec_.bytes());
      if (is_new) copy(known->second.data(), input_at(buffer_set), stream);
      copy(output(buffer_set), known->second.data(), stream);
      return cudaSuccess;
    }
    copy(output(buffer_set), input_at(buffer_set), stream);
    const auto fault = static_cast<std::uint64_t>(spec_.fault * spec_.element_bytes);
    if (kernel == "at_bound" || kernel == "beyond_bound") {
      const int steps = spec_.bound + (kernel == "beyond_bound");
      const auto bits = wanted_bits(spec_.fault, matrix_of(buffer_set));
      set(buffer_set, fault, static_cast<int>(bits & 0xffu) + steps, 1, stream);
    }
    if (kernel == "wrong" || (kernel == "wrong_in_buffer_set_2" && buffer_set == 2) ||
        (kernel == "right_once" && launches_ > 2)) {
      set(buffer_set, fault, spoilt_byte, static_cast<std::size_t>(spec_.element_bytes), stream);
    }
    return cudaSuccess;
  }
  std::span<const std::byte> input(int buffer_set) const override {
    return {inputs_[at(buffer_set)].as<std::byte>(), inputs_[at(buffer_set)].bytes()};
  }
  Bounds bounds(int matrix, const std::string&) const override {
    const bool known = spec_.on_host || spec_.bound != 0;
    return known ? Bounds{lower_[at(matrix)], upper_[at(matrix)]} : Bounds{};
  }
  void write_expected(int matrix, void* to, cudaStream_t stream) const override {
    copy(to, lower_[at(matrix)].data(), stream);
  }
  /// Every deviating kernel declares the output of "wrong".
  void write_declared(const std::string&, std::span<std::byte> output) const override {
    std::ranges::copy(wanted_[0], output.begin());
    std::memset(output.data() + spec_.fault * spec_.element_bytes, spoilt_byte,
                static_cast<std::size_t>(spec_.element_bytes));
  }
  std::string describe(int matrix, const reference::Comparison& comparison, std::uint32_t expected,
                       std::uint32_t actual) const override {
    return fmt::format("{} differ in matrix {}, first at {}: expected {:#x}, actual {:#x}",
                       comparison.mismatches, matrix, comparison.first_mismatch, expected, actual);
  }

 private:
  void fill_inputs() override {
    for (int buffer_set = 0; buffer_set < buffer_sets(); ++buffer_set) {
      copy(input_at(buffer_set), wanted_[at(matrix_of(buffer_set))].data(), nullptr);
    }
    check(cudaDeviceSynchronize());
  }
  std::vector<std::byte> made(int matrix, int steps) const {
    std::vector<std::byte> array;
    for (std::int64_t i = 0; i < spec_.elements; ++i) {
      const std::uint32_t bits = wanted_bits(i, matrix) + static_cast<std::uint32_t>(steps);
      const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
      array.insert(array.end(), bytes, bytes + spec_.element_bytes);
    }
    return array;
  }
  static void check(cudaError_t error) { profiling::check(error, "a toy"); }
  void copy(void* to, const void* from, cudaStream_t stream) const {
    check(cudaMemcpyAsync(to, from, spec_.bytes(), cudaMemcpyDefault, stream));
  }
  /// Sets `count` bytes of an output, `offset` bytes from its start.
  void set(int buffer_set, std::uint64_t offset, int byte, std::size_t count,
           cudaStream_t stream) const {
    check(
        cudaMemsetAsync(static_cast<std::byte*>(output(buffer_set)) + offset, byte, count, stream));
  }
  void* input_at(int buffer_set) const { return inputs_[at(buffer_set)].data(); }
  static std::size_t at(int buffer_set) { return static_cast<std::size_t>(buffer_set); }

  ToySpec spec_;
  std::vector<std::vector<std::byte>> wanted_, lower_, upper_;  ///< Indexed by matrix.
  std::vector<profiling::DeviceBuffer> inputs_;
  mutable std::map<int, profiling::DeviceBuffer> remembered_;  ///< Indexed by buffer set.
  mutable int launches_ = 0;
};

inline VariantInfo toy_kernel(const std::string& name, Contract contract = {}) {
  return {name, {}, "a toy", "tests/harness/toy_workload.hpp", contract};
}

inline VariantInfo deviating_toy(const std::string& name, const std::string& deviation) {
  return toy_kernel(name, DeclaredDeviation{lasting(deviation)});
}

inline VariantInfo bounded_toy(const std::string& name) {
  return toy_kernel(name, WithinBound{"sums in an order of its own"});
}

}  // namespace reprolab
