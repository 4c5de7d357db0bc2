#include "harness/nf4/workload.hpp"

#include <algorithm>

#include "harness/device_checks.hpp"
#include "reference/nf4/checks.hpp"

namespace reprolab::nf4 {

DeviceTensor::DeviceTensor(const reference::QuantizedTensor& tensor, int offset,
                           std::uint64_t extra_bytes)
    : nested_(tensor.nested.has_value()) {
  constexpr auto aligned = profiling::DeviceBuffer::aligned;
  std::size_t end = 0;
  const auto placed = [&](std::size_t elements, std::size_t element_bytes) {
    const std::size_t at = aligned(end) + static_cast<std::size_t>(offset) * element_bytes;
    end = at + elements * element_bytes;
    return at;
  };
  at_.codes = placed(tensor.codes.size(), 1);
  if (nested_) {
    at_.scales = placed(tensor.nested->codes.size(), 1);
    at_.nested_map = placed(std::size(tensor.nested->map), sizeof(float));
    at_.nested_absmax = placed(tensor.nested->absmax.size(), sizeof(float));
  } else {
    at_.scales = placed(tensor.absmax.size(), sizeof(float));
  }
  at_.extra = extra_bytes == 0 ? end : aligned(end);
  memory_ = profiling::DeviceBuffer(at_.extra + extra_bytes);
  profiling::check(cudaMemset(data(), poison_byte, bytes()), "poisoning what lies between arrays");
  fill(tensor);
}

DeviceTensor::DeviceTensor(const DeviceTensor& other, cudaStream_t stream)
    : at_(other.at_), nested_(other.nested_), memory_(other.bytes()) {
  fill(other, stream);
}

void DeviceTensor::fill(const reference::QuantizedTensor& tensor) {
  on_host_ = host_problem(tensor, nullptr);
  const auto upload = [this](std::size_t at, const auto& array) {
    profiling::check(cudaMemcpy(data() + at, std::data(array), std::size(array) * sizeof(array[0]),
                                cudaMemcpyHostToDevice),
                     "copying a quantized matrix to the GPU");
  };
  upload(at_.codes, tensor.codes);
  if (nested_) {
    upload(at_.scales, tensor.nested->codes);
    upload(at_.nested_map, tensor.nested->map);
    upload(at_.nested_absmax, tensor.nested->absmax);
  } else {
    upload(at_.scales, tensor.absmax);
  }
}

void DeviceTensor::fill(const DeviceTensor& other, cudaStream_t stream) {
  on_host_ = other.on_host_;
  profiling::check(cudaMemcpyAsync(data(), other.data(), bytes(), cudaMemcpyDeviceToDevice, stream),
                   "copying a quantized matrix on the GPU");
}

Problem DeviceTensor::problem(void* output) const {
  Problem problem = on_host_;
  const auto floats_at = [this](std::size_t at) {
    return reinterpret_cast<const float*>(data() + at);
  };
  problem.codes = reinterpret_cast<const std::uint8_t*>(data() + at_.codes);
  problem.output = output;
  if (nested_) {
    problem.nested.codes = reinterpret_cast<const std::uint8_t*>(data() + at_.scales);
    problem.nested.map = floats_at(at_.nested_map);
    problem.nested.absmax = floats_at(at_.nested_absmax);
  } else {
    problem.absmax = floats_at(at_.scales);
  }
  return problem;
}

Problem without_memory(const TensorSpec& spec) {
  // Never read; only the addresses matter.
  alignas(256) static constexpr float scales[max_offset + 1] = {};
  alignas(256) static std::uint16_t weights[max_offset + 1];
  const auto* codes = reinterpret_cast<const std::uint8_t*>(scales) + spec.offset;
  Problem problem;
  problem.codes = codes;
  problem.absmax = spec.nested ? nullptr : scales + spec.offset;
  problem.output = weights + spec.offset;
  problem.table = reference::standard_table;
  problem.n = spec.weights();
  problem.block_size = spec.block_size;
  problem.output_type = output_type(spec.output);
  if (spec.nested) problem.nested.codes = codes;
  return problem;
}

ProblemFacts describe_problem(const std::string& name, const TensorSpec& spec,
                              const std::vector<std::string>& used_by) {
  Description description = {{"name", name},
                             {"family", "nf4"},
                             {"n", spec.weights()},
                             {"rows", spec.rows},
                             {"columns", spec.columns},
                             {"block_size", spec.block_size},
                             {"nested", spec.nested},
                             {"output", std::string(reference::name(spec.output))},
                             {"models", used_by}};
  if (spec.data != CodeData::normal) description["data"] = std::string(nf4::name(spec.data));
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
