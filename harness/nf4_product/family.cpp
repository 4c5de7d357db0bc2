// Matmuls with NF4 weights as a family: N and K of the models' layers, or of the command line, each
// with several M.
#include <CLI/CLI.hpp>
#include <array>

#include "harness/family.hpp"
#include "harness/nf4/options.hpp"
#include "harness/nf4_product/workload.hpp"
#include "kernels/nf4_product/bitsandbytes_peer.hpp"
#include "profiling/basics.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr std::int64_t max_rows = 1 << 20;

const FamilyFacts product_facts{
    .name = "nf4_product",
    .size_option = "--shape",
    .profiled_size = "28672x8192",  // the largest layer of Llama-3.3-70B
};

class ProductFamily : public Family {
 public:
  using Family::Family;

  void add_options(CLI::App& app) override {
    nf4::add_matrix_options(app);
    auto* group = app.add_option_group("nf4_product", "Products with NF4 weights");
    group->add_option("--rows", rows_, "Rows of activations, as sequences in a batch [1,8]")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, max_rows));
    group->add_flag("--bias", bias_, "Add a bias");
  }

  void configure() override { nf4::load_peers(options_.peers, add_bitsandbytes_peers); }

  bool is_selected() const override { return !rows_.empty(); }

  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }

  std::vector<std::string> data() const override {
    return {std::ranges::begin(input_data_names), std::ranges::end(input_data_names)};
  }

  std::vector<PlannedProblem> problems(const FreeMemory&,
                                       const std::vector<std::string>& data) const override {
    std::vector<PlannedProblem> planned;
    const std::vector<std::int64_t> rows = rows_.empty() ? std::vector<std::int64_t>{1, 8} : rows_;
    for (const auto& [weights, used_by] : options_.wanted()) {
      for (const std::int64_t m : rows) {
        for (const auto& name : data) {
          const auto input = value_named<InputData>(input_data_names, name);
          planned.push_back(plan({weights, m, bias_, input}, used_by));
        }
      }
    }
    return planned;
  }
  /// Shapes that no tile divides, of few rows and of more.
  std::vector<PlannedProblem> small() const override {
    std::vector<PlannedProblem> planned;
    nf4::TensorSpec weights{.rows = 333, .columns = 576, .block_size = 64};
    for (const std::int64_t m : {1, 13, 33, 130}) {
      planned.push_back(plan({weights, m, true, InputData::normal}, {}));
    }
    weights.nested = true;
    weights.output = reference::WeightType::bf16;
    for (const auto& [m, rows, columns] :
         {std::array{2, 65, 4160}, {11, 96, 2048}, {130, 65, 2112}}) {
      weights.rows = rows;
      weights.columns = columns;
      planned.push_back(plan({weights, m, false, InputData::sparse}, {}));
    }
    return planned;
  }

 private:
  nf4::MatrixOptions& options_ = nf4::matrix_options();
  std::vector<std::int64_t> rows_;
  bool bias_ = false;
};

ProductFamily family(product_facts);

}  // namespace
}  // namespace reprolab::nf4_product
