// Matrix transpose as a family: the sizes of the sweep, or matrices asked for.
#include <fmt/core.h>

#include <limits>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/selection.hpp"
#include "experiments/transpose/protocol.hpp"
#include "experiments/transpose/workload.hpp"

namespace reprolab::transpose {
namespace {

class TransposeFamily : public Family {
 public:
  std::string name() const override { return "transpose"; }

  void add_options(CLI::App& app) override {
    auto* group = app.add_option_group("transpose", "Matrix transpose, fp32");
    group->add_option("--matrix", matrices_, "ROWSxCOLUMNS instead of the sizes of the sweep");
    group->add_option("--padding", padding_, "Elements between two rows, of input and output")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
  }

  void configure() override {
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

  bool is_asked_for() const override { return !matrices_.empty(); }

  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }

  std::vector<PlannedProblem> problems() const override {
    std::vector<PlannedProblem> planned;
    for (const MatrixSpec& spec : asked_) planned.push_back(plan(spec));
    return planned;
  }

 private:
  std::vector<std::string> matrices_;
  std::int64_t padding_ = 0;
  std::vector<MatrixSpec> asked_;
};

TransposeFamily family;
const RegisterFamily registered(family);

}  // namespace
}  // namespace reprolab::transpose
