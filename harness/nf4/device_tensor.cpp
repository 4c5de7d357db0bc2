#include "harness/nf4/device_tensor.hpp"

#include "harness/device_compare.hpp"

namespace reprolab::nf4 {
namespace {

constexpr auto aligned = profiling::DeviceBuffer::aligned;

}  // namespace

DeviceTensor::DeviceTensor(const reference::QuantizedTensor& tensor, int offset,
                           std::uint64_t extra_bytes)
    : nested_(tensor.nested.has_value()) {
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

}  // namespace reprolab::nf4
