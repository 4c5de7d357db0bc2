// NF4 dequantization as a family: the shapes of the models' layers, or one shape asked for.
#include "experiments/harness/family.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/selection.hpp"
#include "experiments/nf4/layers.hpp"
#include "experiments/nf4/peers.hpp"
#include "experiments/nf4/workload.hpp"

namespace reprolab::nf4 {
namespace {

Shape parse_shape(const std::string& text) {
  const Extent extent = parse_extent("--shape", text);
  return {extent.rows, extent.columns, {"asked for"}};
}

class Nf4Family : public Family {
 public:
  std::string name() const override { return "nf4"; }

  void add_options(CLI::App& app) override {
    auto* group = app.add_option_group("nf4", "NF4 dequantization");
    group->add_option("--models", models_, "Models whose distinct layer shapes are measured")
        ->delimiter(',')
        ->capture_default_str();
    group->add_option("--shape", shapes_, "ROWSxCOLUMNS instead of the models' shapes");
    group->add_option("--block-size", block_size_, "Weights a scale")->capture_default_str();
    group->add_option("--output-type", output_, "fp16 or bf16")
        ->check(CLI::IsMember({"fp16", "bf16"}))
        ->capture_default_str();
    group->add_flag("--nested", nested_, "Double quantization");
    group->add_option("--peer", peers_, "A libbitsandbytes_cuda*.so (or NAME=path) to measure too")
        ->allow_extra_args(false);
  }

  void configure() override {
    if (!reference::is_block_size(block_size_)) {
      throw UsageError(fmt::format("--block-size: expected a power of two from {} to {}; got {}",
                                   reference::min_block_size, reference::max_block_size,
                                   block_size_));
    }
    load_peers(peers_);
    peers_.clear();
  }

  bool is_asked_for() const override { return !shapes_.empty(); }

  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }

  std::vector<PlannedProblem> problems() const override {
    std::vector<PlannedProblem> planned;
    for (const Shape& shape : shapes()) planned.push_back(plan(shape));
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
    return distinct_shapes(select_models(models, models_));
  }

  PlannedProblem plan(const Shape& shape) const {
    const TensorSpec spec{
        .rows = shape.rows,
        .columns = shape.columns,
        .block_size = block_size_,
        .nested = nested_,
        .output = output_ == "fp16" ? reference::WeightType::fp16 : reference::WeightType::bf16};
    const auto facts = describe_problem(
        fmt::format("{}x{}/{}", shape.rows, shape.columns, spec.format()), spec, shape.used_by);
    return {.facts = facts,
            .slot_device_bytes = facts.bytes_read + facts.bytes_written,
            .host_bytes = facts.bytes_read + facts.bytes_written,
            .prepare = [facts, spec](int slots, std::uint64_t seed) -> std::unique_ptr<Workload> {
              return std::make_unique<Nf4Workload>(facts, make_tensor(spec, seed), slots);
            }};
  }

  std::vector<std::string> models_ = {"gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b"};
  std::vector<std::string> shapes_, peers_;
  int block_size_ = 64;
  std::string output_ = "fp16";
  bool nested_ = false;
};

Nf4Family family;
const RegisterFamily registered(family);

}  // namespace
}  // namespace reprolab::nf4
