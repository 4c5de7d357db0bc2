// The sweep's families: forms of a copy, and forms that move the bytes of a dequantization and of a
// transposition. Inputs and expected outputs are made on the device.
#include "harness/family.hpp"

#include <fmt/core.h>

#include <type_traits>

#include "experiments/ceilings/traffic.hpp"

namespace reprolab::ceilings {
namespace {

/// Every input's memory contains the ceilings' pattern; its start differs between the two matrices
/// by this number of bytes.
constexpr std::uint64_t step_bytes = 128;

/// The problem of one size, named as "448MiB".
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
class TrafficWorkload : public FamilyWorkload<Problem> {
 public:
  TrafficWorkload(const ProblemFacts& facts, int buffer_sets) : FamilyWorkload<Problem>(facts) {
    for (int buffer_set = 0; buffer_set < buffer_sets; ++buffer_set) {
      const auto& input = inputs_.emplace_back(facts.bytes_read + distinct_matrices * step_bytes);
      profiling::ceilings::write_only(input.data(), input.bytes(), nullptr);
      this->add_output();
    }
    profiling::check(cudaDeviceSynchronize(), "filling the inputs");
  }

  Problem problem(const std::string&, int buffer_set) const override {
    Problem problem{};
    problem.from = content(buffer_set, this->matrix_of(buffer_set));
    problem.read_bytes = this->facts().bytes_read;
    problem.to = static_cast<std::uint8_t*>(this->output(buffer_set));
    problem.write_bytes = this->facts().bytes_written;
    return problem;
  }
  std::span<const std::byte> input(int buffer_set) const override {
    const auto& buffer = inputs_[static_cast<std::size_t>(buffer_set)];
    return {buffer.template as<std::byte>(), buffer.bytes()};
  }
  Bounds bounds(int, const std::string&) const override { return {}; }
  void write_expected(int matrix, void* to, cudaStream_t stream) const override {
    const std::uint64_t bytes = this->facts().output_bytes();
    if (!std::is_same_v<Problem, Copy>) return profiling::ceilings::write_only(to, bytes, stream);
    profiling::check(
        cudaMemcpyAsync(to, content(0, matrix), bytes, cudaMemcpyDeviceToDevice, stream),
        "writing the expected output");
  }
  std::string describe(int matrix, const reference::Comparison& comparison, std::uint32_t expected,
                       std::uint32_t actual) const override {
    return fmt::format(
        "{} of {} words differ in input {}; first at index {}: expected {:#010x}, actual {:#010x}",
        comparison.mismatches, this->facts().elements, matrix, comparison.first_mismatch, expected,
        actual);
  }

 private:
  void fill_inputs() override {}  // content() advances to the other matrix
  const std::uint8_t* content(int buffer_set, int matrix) const {
    const auto& buffer = inputs_[static_cast<std::size_t>(buffer_set)];
    return buffer.template as<std::uint8_t>() + static_cast<std::uint64_t>(matrix) * step_bytes;
  }

  std::vector<profiling::DeviceBuffer> inputs_;
};

template <class Problem>
class TrafficFamily : public Family {
 public:
  TrafficFamily()
      : Family({.name = Problem::family,
                .element = "word",
                .types = {{"uint32", 4}},
                .moves = Problem::moves,
                .baseline = Problem::ceiling}) {}

  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }
  std::vector<std::string> data() const override { return {"pattern"}; }
  std::vector<PlannedProblem> problems(const FreeMemory&,
                                       const std::vector<std::string>&) const override {
    std::vector<PlannedProblem> planned;
    for (const std::uint64_t mib : sizes_mib) {
      const auto facts = describe_problem<Problem>(mib << 20);
      planned.push_back(
          {.facts = facts,
           .buffer_set_device_bytes = facts.bytes_read + facts.bytes_written + guard_bytes,
           .supports =
               [](const std::string& kernel) {
                 return kernel_named<Problem>(kernel).supports(Problem{});
               },
           .prepare = [facts](int buffer_sets, std::uint64_t) -> std::unique_ptr<Workload> {
             return std::make_unique<TrafficWorkload<Problem>>(facts, buffer_sets);
           }});
    }
    return planned;
  }
};

TrafficFamily<Copy> copies;
TrafficFamily<Mixed> mixtures;
TrafficFamily<Even> evens;

}  // namespace
}  // namespace reprolab::ceilings
