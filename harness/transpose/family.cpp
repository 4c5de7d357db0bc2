// Matrix transpose as a family: the sizes of the sweep, or matrices from the command line.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <array>
#include <limits>

#include "harness/buffer_sets.hpp"
#include "harness/errors.hpp"
#include "harness/selection.hpp"
#include "harness/transpose/compiled_kernels.hpp"
#include "harness/transpose/workload.hpp"

namespace reprolab::transpose {
namespace {

/// Sizes of the sweep: multiples of the tiles (64), multiples of 4 only, and neither.
constexpr std::array<std::int64_t, 26> sizes = {
    256,  512,  1000, 1023,  1024,  1536,  2020,  2048,  2050,  3072,  4096,  4097,  4100,
    6144, 8191, 8192, 10000, 12288, 16383, 16384, 20004, 24576, 32767, 32768, 32772, 65536};
/// Matrices are not halved below this size.
constexpr std::int64_t smallest_size = 1024;

const FamilyFacts transpose_facts{
    .name = "transpose",
    .element = "element",
    .types = {{"fp32", 4}},
    .moves = "a matrix read and its transpose written, each byte once",
    .baseline = "tma_naive",  // the posts' first kernel
    .size_option = "--matrix",
    .profiled_size = "32768x32768",      // the posts'
    .measured_code = {"DownColumns<2"},  // two columns of tiles at once, at that size
};

class TransposeFamily : public Family {
 public:
  using Family::Family;

  void add_options(CLI::App& app) override {
    auto* group = app.add_option_group("transpose", "Matrix transpose, fp32");
    group->add_option("--matrix", matrices_, "ROWSxCOLUMNS instead of the sizes of the sweep");
    group->add_option("--padding", padding_, "Elements between two rows, of input and output")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    group->add_flag("--halve-to-fit", halve_, "Halve rows and columns of a matrix until it fits");
  }

  void configure() override {
    compiled_kernels.load();
    for (const auto& matrix : matrices_) {
      const Extent extent = parse_extent("--matrix", matrix);
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
      if (std::max(extent.rows, extent.columns) > most) {
        throw UsageError(fmt::format(
            "--matrix: {} has 2^31 rows or columns, or more; give fewer of each", matrix));
      }
      asked_.push_back({.rows = extent.rows, .columns = extent.columns, .padding = padding_});
    }
    if (!asked_.empty()) return;
    for (const std::int64_t size : sizes) {
      asked_.push_back({.rows = size, .columns = size, .padding = padding_});
    }
  }

  bool is_selected() const override { return !matrices_.empty(); }

  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }

  std::vector<std::string> absent() const override {
    return compiled_kernels.languages_not_built();
  }

  /// Constant: 1.0 everywhere, verified and not timed.
  std::vector<std::string> data() const override { return {"random", "constant"}; }

  std::vector<PlannedProblem> problems(const FreeMemory& free,
                                       const std::vector<std::string>& data) const override {
    std::vector<PlannedProblem> planned;
    for (MatrixSpec spec : asked_) {
      while (halve_ && std::min(spec.rows, spec.columns) / 2 >= smallest_size &&
             buffer_sets_for(plan(spec), {}, free).count == 0) {
        spec.rows /= 2;
        spec.columns /= 2;
      }
      for (const auto& name : data) {
        spec.data = name == "random" ? Data::random : Data::constant;
        planned.push_back(plan(spec));
      }
    }
    return planned;
  }

 private:
  std::vector<std::string> matrices_;
  std::int64_t padding_ = 0;
  bool halve_ = false;
  std::vector<MatrixSpec> asked_;
};

TransposeFamily family(transpose_facts);

}  // namespace
}  // namespace reprolab::transpose
