// A quantized matrix on the host with its correct output: the start of every measurement. And the
// layers of decoder models: the matrices that one forward pass dequantizes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/nf4/problem.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::nf4 {

/// The codes of a tensor: those of normal weights, or others, to measure the influence of the data.
enum class CodeData {
  normal,   ///< The codes of quantized normal weights, in their order.
  sorted,   ///< The same codes in ascending order: nearly every warp reads a single code.
  uniform,  ///< Each code equally often, at random.
  equal     ///< Only `equal_code`.
};

/// The names on the command line and in result files, in the order of the enumerators.
inline constexpr std::array<std::string_view, 4> code_data_names = {"normal", "sorted", "uniform",
                                                                    "equal"};

/// Any code except 7, whose value is 0.0 for every scale.
inline constexpr int equal_code = 11;

constexpr std::string_view name(CodeData data) {
  return code_data_names[static_cast<std::size_t>(data)];
}

inline constexpr int max_offset = 255;

/// Shape, format and data of a tensor.
struct TensorSpec {
  std::int64_t rows = 0, columns = 0;
  int block_size = 64;
  bool nested = false;
  reference::WeightType output = reference::WeightType::fp16;
  CodeData data = CodeData::normal;
  int offset = 0;  ///< Elements by which every array on the GPU begins past an aligned address.

  std::int64_t weights() const { return rows * columns; }
  /// "fp16/b64" or "fp16/b64-nested"; with other data than normal, "fp16/b64/sorted"; with an
  /// offset, "fp16/b64/offset1".
  std::string format() const;
  /// Bytes that a dequantization must read and write, each byte counted once.
  std::uint64_t bytes_read() const;
  std::uint64_t bytes_written() const;
};

/// Codes and scales, and the reference's output: [n] bits of the tensor's type.
struct Tensor {
  reference::QuantizedTensor quantized;
  std::vector<std::uint16_t> expected;
};

/// Normal values of standard deviation 0.02, rounded to the output type, quantized and dequantized
/// by the reference. The frequencies of codes determine the divergence of the branch tree, so the
/// values have the distribution that NF4 is designed for. With other data, the codes are replaced
/// before the output is computed; the scales stay. Depends only on `spec` and `seed`.
Tensor make_tensor(const TensorSpec& spec, std::uint64_t seed);

/// The kernels' output type for the reference's weight type.
OutputType output_type(reference::WeightType type);

/// The problem in host memory that a tensor is, with its output at `output`.
Problem host_problem(const reference::QuantizedTensor& tensor, void* output);

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

/// Reads data/models.json.
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

Protocol papers_protocol();

/// A distinct shape and the layers that have it, such as "qwen3-32b.gate".
struct Shape {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::string> used_by;
};

/// Every distinct shape of the models, in order of first use.
std::vector<Shape> distinct_shapes(const std::vector<Model>& models);

}  // namespace reprolab::nf4
