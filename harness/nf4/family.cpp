// NF4 dequantization as a family: the shapes of the models' layers, or those of the command line.
#include "harness/family.hpp"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "harness/nf4/options.hpp"
#include "harness/nf4/workload.hpp"
#include "profiling/basics.hpp"

namespace reprolab::nf4 {
namespace {

const FamilyFacts nf4_facts{
    .name = "nf4",
    .size_option = "--shape",
    .profiled_size = "28672x8192",  // the largest layer of Llama-3.3-70B
};

class Nf4Family : public Family {
 public:
  using Family::Family;

  void add_options(CLI::App& app) override {
    add_matrix_options(app);
    app.add_option_group("nf4", "NF4 dequantization")
        ->add_option("--offset", options_.formats.offsets,
                     "Elements by which every array begins past an aligned address")
        ->delimiter(',')
        ->check(CLI::Range(0, max_offset))
        ->default_str("0");
  }

  void configure() override {
    compiled_kernels.load();
    load_peers(options_.peers);
  }

  bool is_selected() const override { return !options_.shapes.empty(); }

  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }

  std::vector<std::string> absent() const override {
    return compiled_kernels.languages_not_built();
  }

  std::vector<std::string> data() const override {
    return {std::ranges::begin(code_data_names), std::ranges::end(code_data_names)};
  }

  std::vector<PlannedProblem> problems(const FreeMemory&,
                                       const std::vector<std::string>& data) const override {
    std::vector<PlannedProblem> planned;
    for (auto& [spec, used_by] : options_.wanted()) {
      for (const auto& name : data) {
        spec.data = value_named<CodeData>(code_data_names, name);
        planned.push_back(plan(spec, used_by));
      }
    }
    return planned;
  }
  /// Odd lengths, plain and nested, so that the last, partial tile is run too.
  std::vector<PlannedProblem> small() const override {
    TensorSpec plain{.rows = 1, .columns = 100003, .block_size = 64}, nested = plain;
    nested.columns = 70001;
    nested.block_size = 128;
    nested.nested = true;
    nested.output = reference::WeightType::bf16;
    return {plan(plain, {}), plan(nested, {})};
  }

 private:
  static PlannedProblem plan(const TensorSpec& spec, const std::vector<std::string>& used_by) {
    const auto facts = describe_problem(
        fmt::format("{}x{}/{}", spec.rows, spec.columns, spec.format()), spec, used_by);
    return {
        .facts = facts,
        .buffer_set_device_bytes = facts.bytes_read + facts.bytes_written + guard_bytes,
        .host_bytes = distinct_matrices * (facts.bytes_read + facts.bytes_written),
        .supports =
            [spec](const std::string& kernel) {
              return kernel_named<Problem>(kernel).supports(without_memory(spec));
            },
        .prepare = [facts, spec](int buffer_sets, std::uint64_t seed) -> std::unique_ptr<Workload> {
          return std::make_unique<Nf4Workload>(facts, make_tensors(spec, seed, buffer_sets),
                                               buffer_sets, spec.offset);
        }};
  }

  MatrixOptions& options_ = matrix_options();
};

Nf4Family family(nf4_facts);

}  // namespace
}  // namespace reprolab::nf4
