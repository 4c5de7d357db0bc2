// NF4 kernels on the CPU: the problems of their tests on a GPU, and the golden file.
#include "kernels/nf4/problem.hpp"

#include "harness/nf4/tensor.hpp"
#include "reference/mismatch_report.hpp"
#include "tests/kernels/nf4/problems.hpp"
#include "tests/kernels/on_cpu/checks.hpp"

namespace reprolab::on_cpu {
namespace {

using nf4::make_row;
using nf4::Problem;
using nf4::Tensor;
using reference::WeightType;

class Nf4Check {
 public:
  explicit Nf4Check(const std::string& kernel) : kernel_(kernel_named<Problem>(kernel)) {}

  const Tally& tally() const { return tally_; }

  /// With arrays that begin `offset` elements past an aligned address.
  void run(const Tensor& tensor, int offset = 0) {
    const auto& quantized = tensor.quantized;
    Placed<std::uint16_t> output(tensor.expected.size(), offset);
    Problem problem = nf4::host_problem(quantized, output.data());
    Placed<std::uint8_t> codes(quantized.codes, offset);
    Placed<float> absmax(quantized.absmax, offset);
    problem.codes = codes.data();
    if (!problem.is_nested()) {
      problem.absmax = absmax.data();
      return check(tensor, problem, output, offset);
    }
    Placed<std::uint8_t> scales(quantized.nested->codes, offset);
    Placed<float> map(quantized.nested->map, offset);
    Placed<float> second(quantized.nested->absmax, offset);
    problem.nested.codes = scales.data();
    problem.nested.map = map.data();
    problem.nested.absmax = second.data();
    check(tensor, problem, output, offset);
  }

 private:
  void check(const Tensor& tensor, const Problem& problem, Placed<std::uint16_t>& output,
             int offset) {
    const auto expected = expected_of(tensor);
    const auto describe = [&](const reference::Comparison& comparison) {
      const auto at = static_cast<std::size_t>(comparison.first_mismatch);
      return reference::describe_mismatch(comparison, tensor.quantized, expected[at],
                                          output.values()[at]);
    };
    on_cpu::check<Problem, std::uint16_t>(
        kernel_, problem, output, expected,
        fmt::format("{}, {} weights, offset {}", tensor.quantized.name, tensor.quantized.n, offset),
        describe, tally_);
  }

  std::vector<std::uint16_t> expected_of(const Tensor& tensor) const {
    const Contract<Problem>& contract = kernel_.contract;
    if (contract.kind != ContractKind::declared_deviation) return tensor.expected;
    std::vector<std::uint16_t> output(tensor.expected.size(), 0xffff);
    contract.deviation.expected_output(nf4::host_problem(tensor.quantized, output.data()), 0,
                                       tensor.quantized.n);
    return output;
  }

  const Kernel<Problem>& kernel_;
  Tally tally_;
};

/// Lengths past 100,000 take too long in every format.
void run_lengths(Nf4Check& check) {
  nf4::for_each_format([&](int block_size, WeightType type, bool nested) {
    const bool is_common = block_size == 64 && type == WeightType::fp16;
    for (const std::int64_t n : nf4::lengths) {
      if (is_common || n <= 100000) check.run(make_row(n, block_size, nested, type));
    }
  });
}

}  // namespace

Tally check_nf4(const std::string& kernel) {
  Nf4Check check(kernel);
  run_lengths(check);
  nf4::for_each_offset([&](const Tensor& tensor, int offset) { check.run(tensor, offset); });
  nf4::for_each_nested_scale([&](const Tensor& tensor) { check.run(tensor); });
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    check.run(nf4::every_code_under_every_scale(type, 17));
  }
  return check.tally();
}

}  // namespace reprolab::on_cpu
