#include "harness/transpose/workload.hpp"

namespace reprolab::transpose {
namespace {

constexpr int threads = 256;
constexpr unsigned blocks = 8192;  // more than enough to fill any GPU

/// Fills one array. If `transposed`, its rows are the columns of the matrix of values.
__global__ void fill(std::uint32_t* array, reference::MatrixShape shape, bool transposed, Data data,
                     std::int64_t columns, std::uint64_t seed, std::int64_t elements) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < elements; i += step) {
    const std::int64_t row = i / shape.stride, column = i % shape.stride;
    array[i] = column >= shape.columns ? gap_bits
               : transposed            ? value_bits(data, columns, column, row, seed)
                                       : value_bits(data, columns, row, column, seed);
  }
}

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

void fill_matrix(std::uint32_t* array, const MatrixSpec& spec, bool transposed, std::uint64_t seed,
                 cudaStream_t stream) {
  const auto shape = transposed ? spec.output() : spec.input();
  if (shape.elements() == 0) return;
  fill<<<blocks, threads, 0, stream>>>(array, shape, transposed, spec.data, spec.columns, seed,
                                       shape.elements());
  profiling::check(cudaGetLastError(), "filling a matrix");
}

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
    : FamilyWorkload(describe_problem(spec)), spec_(spec), seed_(seed) {
  if (fits_host(spec)) on_host_ = make_matrix(spec, seed);
  for (int buffer_set = 0; buffer_set < buffer_sets; ++buffer_set) {
    inputs_.emplace_back(bytes_of(spec.input()));
    add_output();
  }
  fill_inputs();
}

void TransposeWorkload::fill_inputs() {
  for (int buffer_set = 0; buffer_set < buffer_sets(); ++buffer_set) {
    fill_matrix(inputs_[static_cast<std::size_t>(buffer_set)].as<std::uint32_t>(), spec_, false,
                seed_of(matrix_of(buffer_set)), nullptr);
  }
  profiling::check(cudaDeviceSynchronize(), "filling the matrices");
}

Problem TransposeWorkload::problem(const std::string&, int buffer_set) const {
  return problem_of(spec_, inputs_[static_cast<std::size_t>(buffer_set)].as<float>(),
                    static_cast<float*>(output(buffer_set)));
}

Problem TransposeWorkload::problem_on_host(void* output) const {
  return problem_of(spec_, reinterpret_cast<const float*>(on_host_.value().input.data()),
                    static_cast<float*>(output));
}

std::span<const std::byte> TransposeWorkload::input(int buffer_set) const {
  const auto& buffer = inputs_[static_cast<std::size_t>(buffer_set)];
  return {buffer.as<std::byte>(), buffer.bytes()};
}

Bounds TransposeWorkload::bounds(int matrix, const std::string&) const {
  if (matrix > 0 || !on_host_) return {};
  const auto bytes = std::as_bytes(std::span(on_host_->expected));
  return {bytes, bytes};
}

void TransposeWorkload::write_expected(int matrix, void* to, cudaStream_t stream) const {
  if (matrix == 0 && on_host_) return Workload::write_expected(matrix, to, stream);
  fill_matrix(static_cast<std::uint32_t*>(to), spec_, true, seed_of(matrix), stream);
}

}  // namespace reprolab::transpose
