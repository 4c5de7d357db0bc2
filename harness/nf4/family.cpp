// NF4 dequantization as a family: the shapes of the models' layers, or those of the command line.
#include "harness/family.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "harness/errors.hpp"
#include "harness/nf4/compiled_kernels.hpp"
#include "harness/nf4/layers.hpp"
#include "harness/nf4/options.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/selection.hpp"

namespace reprolab::nf4 {
namespace {

Shape parse_shape(const std::string& text) {
  const Extent extent = parse_extent("--shape", text);
  return {extent.rows, extent.columns, {"asked for"}};
}

/// The code that is measured: Table II has fp16 output, plain scales, and weights counted in 32
/// bits. Of streaming, large matrices whose arrays are aligned; of two_launches, what streaming
/// lacks.
const FamilyFacts nf4_facts{
    .name = "nf4",
    .element = "weight",
    .types = {{"fp16", 2}, {"bf16", 2}},
    .moves = "codes and scales read, weights written, each byte once",
    .baseline = "branch_tree",
    .size_option = "--shape",
    .profiled_size = "28672x8192",  // the largest layer of Llama-3.3-70B
    .measured_code = {"unsigned int", "PlainScaleReader", "__half", "StreamShape<1024, 1,",
                      ">, true,", "decode_scales"},
};

class Nf4Family : public Family {
 public:
  const FamilyFacts& facts() const override { return nf4_facts; }

  void add_options(CLI::App& app) override {
    auto* group = app.add_option_group("nf4", "NF4 dequantization");
    group
        ->add_option("--models", models_,
                     "Models whose distinct layer shapes are measured [those of the paper]")
        ->delimiter(',');
    group->add_option("--shape", shapes_, "ROWSxCOLUMNS instead of the models' shapes");
    add_format_options(*group, formats_);
    group
        ->add_option("--offset", formats_.offsets,
                     "Elements by which every array begins past an aligned address")
        ->delimiter(',')
        ->check(CLI::Range(0, max_offset))
        ->default_str("0");
    add_peer_option(*group, peers_);
  }

  void configure() override {
    load_compiled_kernels();
    load_peers(std::exchange(peers_, {}));
  }

  bool is_asked_for() const override { return !shapes_.empty(); }

  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }

  std::vector<std::string> absent() const override { return languages_not_built(); }

  std::vector<std::string> data() const override {
    return {std::ranges::begin(code_data_names), std::ranges::end(code_data_names)};
  }

  std::vector<PlannedProblem> problems(const FreeMemory&,
                                       const std::vector<std::string>& data) const override {
    std::vector<PlannedProblem> planned;
    for (const Shape& shape : shapes()) {
      for (const TensorSpec& format : formats_.combinations()) {
        for (const auto& name : data) planned.push_back(plan(shape, format, code_data_named(name)));
      }
    }
    return planned;
  }

 private:
  std::vector<Shape> shapes() const {
    if (!shapes_.empty()) {
      std::vector<Shape> asked;
      std::ranges::transform(shapes_, std::back_inserter(asked), parse_shape);
      return asked;
    }
    const auto models = read_models(project_root() / "data/models/models.json");
    return distinct_shapes(
        select_models(models, models_.empty() ? papers_protocol().models : models_));
  }

  PlannedProblem plan(const Shape& shape, TensorSpec spec, CodeData data) const {
    spec.data = data;
    spec.rows = shape.rows;
    spec.columns = shape.columns;
    const auto facts = describe_problem(
        fmt::format("{}x{}/{}", shape.rows, shape.columns, spec.format()), spec, shape.used_by);
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

  std::vector<std::string> models_, shapes_, peers_;
  Formats formats_;
};

Nf4Family family;
const RegisterFamily registered(family);

}  // namespace
}  // namespace reprolab::nf4
