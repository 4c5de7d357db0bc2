#include "harness/nf4/options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "harness/selection.hpp"
#include "harness/workload.hpp"

namespace reprolab::nf4 {

std::vector<TensorSpec> Formats::combinations() const {
  std::vector<TensorSpec> specs;
  for (const int block_size : block_sizes) {
    for (const auto output : outputs) {
      for (const int offset : offsets) {
        specs.push_back(
            {.block_size = block_size, .nested = nested, .output = output, .offset = offset});
      }
    }
  }
  return specs;
}

namespace {

void add_format_options(CLI::App& app, Formats& formats) {
  app.add_option("--block-size", formats.block_sizes, "Weights that share a scale")
      ->delimiter(',')
      ->check([](const std::string& text) {
        int size = 0;
        const bool is_one = CLI::detail::lexical_cast(text, size) && reference::is_block_size(size);
        return is_one ? ""
                      : fmt::format("expected a power of two from {} to {}; got {}",
                                    reference::min_block_size, reference::max_block_size, text);
      })
      ->default_str("64");
  app.add_option_function<std::vector<std::string>>(
         "--output-type",
         [&formats](const std::vector<std::string>& names) {
           formats.outputs.clear();
           for (const auto& name : names) {
             formats.outputs.push_back(name == "fp16" ? reference::WeightType::fp16
                                                      : reference::WeightType::bf16);
           }
         },
         "fp16 or bf16")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp16", "bf16"}))
      ->default_str("fp16");
  app.add_flag("--nested", formats.nested, "Double quantization");
}

}  // namespace

void add_peer_option(CLI::App& app, std::vector<std::string>& libraries) {
  app.add_option("--peer", libraries, "Also run this libbitsandbytes_cuda*.so (or NAME=path)")
      ->allow_extra_args(false);
}

void load_peers(const std::vector<std::string>& libraries, const AddPeer& add) {
  try {
    std::ranges::for_each(libraries, add);
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
}

std::vector<VariantInfo> load_kernels(const std::string& pattern,
                                      const std::vector<std::string>& peers) {
  compiled_kernels.load();
  load_peers(peers);
  return select_kernels(pattern, registered_variants<Problem>(),
                        compiled_kernels.languages_not_built());
}

MatrixOptions& matrix_options() {
  static MatrixOptions options;
  return options;
}

void add_matrix_options(CLI::App& app) {
  if (app.get_option_no_throw("--shape") != nullptr) return;
  MatrixOptions& options = matrix_options();
  auto* group = app.add_option_group("NF4", "NF4 matrices");
  group
      ->add_option("--models", options.models,
                   "Models whose distinct layer shapes are measured [those of the paper]")
      ->delimiter(',');
  group->add_option("--shape", options.shapes, "ROWSxCOLUMNS instead of the models' shapes");
  add_format_options(*group, options.formats);
  add_peer_option(*group, options.peers);
}

std::vector<MatrixOptions::Matrix> MatrixOptions::wanted() const {
  std::vector<Shape> selected;
  for (const auto& text : shapes) {
    const auto extent = parse_extent("--shape", text);
    selected.push_back({extent[0], extent[1], {"asked for"}});
  }
  if (selected.empty()) {
    const auto known = read_models(project_root() / "data/models.json");
    selected =
        distinct_shapes(select_models(known, models.empty() ? papers_protocol().models : models));
  }
  std::vector<Matrix> matrices;
  for (const auto& [rows, columns, used_by] : selected) {
    for (TensorSpec spec : formats.combinations()) {
      spec.rows = rows;
      spec.columns = columns;
      matrices.push_back({spec, used_by});
    }
  }
  return matrices;
}

const CompiledFamily<Problem> compiled_kernels{
    .name = "nf4",
    .variants = {"fp16", "bf16", "fp16_nested", "bf16_nested"},
    .commands = {{"mojo", "make mojo"}, {"triton", "make triton"}},
    .add = add_ptx_kernel};

}  // namespace reprolab::nf4
