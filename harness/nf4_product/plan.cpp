#include <algorithm>

#include "harness/nf4_product/problems.hpp"
#include "harness/nf4_product/workload.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4_product {
namespace {

ProblemFacts describe_problem(const ProductSpec& spec, const std::vector<std::string>& used_by) {
  nlohmann::json description = {{"name", spec.name()},
                                {"family", "nf4_product"},
                                {"n", spec.elements()},
                                {"batch", spec.m},
                                {"rows", spec.n()},
                                {"columns", spec.k()},
                                {"block_size", spec.weights.block_size},
                                {"nested", spec.weights.nested},
                                {"output", reference::name(spec.weights.output)},
                                {"bias", spec.bias},
                                {"models", used_by}};
  if (spec.data != InputData::normal) description["data"] = name(spec.data);
  return {.name = spec.name(),
          .description = std::move(description),
          .elements = spec.elements(),
          .element_bytes = 2,
          .bytes_read = spec.bytes_read(),
          .bytes_written = spec.bytes_written()};
}

/// Of all kernels that run the problem, which all have one.
std::uint64_t workspace_bytes(const ProductSpec& spec) {
  const Problem problem = without_memory(spec);
  std::uint64_t bytes = 0;
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    if (!offer(kernel, problem, problem.input).support.ok) continue;
    bytes += guard_bytes + (kernel.workspace_bytes ? kernel.workspace_bytes(problem) : 0);
  }
  return bytes;
}

}  // namespace

PlannedProblem plan(const ProductSpec& spec, const std::vector<std::string>& used_by) {
  const auto facts = describe_problem(spec, used_by);
  const std::uint64_t weights = 2 * static_cast<std::uint64_t>(spec.weights.weights());
  return {
      .facts = facts,
      .buffer_set_device_bytes = facts.bytes_read + weights + facts.bytes_written + guard_bytes,
      .seldom_read_bytes = weights,
      .shared_device_bytes = [spec] { return workspace_bytes(spec); },
      .host_bytes = distinct_matrices * (facts.bytes_read + weights + facts.bytes_written),
      .timed = spec.data == InputData::normal,
      .supports =
          [spec](const std::string& kernel) {
            const Problem problem = without_memory(spec);
            return offer(kernel_named<Problem>(kernel), problem, problem.input).support;
          },
      .prepare = [facts, spec](int buffer_sets, std::uint64_t seed) -> std::unique_ptr<Workload> {
        std::vector<ProductData> products;
        for (int matrix = 0; matrix < std::min(buffer_sets, distinct_matrices); ++matrix) {
          products.push_back(make_product(spec, seed + static_cast<std::uint64_t>(matrix)));
        }
        return std::make_unique<ProductWorkload>(facts, std::move(products), buffer_sets);
      }};
}

}  // namespace reprolab::nf4_product
