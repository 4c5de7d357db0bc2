// How a family's kernels are checked on the CPU: each problem between guards, with the threads of a
// block in both orders.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kernels/registry.hpp"
#include "reference/compare.hpp"

namespace reprolab::on_cpu {

/// A kernel violates its contract.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An array that begins `offset` elements past an aligned address, between guards.
template <class T>
class Placed {
 public:
  Placed(std::size_t count, int offset)
      : begin_(guard + static_cast<std::size_t>(offset) * sizeof(T)),
        bytes_(count * sizeof(T)),
        memory_(static_cast<std::byte*>(
            std::aligned_alloc(alignment, (begin_ + bytes_ + guard) / alignment * alignment))) {}
  Placed(std::span<const T> values, int offset) : Placed(values.size(), offset) {
    std::ranges::copy(values, data());
  }

  T* data() { return reinterpret_cast<T*>(memory_.get() + begin_); }
  std::span<const T> values() { return {data(), bytes_ / sizeof(T)}; }

  /// Fills the array with ones, which no correct output has, and the guards with a pattern.
  void poison() {
    std::memset(memory_.get(), pattern, begin_);
    std::memset(data(), 0xff, bytes_);
    std::memset(memory_.get() + begin_ + bytes_, pattern, guard / 2);
  }
  bool guards_are_intact() const {
    const auto intact = [](std::byte value) { return value == std::byte{pattern}; };
    return std::all_of(memory_.get(), memory_.get() + begin_, intact) &&
           std::all_of(memory_.get() + begin_ + bytes_, memory_.get() + begin_ + bytes_ + guard / 2,
                       intact);
  }

 private:
  static constexpr std::size_t guard = 65536, alignment = 256;
  static constexpr int pattern = 0xa5;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::size_t begin_, bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// The number of problems and outputs that were checked.
struct Tally {
  std::int64_t problems = 0, outputs = 0, unsupported = 0;
  std::string reason{};  ///< Of the first problem that the kernel does not support.
};

/// Checks one problem, unless the kernel does not support it. `describe(comparison)` describes the
/// difference. Throws Wrong.
template <class Problem, class Word, class Describe>
void check(const Kernel<Problem>& kernel, const Problem& problem, Placed<Word>& output,
           std::span<const Word> expected, const std::string& name, Describe describe,
           Tally& tally) {
  if (const Support support = kernel.supports(problem); !support.ok) {
    if (tally.unsupported++ == 0) tally.reason = support.reason;
    return;
  }
  for (const bool descending : {false, true}) {
    const std::string what =
        fmt::format("{}, threads {}", name, descending ? "descending" : "ascending");
    ::on_cpu::set_descending(descending);
    output.poison();
    if (const cudaError_t error = kernel.launch(problem, nullptr); error != cudaSuccess) {
      throw Wrong(fmt::format("{}: launch returns error {}", what, static_cast<int>(error)));
    }
    const auto comparison = reference::compare_bits(expected, output.values(), 1);
    if (!comparison.equal()) throw Wrong(what + ": " + describe(comparison));
    if (!output.guards_are_intact()) throw Wrong(what + ": writes outside its output");
  }
  ++tally.problems;
  tally.outputs += static_cast<std::int64_t>(expected.size());
}

Tally check_nf4(const std::string& kernel);
Tally check_transpose(const std::string& kernel);

}  // namespace reprolab::on_cpu
