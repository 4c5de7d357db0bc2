// Shared by the tests of the NF4 kernels: tensors, the kernels, and how one is run on a tensor.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/nf4/tensor.hpp"
#include "harness/nf4/workload.hpp"
#include "kernels/nf4/problem.hpp"
#include "reference/float16.hpp"
#include "reference/nf4/nf4.hpp"
#include "tests/kernels/testing.hpp"

namespace reprolab::nf4 {

/// Ends and interiors of every unit that a kernel works in: byte, block, warp, tile, grid.
inline constexpr std::int64_t lengths[] = {1,   2,    31,   63,   64,   65,   127,   511,    512,
                                           513, 1023, 1024, 1025, 2047, 4097, 65537, 1000003};
inline constexpr int block_sizes[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};

inline Tensor make_row(std::int64_t n, int block_size = 64, bool nested = false,
                       reference::WeightType type = reference::WeightType::fp16,
                       std::uint64_t seed = 1) {
  return make_tensor(
      {.rows = 1, .columns = n, .block_size = block_size, .nested = nested, .output = type}, seed);
}

/// Each of the 16 codes, twice, under scales of every kind: all fp16 and bf16 values, with all
/// exponents of fp32, subnormals, infinities and NaNs, and bit patterns of fp32 all over.
inline Tensor every_code_under_every_scale(reference::WeightType type) {
  Tensor tensor;
  reference::QuantizedTensor& quantized = tensor.quantized;
  for (const auto narrow : {reference::WeightType::fp16, reference::WeightType::bf16}) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
      quantized.absmax.push_back(reference::widen(narrow, static_cast<std::uint16_t>(bits)));
    }
  }
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65519) {
    quantized.absmax.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  quantized.name = "every code under every scale";
  quantized.type = type;
  quantized.block_size = 32;
  quantized.n = 32 * std::ssize(quantized.absmax);
  quantized.shape = {1, quantized.n};
  for (std::int64_t byte = 0; byte < quantized.n / 2; ++byte) {
    const auto code = static_cast<unsigned>(2 * byte % 16);
    quantized.codes.push_back(static_cast<std::uint8_t>(code << 4 | (code + 1)));
  }
  tensor.expected = reference::dequantize(quantized);
  return tensor;
}

inline std::vector<VariantInfo> registered_kernels() { return kernels_of_files<Problem>(); }

/// The names of the bit-exact kernels.
inline std::vector<std::string> exact_kernels() {
  std::vector<std::string> names;
  for (const VariantInfo& kernel : registered_kernels()) {
    if (!kernel.contract.deviates()) names.push_back(kernel.name);
  }
  return names;
}

/// Facts about a hand-made tensor.
inline ProblemFacts facts_of(const Tensor& tensor) {
  return {.name = tensor.quantized.name,
          .description = {{"name", tensor.quantized.name}, {"family", "nf4"}},
          .elements = tensor.quantized.n,
          .element_bytes = 2,
          .bytes_read = tensor.quantized.codes.size() + 4 * tensor.quantized.absmax.size(),
          .bytes_written = 2 * tensor.expected.size()};
}

/// The declared output of `kernel` for `tensor`; unwritten elements are poison.
inline std::vector<std::uint16_t> declared_output(const VariantInfo& kernel, const Tensor& tensor) {
  std::vector<std::uint16_t> output(tensor.expected.size(), 0xffff);
  kernel_named<Problem>(kernel.name)
      .expected_output(host_problem(tensor.quantized, output.data()), 0, tensor.quantized.n);
  return output;
}

/// The outcome that `kernel` must have on `tensor`, by its `supports` and its contract.
inline Outcome promised(const VariantInfo& kernel, const Tensor& tensor) {
  if (!kernel_named<Problem>(kernel.name).supports(host_problem(tensor.quantized, nullptr)).ok) {
    return Outcome::unsupported;
  }
  if (!kernel.contract.deviates()) return Outcome::bit_exact;
  // Compares bits, so that NaN equals itself.
  return declared_output(kernel, tensor) == tensor.expected ? Outcome::bit_exact
                                                            : Outcome::deviation_as_declared;
}

/// Tools of the verification of tensors, once per test.
class Proof : public reprolab::Proof {
 public:
  using reprolab::Proof::verify;
  Verification verify(const VariantInfo& kernel, const Tensor& tensor, int buffer_sets = 1) const {
    const std::vector<Tensor> tensors(
        static_cast<std::size_t>(std::min(buffer_sets, distinct_matrices)), tensor);
    return verify(kernel, Nf4Workload(facts_of(tensor), tensors, buffer_sets));
  }

  /// Fails the test unless `kernel`'s outcome on `tensor` is the one that its contract promises.
  void expect_promised(const VariantInfo& kernel, const Tensor& tensor,
                       const std::string& problem) const {
    const Verification verdict = verify(kernel, tensor);
    EXPECT_EQ(name(verdict.outcome), name(promised(kernel, tensor)))
        << kernel.name << " on " << problem << ": " << verdict.reason;
  }
};

}  // namespace reprolab::nf4
