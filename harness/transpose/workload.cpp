#include "harness/transpose/workload.hpp"

#include <stdexcept>

#include "harness/transpose/device_matrix.hpp"
#include "reference/parallel.hpp"

namespace reprolab::transpose {
namespace {

bool fits_host(const MatrixSpec& spec) { return spec.elements() <= max_on_host; }

ProblemFacts describe_problem(const MatrixSpec& spec) {
  const auto bytes = static_cast<std::uint64_t>(spec.elements()) * sizeof(float);
  return {.name = spec.name(),
          .description = {{"name", spec.name()},
                          {"family", "transpose"},
                          {"n", spec.elements()},
                          {"rows", spec.rows},
                          {"columns", spec.columns},
                          {"in_stride", spec.input().stride},
                          {"out_stride", spec.output().stride},
                          {"data", spec.data == Data::random ? "random" : "constant"},
                          {"checked_on", fits_host(spec) ? "host" : "device"}},
          .elements = spec.output().elements(),
          .element_bytes = sizeof(float),
          .bytes_read = bytes,
          .bytes_written = bytes};
}

std::uint64_t bytes_of(const reference::MatrixShape& shape) {
  return static_cast<std::uint64_t>(shape.elements()) * sizeof(float);
}

Problem problem_of(const MatrixSpec& spec, const float* input, float* output) {
  return {.input = input,
          .output = output,
          .rows = spec.rows,
          .columns = spec.columns,
          .in_stride = spec.input().stride,
          .out_stride = spec.output().stride};
}

}  // namespace

PlannedProblem plan(const MatrixSpec& spec) {
  return {.facts = describe_problem(spec),
          .buffer_set_device_bytes = bytes_of(spec.input()) + bytes_of(spec.output()) + guard_bytes,
          .host_bytes = fits_host(spec) ? bytes_of(spec.input()) + bytes_of(spec.output()) : 0,
          .timed = spec.data == Data::random,
          .supports =
              [spec](const std::string& kernel) {
                return kernel_named<Problem>(kernel).supports(problem_of(spec, nullptr, nullptr));
              },
          .prepare = [spec](int buffer_sets, std::uint64_t seed) -> std::unique_ptr<Workload> {
            return std::make_unique<TransposeWorkload>(spec, seed, buffer_sets);
          }};
}

TransposeWorkload::TransposeWorkload(const MatrixSpec& spec, std::uint64_t seed, int buffer_sets)
    : spec_(spec), seed_(seed), facts_(describe_problem(spec)) {
  if (fits_host(spec)) on_host_ = make_matrix(spec, seed);
  for (int buffer_set = 0; buffer_set < buffer_sets; ++buffer_set) {
    inputs_.emplace_back(bytes_of(spec.input()));
    outputs_.emplace_back(bytes_of(spec.output()) + guard_bytes);
  }
  fill_inputs();
}

void TransposeWorkload::fill_inputs() {
  for (int buffer_set = 0; buffer_set < buffer_sets(); ++buffer_set) {
    fill_input(inputs_[static_cast<std::size_t>(buffer_set)].as<std::uint32_t>(), spec_,
               seed_of(matrix_of(buffer_set)), nullptr);
  }
  profiling::check(cudaDeviceSynchronize(), "filling the matrices");
}

Problem TransposeWorkload::problem(int buffer_set) const {
  return problem_of(spec_, inputs_[static_cast<std::size_t>(buffer_set)].as<float>(),
                    static_cast<float*>(output(buffer_set)));
}

Support TransposeWorkload::supports(const std::string& kernel) const {
  return kernel_named<Problem>(kernel).supports(problem(0));
}

cudaError_t TransposeWorkload::launch(const std::string& kernel, int buffer_set,
                                      cudaStream_t stream) const {
  return kernel_named<Problem>(kernel).launch(problem(buffer_set), stream);
}

std::span<const std::byte> TransposeWorkload::input(int buffer_set) const {
  const auto& buffer = inputs_[static_cast<std::size_t>(buffer_set)];
  return {buffer.as<std::byte>(), buffer.bytes()};
}

std::span<const std::byte> TransposeWorkload::expected() const {
  return on_host_ ? std::as_bytes(std::span(on_host_->expected)) : std::span<const std::byte>{};
}

void TransposeWorkload::write_expected(int matrix, void* to, cudaStream_t stream) const {
  if (matrix > 0 || !on_host_) {
    return fill_expected(static_cast<std::uint32_t*>(to), spec_, seed_of(matrix), stream);
  }
  profiling::check(cudaMemcpyAsync(to, on_host_->expected.data(), facts_.output_bytes(),
                                   cudaMemcpyHostToDevice, stream),
                   "copying the reference's output to the GPU");
}

void TransposeWorkload::write_declared(const std::string& kernel,
                                       std::span<std::byte> output) const {
  if (!on_host_) throw std::logic_error(kernel + ": no declared output to make here");
  const auto& declared = declared_deviation<Problem>(kernel);
  const Problem host = problem_of(spec_, reinterpret_cast<const float*>(on_host_->input.data()),
                                  reinterpret_cast<float*>(output.data()));
  reference::parallel_for(facts_.elements, 1 << 20, 0, [&](std::int64_t begin, std::int64_t end) {
    declared.expected_output(host, begin, end);
  });
}

std::string TransposeWorkload::describe(int, const reference::Comparison& found,
                                        std::uint32_t expected, std::uint32_t actual) const {
  return describe_mismatch(found, spec_, expected, actual);
}

}  // namespace reprolab::transpose
