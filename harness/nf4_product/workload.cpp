#include "harness/nf4_product/workload.hpp"

#include <algorithm>
#include <stdexcept>

#include "harness/nf4_product/inspection.hpp"
#include "harness/nf4_product/problems.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4_product {
namespace {

std::uint64_t aligned(std::uint64_t bytes) {
  constexpr std::uint64_t unit = profiling::DeviceBuffer::alignment;
  return (bytes + unit - 1) / unit * unit;
}

std::uint64_t bytes_of(std::int64_t elements) { return 2 * static_cast<std::uint64_t>(elements); }

/// With what no kernel may rely on.
void clear(const profiling::DeviceBuffer& memory) {
  profiling::check(cudaMemset(memory.data(), 0xff, memory.bytes()), "clearing a workspace");
}

}  // namespace

ProductWorkload::ProductWorkload(ProblemFacts facts, std::vector<ProductData> products,
                                 int buffer_sets)
    : facts_(std::move(facts)), products_(std::move(products)) {
  if (static_cast<int>(products_.size()) != std::min(buffer_sets, distinct_matrices)) {
    throw std::logic_error(facts_.name + ": a buffer set has no matrix");
  }
  const std::uint64_t moved = bytes_of(offset());
  input_at_ = moved;
  bias_at_ = aligned(input_at_ + bytes_of(spec().m * spec().k())) + moved;
  weights_at_ = aligned(bias_at_ + bytes_of(spec().bias ? spec().n() : 0));
  const std::uint64_t extra = weights_at_ + bytes_of(spec().weights.weights());
  inputs_.reserve(static_cast<std::size_t>(buffer_sets));
  for (const ProductData& product : products_) {
    fill(inputs_.emplace_back(product.matrix.quantized, offset(), extra), product);
  }
  for (int buffer_set = static_cast<int>(products_.size()); buffer_set < buffer_sets;
       ++buffer_set) {
    inputs_.emplace_back(inputs(buffer_set % distinct_matrices), nullptr);
  }
  for (int buffer_set = 0; buffer_set < buffer_sets; ++buffer_set) {
    outputs_.emplace_back(facts_.output_bytes() + guard_bytes + moved);
  }
  make_workspaces();
}

void ProductWorkload::make_workspaces() {
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    const Problem asked = problem(name, 0);
    const auto [support, given_weights] = offer(kernel, asked, weights(0));
    if (!support.ok) continue;
    const std::uint64_t bytes = kernel.workspace_bytes ? kernel.workspace_bytes(asked) : 0;
    Workspace& workspace = workspaces_[name];
    workspace.given_weights = given_weights;
    workspace.memory = profiling::DeviceBuffer(bytes + guard_bytes);
    clear(workspace.memory);
  }
}

void ProductWorkload::fill(nf4::DeviceTensor& input, const ProductData& product) {
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

void ProductWorkload::fill_inputs() {
  for (int buffer_set = 0; buffer_set < buffer_sets(); ++buffer_set) {
    auto& input = inputs_[static_cast<std::size_t>(buffer_set)];
    if (buffer_set < matrices()) {
      fill(input, products_[static_cast<std::size_t>(matrix_of(buffer_set))]);
    } else {
      input.fill(inputs(buffer_set % matrices()), nullptr);
    }
  }
  profiling::check(cudaDeviceSynchronize(), "exchanging the matrices");
}

Problem ProductWorkload::problem(const std::string& kernel, int buffer_set) const {
  const std::byte* const extra = inputs(buffer_set).extra();
  Problem problem = problem_of(spec(), inputs(buffer_set).problem(output(buffer_set)),
                               extra + input_at_, extra + bias_at_);
  problem.weights_are_settled = true;  // fill_inputs() has waited for them
  if (const auto found = workspaces_.find(kernel); found != workspaces_.end()) {
    problem.workspace = found->second.memory.data();
    if (found->second.given_weights) problem.weights = weights(buffer_set);
  }
  return problem;
}

Support ProductWorkload::supports(const std::string& kernel) const {
  return offer(kernel_named<Problem>(kernel), problem(kernel, 0), weights(0)).support;
}

cudaError_t ProductWorkload::launch(const std::string& kernel, int buffer_set,
                                    cudaStream_t stream) const {
  return kernel_named<Problem>(kernel).launch(problem(kernel, buffer_set), stream);
}

std::span<const std::byte> ProductWorkload::input(int buffer_set) const {
  return {inputs(buffer_set).data(), inputs(buffer_set).bytes()};
}

std::vector<std::span<std::byte>> ProductWorkload::guards() const {
  auto found = Workload::guards();
  for (const auto& [name, workspace] : workspaces_) {
    const std::uint64_t end = workspace.memory.bytes() - guard_bytes;
    found.push_back({workspace.memory.as<std::byte>() + end, guard_bytes});
  }
  return found;
}

Bounds ProductWorkload::bounds(int matrix, const std::string& name) const {
  const auto reading = reference::reading_named(name);
  const auto [found, is_new] = bounds_.try_emplace({matrix, reading});
  if (is_new) {
    const auto product = products_.at(static_cast<std::size_t>(matrix)).view();
    const auto weights = reference::weights_of(reading);
    const auto [sums, unknown] = sums_.try_emplace({matrix, weights});
    if (unknown) sums->second = reference::product_sums(product, weights);
    found->second = reference::product_bounds(product, reading, sums->second);
  }
  return {std::as_bytes(std::span(found->second.low)),
          std::as_bytes(std::span(found->second.high))};
}

Findings ProductWorkload::inspect(const VariantInfo& kernel, const DeviceComparison& comparison,
                                  cudaStream_t stream) const {
  const bool asks_for_weights = spec().data == InputData::one_hot;
  return inspect_product(kernel, problem(kernel.name, 0), asks_for_weights ? weights(0) : nullptr,
                         comparison, stream);
}

std::string ProductWorkload::describe(int, const reference::Comparison& found,
                                      std::uint32_t expected, std::uint32_t actual) const {
  return describe_outside(spec(), found, static_cast<std::uint16_t>(expected),
                          static_cast<std::uint16_t>(actual));
}

}  // namespace reprolab::nf4_product
