// More weights than 31 bits can count: a tile of outputs is repeated on the device, so each output
// has the bounds of its place in the tile.
#include "profiling/basics.hpp"
#include "reference/nf4_product/bounds.hpp"
#include "tests/kernels/nf4/long_problem.hpp"
#include "tests/kernels/nf4_product/testing.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr std::int64_t tile = 256, inputs = 32768;
constexpr std::int64_t outputs = (std::int64_t{1} << 31) / inputs + tile;

class OnGpuLongProducts : public OnGpuEachKernel {};

/// The bounds of a tile's outputs, for all of its copies.
std::vector<std::uint16_t> at_every_copy(const std::vector<std::uint16_t>& of_tile) {
  std::vector<std::uint16_t> all;
  for (auto row = of_tile.begin(); row != of_tile.end(); row += tile) {
    for (std::int64_t copy = 0; copy < outputs / tile; ++copy)
      all.insert(all.end(), row, row + tile);
  }
  return all;
}

/// Returns whether the kernel supports the product.
bool expect_within_bounds(const VariantInfo& variant, std::int64_t m, bool nested) {
  const Kernel<Problem>& kernel = kernel_named<Problem>(variant.name);
  const ProductData data =
      make_product({.weights = {.rows = tile, .columns = inputs, .nested = nested}, .m = m}, 1);
  const nf4::LongProblem matrix(data.matrix.quantized, outputs * inputs, 0);
  profiling::check(kernel_named<nf4::Problem>("streaming").launch(matrix.view, nullptr),
                   "writing 16-bit weights");

  ProductSpec spec = data.spec;
  spec.weights.rows = outputs;
  const auto input = nf4::repeated(data.input, data.input.size());
  const profiling::DeviceBuffer output(2 * static_cast<std::uint64_t>(spec.elements()));
  Problem problem = problem_of(spec, matrix.view, input.data(), nullptr);
  problem.output = output.data();
  const auto [support, given_weights] = offer(kernel, problem, matrix.output.data());
  if (!support.ok) return false;
  if (given_weights) problem.weights = matrix.output.data();
  const profiling::DeviceBuffer workspace(kernel.workspace_bytes ? kernel.workspace_bytes(problem)
                                                                 : 0);
  problem.workspace = workspace.data();
  profiling::check(kernel.launch(problem, nullptr), variant.name);

  std::vector<std::uint16_t> actual(static_cast<std::size_t>(spec.elements()));
  profiling::check(
      cudaMemcpy(actual.data(), output.data(), 2 * actual.size(), cudaMemcpyDeviceToHost),
      "reading a product");
  const auto reading =
      value_named<reference::Reading>(reference::reading_names, variant.contract.reading);
  const auto sums = reference::product_sums(data.view(), reference::weights_of(reading));
  const auto bounds = reference::product_bounds(data.view(), reading, sums);
  const auto difference =
      reference::compare_within(at_every_copy(bounds.low), at_every_copy(bounds.high), actual);
  EXPECT_TRUE(difference.equal()) << variant.name << ", " << m << " rows: " << difference.mismatches
                                  << " outputs lie outside their bounds, first output "
                                  << difference.first_mismatch % outputs;
  return true;
}

TEST_P(OnGpuLongProducts, AreWithinTheBoundsOfTheTileThatIsRepeated) {
  const std::string why = lacks_memory(std::uint64_t{12} << 30);
  if (!why.empty()) GTEST_SKIP() << why;
  bool runs = false;
  for (const std::int64_t m : {3, 33}) {
    for (const bool nested : {false, true}) {
      SCOPED_TRACE(testing::Message() << m << " rows" << (nested ? ", nested scales" : ""));
      runs |= expect_within_bounds(GetParam(), m, nested);
    }
  }
  if (!runs) GTEST_SKIP() << "NOT TESTED, unsupported";
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuLongProducts, testing::ValuesIn(registered_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::nf4_product
