#include "harness/nf4_product/workload.hpp"

#include <algorithm>

#include "kernels/registry.hpp"
#include "profiling/basics.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr auto aligned = profiling::DeviceBuffer::aligned;

std::uint64_t bytes_of(std::int64_t elements) { return 2 * static_cast<std::uint64_t>(elements); }

ProblemFacts describe_problem(const ProductSpec& spec, const std::vector<std::string>& used_by) {
  Description description = {{"name", spec.name()},
                             {"family", "nf4_product"},
                             {"n", spec.elements()},
                             {"batch", spec.m},
                             {"rows", spec.n()},
                             {"columns", spec.k()},
                             {"block_size", spec.weights.block_size},
                             {"nested", spec.weights.nested},
                             {"output", std::string(reference::name(spec.weights.output))},
                             {"bias", spec.bias},
                             {"models", used_by}};
  if (spec.data != InputData::normal) description["data"] = std::string(name(spec.data));
  return {.name = spec.name(),
          .description = std::move(description),
          .elements = spec.elements(),
          .element_bytes = 2,
          .bytes_read = spec.bytes_read(),
          .bytes_written = spec.bytes_written(),
          .bounded = true};
}

}  // namespace

Problem problem_of(const ProductSpec& spec, const nf4::Problem& matrix, const void* input,
                   const void* bias) {
  return {.codes = matrix.codes,
          .absmax = matrix.absmax,
          .nested = matrix.nested,
          .table = matrix.table,
          .block_size = matrix.block_size,
          .input = input,
          .bias = spec.bias ? bias : nullptr,
          .output = matrix.output,
          .m = spec.m,
          .n = spec.n(),
          .k = spec.k(),
          .type = matrix.output_type};
}

Problem without_memory(const ProductSpec& spec) {
  // Never read; only the addresses matter.
  alignas(256) static constexpr std::uint16_t memory[nf4::max_offset + 1] = {};
  const void* const begin = memory + spec.weights.offset;
  return problem_of(spec, nf4::without_memory(spec.weights), begin, begin);
}

Offer offer(const Kernel<Problem>& kernel, Problem problem, const void* weights) {
  const Support without = kernel.supports(problem);
  if (without.ok) return {without, false};
  problem.weights = weights;
  return kernel.supports(problem).ok ? Offer{Support::yes(), true} : Offer{without, false};
}

PlannedProblem plan(const ProductSpec& spec, const std::vector<std::string>& used_by) {
  const auto facts = describe_problem(spec, used_by);
  const std::uint64_t weights = 2 * static_cast<std::uint64_t>(spec.weights.weights());
  const auto supports = [spec](const std::string& kernel) {
    const Problem problem = without_memory(spec);
    return offer(kernel_named<Problem>(kernel), problem, problem.input).support;
  };
  return {
      .facts = facts,
      .buffer_set_device_bytes = facts.bytes_read + weights + facts.bytes_written + guard_bytes,
      .seldom_read_bytes = weights,
      .shared_device_bytes = [spec,
                              supports] { return workspace_bytes(without_memory(spec), supports); },
      .host_bytes = distinct_matrices * (facts.bytes_read + weights + facts.bytes_written),
      .timed = spec.data == InputData::normal,
      .supports = supports,
      .prepare = [facts, spec](int buffer_sets, std::uint64_t seed) -> std::unique_ptr<Workload> {
        return std::make_unique<ProductWorkload>(facts, spec, seed, buffer_sets);
      }};
}

ProductWorkload::ProductWorkload(ProblemFacts facts, const ProductSpec& spec, std::uint64_t seed,
                                 int buffer_sets)
    : MatrixWorkload(std::move(facts)), spec_(spec) {
  const std::uint64_t moved = bytes_of(spec.weights.offset);
  input_at_ = moved;
  bias_at_ = aligned(input_at_ + bytes_of(spec.m * spec.k())) + moved;
  weights_at_ = aligned(bias_at_ + bytes_of(spec.bias ? spec.n() : 0));
  const std::uint64_t extra = weights_at_ + bytes_of(spec.weights.weights());
  std::vector<nf4::DeviceTensor> inputs;
  for (int matrix = 0; matrix < std::min(buffer_sets, distinct_matrices); ++matrix) {
    products_.push_back(make_product(spec, seed + static_cast<std::uint64_t>(matrix)));
    const auto& quantized = products_.back().matrix.quantized;
    fill(inputs.emplace_back(quantized, spec.weights.offset, extra), matrix);
  }
  add_buffer_sets(std::move(inputs), buffer_sets, spec.weights.offset);
  make_workspaces();
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    if (offer(kernel, problem(name, 0), weights(0)).given_weights) given_weights_.insert(name);
  }
}

void ProductWorkload::fill(nf4::DeviceTensor& input, int matrix) const {
  const ProductData& product = products_[static_cast<std::size_t>(matrix)];
  const auto upload = [&](std::uint64_t at, const std::vector<std::uint16_t>& from) {
    profiling::check(
        cudaMemcpy(input.extra() + at, from.data(), 2 * from.size(), cudaMemcpyHostToDevice),
        "copying a product to the GPU");
  };
  input.fill(product.matrix.quantized);
  upload(input_at_, product.input);
  upload(bias_at_, product.bias);
  upload(weights_at_, product.matrix.expected);
}

Problem ProductWorkload::problem(const std::string& kernel, int buffer_set) const {
  const std::byte* const extra = tensor(buffer_set).extra();
  Problem problem = problem_of(spec_, tensor(buffer_set).problem(output(buffer_set)),
                               extra + input_at_, extra + bias_at_);
  problem.weights_ready = true;  // fill_inputs() has waited for them
  problem.workspace = workspace(kernel);
  if (given_weights_.contains(kernel)) problem.weights = weights(buffer_set);
  return problem;
}

Support ProductWorkload::supports(const std::string& kernel) const {
  return offer(kernel_named<Problem>(kernel), problem(kernel, 0), weights(0)).support;
}

Bounds ProductWorkload::bounds(int matrix, const std::string& name) const {
  const auto reading = value_named<reference::Reading>(reference::reading_names, name);
  const auto [entry, is_new] = bounds_.try_emplace({matrix, reading});
  if (is_new) {
    const auto product = products_.at(static_cast<std::size_t>(matrix)).view();
    const auto weights = reference::weights_of(reading);
    const auto [sums, unknown] = sums_.try_emplace({matrix, weights});
    if (unknown) sums->second = reference::product_sums(product, weights);
    entry->second = reference::product_bounds(product, reading, sums->second);
  }
  return {std::as_bytes(std::span(entry->second.low)),
          std::as_bytes(std::span(entry->second.high))};
}

Findings ProductWorkload::inspect(const VariantInfo& kernel, const DeviceComparison& comparison,
                                  cudaStream_t stream) const {
  const bool asks_for_weights = spec_.data == InputData::one_hot;
  return inspect_product(kernel, problem(kernel.name, 0), asks_for_weights ? weights(0) : nullptr,
                         comparison, stream);
}

}  // namespace reprolab::nf4_product
