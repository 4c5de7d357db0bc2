#include "experiments/nf4/device_tensor.hpp"

namespace reprolab::nf4 {
namespace {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Converts the reference's weight type to the kernels' output type.
OutputType output_type(reference::WeightType type) {
  return type == reference::WeightType::fp16 ? OutputType::fp16 : OutputType::bf16;
}

Problem without_pointers(const reference::QuantizedTensor& tensor) {
  Problem problem;
  problem.table = tensor.table;
  problem.n = tensor.n;
  problem.block_size = tensor.block_size;
  problem.output_type = output_type(tensor.type);
  if (tensor.nested) {
    problem.nested.offset = tensor.nested->offset;
    problem.nested.block_size = tensor.nested->block_size;
  }
  return problem;
}

}  // namespace

DeviceTensor::DeviceTensor(const reference::QuantizedTensor& tensor)
    : nested_(tensor.nested.has_value()) {
  scales_at_ = aligned(tensor.codes.size());
  const std::size_t scale_bytes =
      nested_ ? tensor.nested->codes.size() : tensor.absmax.size() * sizeof(float);
  nested_map_at_ = scales_at_ + aligned(scale_bytes);
  nested_absmax_at_ = nested_map_at_ + (nested_ ? aligned(sizeof(tensor.nested->map)) : 0);
  const std::size_t nested_bytes = nested_ ? tensor.nested->absmax.size() * sizeof(float) : 0;
  memory_ = profiling::DeviceBuffer(nested_absmax_at_ + nested_bytes);
  fill(tensor);
}

void DeviceTensor::fill(const reference::QuantizedTensor& tensor) {
  at_offsets_ = without_pointers(tensor);
  const auto upload = [this](std::size_t at, const void* from, std::size_t bytes) {
    profiling::check(cudaMemcpy(data() + at, from, bytes, cudaMemcpyHostToDevice),
                     "copying a quantized matrix to the GPU");
  };
  upload(0, tensor.codes.data(), tensor.codes.size());
  if (nested_) {
    const auto& nested = *tensor.nested;
    upload(scales_at_, nested.codes.data(), nested.codes.size());
    upload(nested_map_at_, nested.map.data(), sizeof(nested.map));
    upload(nested_absmax_at_, nested.absmax.data(), nested.absmax.size() * sizeof(float));
  } else {
    upload(scales_at_, tensor.absmax.data(), tensor.absmax.size() * sizeof(float));
  }
}

void DeviceTensor::fill(const DeviceTensor& other, cudaStream_t stream) {
  at_offsets_ = other.at_offsets_;
  profiling::check(cudaMemcpyAsync(data(), other.data(), bytes(), cudaMemcpyDeviceToDevice, stream),
                   "copying a quantized matrix on the GPU");
}

DeviceTensor::DeviceTensor(const DeviceTensor& other, cudaStream_t stream)
    : scales_at_(other.scales_at_),
      nested_map_at_(other.nested_map_at_),
      nested_absmax_at_(other.nested_absmax_at_),
      nested_(other.nested_),
      memory_(other.bytes()) {
  fill(other, stream);
}

Problem DeviceTensor::problem(void* output) const {
  Problem problem = at_offsets_;
  problem.codes = reinterpret_cast<const std::uint8_t*>(data());
  problem.output = output;
  if (nested_) {
    problem.nested.codes = reinterpret_cast<const std::uint8_t*>(data() + scales_at_);
    problem.nested.map = reinterpret_cast<const float*>(data() + nested_map_at_);
    problem.nested.absmax = reinterpret_cast<const float*>(data() + nested_absmax_at_);
  } else {
    problem.absmax = reinterpret_cast<const float*>(data() + scales_at_);
  }
  return problem;
}

Problem without_memory(const TensorSpec& spec) {
  alignas(256) static constexpr std::uint8_t never_read = 0;
  Problem problem;
  problem.table = reference::standard_table;
  problem.n = spec.weights();
  problem.block_size = spec.block_size;
  problem.output_type = output_type(spec.output);
  if (spec.nested) problem.nested.codes = &never_read;
  return problem;
}

Problem host_problem(const reference::QuantizedTensor& tensor, void* output) {
  Problem problem = without_pointers(tensor);
  problem.codes = tensor.codes.data();
  problem.output = output;
  if (tensor.nested) {
    problem.nested.codes = tensor.nested->codes.data();
    problem.nested.map = tensor.nested->map.data();
    problem.nested.absmax = tensor.nested->absmax.data();
  } else {
    problem.absmax = tensor.absmax.data();
  }
  return problem;
}

}  // namespace reprolab::nf4
