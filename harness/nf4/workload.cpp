#include "harness/nf4/workload.hpp"

#include <algorithm>

#include "reference/nf4/checks.hpp"

namespace reprolab::nf4 {

ProblemFacts describe_problem(const std::string& name, const TensorSpec& spec,
                              const std::vector<std::string>& used_by) {
  nlohmann::json description = {{"name", name},
                                {"family", "nf4"},
                                {"n", spec.weights()},
                                {"rows", spec.rows},
                                {"columns", spec.columns},
                                {"block_size", spec.block_size},
                                {"nested", spec.nested},
                                {"output", reference::name(spec.output)},
                                {"models", used_by}};
  if (spec.data != CodeData::normal) description["data"] = nf4::name(spec.data);
  if (spec.offset != 0) description["offset"] = spec.offset;
  return {.name = name,
          .description = std::move(description),
          .elements = spec.weights(),
          .element_bytes = 2,
          .bytes_read = spec.bytes_read(),
          .bytes_written = spec.bytes_written()};
}

std::vector<Tensor> make_tensors(const TensorSpec& spec, std::uint64_t seed, int buffer_sets) {
  std::vector<Tensor> tensors;
  for (int matrix = 0; matrix < std::min(buffer_sets, distinct_matrices); ++matrix) {
    tensors.push_back(make_tensor(spec, seed + static_cast<std::uint64_t>(matrix)));
  }
  return tensors;
}

Nf4Workload::Nf4Workload(ProblemFacts facts, std::vector<Tensor> tensors, int buffer_sets,
                         int offset)
    : MatrixWorkload(std::move(facts)), tensors_(std::move(tensors)) {
  std::vector<DeviceTensor> inputs;
  for (const Tensor& tensor : tensors_) inputs.emplace_back(tensor.quantized, offset);
  add_buffer_sets(std::move(inputs), buffer_sets, offset);
}

Bounds Nf4Workload::bounds(int matrix, const std::string&) const {
  const auto& expected = tensors_.at(static_cast<std::size_t>(matrix)).expected;
  const auto bytes = std::as_bytes(std::span(expected));
  return {bytes, bytes};
}

std::string Nf4Workload::describe(int matrix, const reference::Comparison& comparison,
                                  std::uint32_t expected, std::uint32_t actual) const {
  const auto& quantized = tensors_.at(static_cast<std::size_t>(matrix)).quantized;
  return reference::describe_mismatch(comparison, quantized, static_cast<std::uint16_t>(expected),
                                      static_cast<std::uint16_t>(actual));
}

}  // namespace reprolab::nf4
