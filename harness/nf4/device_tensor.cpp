#include "harness/nf4/device_tensor.hpp"

namespace reprolab::nf4 {
namespace {

constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t unit = profiling::DeviceBuffer::alignment;
  return (bytes + unit - 1) / unit * unit;
}

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

DeviceTensor::DeviceTensor(const reference::QuantizedTensor& tensor, int offset,
                           std::uint64_t extra_bytes)
    : nested_(tensor.nested.has_value()) {
  std::size_t end = 0;
  const auto placed = [&](std::size_t elements, std::size_t element_bytes) {
    const std::size_t at = aligned(end) + static_cast<std::size_t>(offset) * element_bytes;
    end = at + elements * element_bytes;
    return at;
  };
  codes_at_ = placed(tensor.codes.size(), 1);
  if (nested_) {
    scales_at_ = placed(tensor.nested->codes.size(), 1);
    nested_map_at_ = placed(std::size(tensor.nested->map), sizeof(float));
    nested_absmax_at_ = placed(tensor.nested->absmax.size(), sizeof(float));
  } else {
    scales_at_ = placed(tensor.absmax.size(), sizeof(float));
  }
  extra_at_ = extra_bytes == 0 ? end : aligned(end);
  memory_ = profiling::DeviceBuffer(extra_at_ + extra_bytes);
  fill(tensor);
}

void DeviceTensor::fill(const reference::QuantizedTensor& tensor) {
  at_offsets_ = without_pointers(tensor);
  const auto upload = [this](std::size_t at, const void* from, std::size_t bytes) {
    profiling::check(cudaMemcpy(data() + at, from, bytes, cudaMemcpyHostToDevice),
                     "copying a quantized matrix to the GPU");
  };
  upload(codes_at_, tensor.codes.data(), tensor.codes.size());
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
    : codes_at_(other.codes_at_),
      scales_at_(other.scales_at_),
      nested_map_at_(other.nested_map_at_),
      nested_absmax_at_(other.nested_absmax_at_),
      extra_at_(other.extra_at_),
      nested_(other.nested_),
      memory_(other.bytes()) {
  fill(other, stream);
}

Problem DeviceTensor::problem(void* output) const {
  Problem problem = at_offsets_;
  problem.codes = reinterpret_cast<const std::uint8_t*>(data() + codes_at_);
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
  // Never read. Only the addresses matter.
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
