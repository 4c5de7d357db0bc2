// The quantized linear layers of decoder models: the matrices that one forward pass dequantizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprolab::nf4 {

/// One weight matrix of a decoder layer, as a linear layer stores it.
struct LayerMatrix {
  std::string name;          ///< q, k, v, o, gate, up or down.
  std::int64_t rows = 0;     ///< Output features.
  std::int64_t columns = 0;  ///< Input features.

  std::int64_t weights() const { return rows * columns; }
};

struct Model {
  std::string id;
  std::int64_t layers = 0;
  std::vector<LayerMatrix> matrices;  ///< The matrices of one decoder layer, in the order of use.

  std::int64_t weights() const;   ///< Weights in all layers.
  std::int64_t launches() const;  ///< Dequantizations of one forward pass.
};

/// Reads data/models.json. Throws UsageError naming the model and the key that is missing.
std::vector<Model> read_models(const std::filesystem::path& path);

/// The models whose ids are in `ids`, in that order. Throws UsageError with the known ids if one is
/// unknown.
std::vector<Model> select_models(const std::vector<Model>& models,
                                 const std::vector<std::string>& ids);

/// The protocol of the paper (arXiv 2604.02556), from data/models.json.
struct Protocol {
  std::vector<std::string> models{};  ///< Ids of data/models.json.
  std::vector<int> batches{};
  int warmup_passes = 0, profiled_passes = 0;
};

/// Throws UsageError if the file lacks something.
Protocol papers_protocol();

/// A distinct shape and the layers that have it, such as "qwen3-32b.gate".
struct Shape {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::string> used_by;
};

/// Every distinct shape of the models, in order of first use.
std::vector<Shape> distinct_shapes(const std::vector<Model>& models);

}  // namespace reprolab::nf4
