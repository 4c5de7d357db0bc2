#include "experiments/nf4/workload.hpp"

#include <stdexcept>

#include "reference/parallel.hpp"

namespace reprolab::nf4 {
ProblemFacts describe_problem(const std::string& name, const TensorSpec& spec,
                              const std::vector<std::string>& used_by) {
  return {.name = name,
          .description = {{"name", name},
                          {"family", "nf4"},
                          {"n", spec.weights()},
                          {"rows", spec.rows},
                          {"columns", spec.columns},
                          {"block_size", spec.block_size},
                          {"nested", spec.nested},
                          {"output", reference::name(spec.output)},
                          {"models", used_by}},
          .elements = spec.weights(),
          .element_bytes = 2,
          .bytes_read = spec.bytes_read(),
          .bytes_written = spec.bytes_written()};
}

Nf4Workload::Nf4Workload(ProblemFacts facts, Tensor tensor, int slots)
    : facts_(std::move(facts)), tensor_(std::move(tensor)) {
  for (int slot = 0; slot < slots; ++slot) {
    inputs_.emplace_back(tensor_.quantized);
    outputs_.emplace_back(facts_.output_bytes());
  }
}

Support Nf4Workload::supports(const std::string& kernel) const {
  return kernel_named<Problem>(kernel).supports(inputs_[0].problem(outputs_[0].data()));
}

cudaError_t Nf4Workload::launch(const std::string& kernel, int slot, cudaStream_t stream) const {
  return kernel_named<Problem>(kernel).launch(input(slot).problem(output(slot)), stream);
}

Traffic Nf4Workload::traffic(int slot) const { return {input(slot).data(), output(slot)}; }

std::span<const std::byte> Nf4Workload::expected() const {
  return std::as_bytes(std::span(tensor_.expected));
}

void Nf4Workload::emulate(const std::string& kernel, std::span<std::byte> output) const {
  const auto emulate = kernel_named<Problem>(kernel).contract.emulate;
  if (emulate == nullptr) {
    throw std::logic_error(kernel + ": declares a deviation without emulating it");
  }
  const Problem host = host_problem(tensor_.quantized, output.data());
  reference::parallel_for(host.n, 1 << 20, 0,
                          [&](std::int64_t begin, std::int64_t end) { emulate(host, begin, end); });
}

std::string Nf4Workload::describe(const reference::Comparison& found, std::uint32_t expected,
                                  std::uint32_t actual) const {
  return reference::describe_mismatch(found, facts_.elements, reference::view_of(tensor_.quantized),
                                      static_cast<std::uint16_t>(expected),
                                      static_cast<std::uint16_t>(actual));
}

}  // namespace reprolab::nf4
