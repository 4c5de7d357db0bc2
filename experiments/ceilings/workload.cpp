#include "experiments/ceilings/workload.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <type_traits>

namespace reprolab::ceilings {
namespace {

/// Every input's memory holds the ceilings' pattern; what is read of it begins so many bytes later
/// for the one matrix than for the other.
constexpr std::uint64_t step_bytes = 128;

template <class Problem>
ProblemFacts describe_problem(std::uint64_t write_bytes) {
  const std::string name = fmt::format("{}/{}MiB", Problem::family, write_bytes >> 20);
  return {.name = name,
          .description = {{"name", name},
                          {"family", Problem::family},
                          {"n", write_bytes / 4},
                          {"output_mib", write_bytes >> 20}},
          .elements = static_cast<std::int64_t>(write_bytes / 4),
          .element_bytes = 4,
          .bytes_read = Problem::read_of(write_bytes),
          .bytes_written = write_bytes};
}

template <class Problem>
class TrafficWorkload : public Workload {
 public:
  TrafficWorkload(std::uint64_t write_bytes, int buffer_sets)
      : facts_(describe_problem<Problem>(write_bytes)) {
    for (int buffer_set = 0; buffer_set < buffer_sets; ++buffer_set) {
      const auto& input = inputs_.emplace_back(facts_.bytes_read + distinct_matrices * step_bytes);
      profiling::ceilings::write_only(input.data(), input.bytes(), nullptr);
      outputs_.emplace_back(write_bytes + guard_bytes);
    }
    profiling::check(cudaDeviceSynchronize(), "filling the inputs");
  }

  const ProblemFacts& facts() const override { return facts_; }
  int buffer_sets() const override { return static_cast<int>(outputs_.size()); }
  Support supports(const std::string& kernel) const override {
    return kernel_named<Problem>(kernel).supports(problem(0));
  }
  cudaError_t launch(const std::string& kernel, int buffer_set,
                     cudaStream_t stream) const override {
    return kernel_named<Problem>(kernel).launch(problem(buffer_set), stream);
  }
  void* output(int buffer_set) const override {
    return outputs_[static_cast<std::size_t>(buffer_set)].data();
  }
  std::span<const std::byte> input(int buffer_set) const override {
    const auto& buffer = inputs_[static_cast<std::size_t>(buffer_set)];
    return {buffer.as<std::byte>(), buffer.bytes()};
  }
  std::span<const std::byte> expected() const override { return {}; }
  void write_expected(int matrix, void* to, cudaStream_t stream) const override {
    if (!std::is_same_v<Problem, Copy>) {
      return profiling::ceilings::write_only(to, facts_.output_bytes(), stream);
    }
    profiling::check(cudaMemcpyAsync(to, content(0, matrix), facts_.output_bytes(),
                                     cudaMemcpyDeviceToDevice, stream),
                     "writing the expected output");
  }
  void write_declared(const std::string& kernel, std::span<std::byte>) const override {
    throw std::logic_error(kernel + ": no form of the sweep declares a deviation");
  }
  std::string describe(int matrix, const reference::Comparison& found, std::uint32_t expected,
                       std::uint32_t actual) const override {
    return fmt::format(
        "{} of {} words differ in input {}; first at index {}: expected {:#010x}, actual {:#010x}",
        found.mismatches, facts_.elements, matrix, found.first_mismatch, expected, actual);
  }

 private:
  void fill_inputs() override {}  // content() goes on to the other matrix
  const std::uint8_t* content(int buffer_set, int matrix) const {
    const auto& buffer = inputs_[static_cast<std::size_t>(buffer_set)];
    return buffer.template as<std::uint8_t>() + static_cast<std::uint64_t>(matrix) * step_bytes;
  }
  Problem problem(int buffer_set) const {
    Problem problem{};
    problem.from = content(buffer_set, matrix_of(buffer_set));
    problem.read_bytes = facts_.bytes_read;
    problem.to = static_cast<std::uint8_t*>(output(buffer_set));
    problem.write_bytes = facts_.bytes_written;
    return problem;
  }

  ProblemFacts facts_;
  std::vector<profiling::DeviceBuffer> inputs_, outputs_;
};

}  // namespace

template <class Problem>
PlannedProblem plan(std::uint64_t write_bytes) {
  const ProblemFacts facts = describe_problem<Problem>(write_bytes);
  return {.facts = facts,
          .buffer_set_device_bytes = facts.bytes_read + facts.bytes_written + guard_bytes,
          .supports =
              [](const std::string& kernel) {
                return kernel_named<Problem>(kernel).supports(Problem{});
              },
          .prepare = [write_bytes](int buffer_sets, std::uint64_t) -> std::unique_ptr<Workload> {
            return std::make_unique<TrafficWorkload<Problem>>(write_bytes, buffer_sets);
          }};
}

template PlannedProblem plan<Copy>(std::uint64_t write_bytes);
template PlannedProblem plan<Mixed>(std::uint64_t write_bytes);
template PlannedProblem plan<Even>(std::uint64_t write_bytes);

}  // namespace reprolab::ceilings
