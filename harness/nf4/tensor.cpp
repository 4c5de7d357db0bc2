#include "harness/nf4/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"

namespace reprolab::nf4 {

namespace {

constexpr int nested_block_size = 256;
constexpr float weight_deviation = 0.02f;  // of the same order as in trained linear layers

/// Sets code `i`, of two in a byte.
void set_code(std::span<std::uint8_t> codes, std::int64_t i, int code) {
  std::uint8_t& byte = codes[static_cast<std::size_t>(i / 2)];
  byte = static_cast<std::uint8_t>(i % 2 == 0 ? code << 4 | (byte & 0x0f) : (byte & 0xf0) | code);
}

void sort(std::int64_t n, std::span<std::uint8_t> codes) {
  std::array<std::int64_t, 16> count{};
  for (std::int64_t i = 0; i < n; ++i) ++count[reference::code_at(codes, i)];
  std::int64_t next = 0;
  for (int code = 0; code < 16; ++code) {
    for (const std::int64_t end = next + count[code]; next < end; ++next) {
      set_code(codes, next, code);
    }
  }
}

/// Eight bytes, sixteen codes, from each number.
void draw_uniformly(std::uint64_t seed, std::span<std::uint8_t> codes) {
  std::mt19937_64 random(seed);
  for (std::size_t begin = 0; begin < codes.size(); begin += 8) {
    std::uint64_t bits = random();
    const std::size_t end = std::min(begin + 8, codes.size());
    for (std::size_t i = begin; i < end; ++i, bits >>= 8)
      codes[i] = static_cast<std::uint8_t>(bits);
  }
}

/// Replaces the `n` codes of normal weights, two in a byte, by those of `data`. After an odd end,
/// the low nibble is unchanged. Depends only on the arguments.
void replace_codes(CodeData data, std::uint64_t seed, std::int64_t n,
                   std::span<std::uint8_t> codes) {
  const int past_the_end = codes.empty() ? 0 : codes.back() & 0x0f;
  switch (data) {
    case CodeData::normal:
      break;
    case CodeData::sorted:
      sort(n, codes);
      break;
    case CodeData::uniform:
      draw_uniformly(seed, codes);
      if (n % 2 != 0) set_code(codes, n, past_the_end);
      break;
    case CodeData::equal:
      for (std::int64_t i = 0; i < n; ++i) set_code(codes, i, equal_code);
      break;
  }
}

Model to_model(const nlohmann::json& entry) {
  const std::int64_t hidden = entry.at("hidden"), intermediate = entry.at("intermediate"),
                     head = entry.at("head_dim"),
                     query = entry.at("heads").get<std::int64_t>() * head,
                     key_value = entry.at("kv_heads").get<std::int64_t>() * head;
  return {entry.at("id"),
          entry.at("layers"),
          {{"q", query, hidden},
           {"k", key_value, hidden},
           {"v", key_value, hidden},
           {"o", hidden, query},
           {"gate", intermediate, hidden},
           {"up", intermediate, hidden},
           {"down", hidden, intermediate}}};
}

}  // namespace

std::string TensorSpec::format() const {
  return fmt::format("{}/b{}{}{}{}{}", reference::name(output), block_size, nested ? "-nested" : "",
                     data == CodeData::normal ? "" : "/",
                     data == CodeData::normal ? "" : name(data),
                     offset == 0 ? "" : fmt::format("/offset{}", offset));
}

std::uint64_t TensorSpec::bytes_read() const {
  const std::int64_t blocks = reference::block_count(weights(), block_size);
  const std::int64_t scales =
      nested ? blocks + 4 * reference::block_count(blocks, nested_block_size) : 4 * blocks;
  return static_cast<std::uint64_t>(reference::code_bytes(weights()) + scales);
}

std::uint64_t TensorSpec::bytes_written() const {
  return 2 * static_cast<std::uint64_t>(weights());
}

Tensor make_tensor(const TensorSpec& spec, std::uint64_t seed) {
  const std::int64_t n = spec.weights();
  reference::QuantizedTensor quantized{.name = spec.format(),
                                       .shape = {spec.rows, spec.columns},
                                       .n = n,
                                       .block_size = spec.block_size,
                                       .type = spec.output,
                                       .table = reference::standard_table};
  quantized.codes.resize(static_cast<std::size_t>(reference::code_bytes(n)));
  quantized.absmax.resize(static_cast<std::size_t>(reference::block_count(n, spec.block_size)));
  std::vector<std::uint16_t> weights(static_cast<std::size_t>(n));
  reference::normal_weights(seed, 0, spec.output, weight_deviation, weights);
  reference::quantize(weights, spec.output, spec.block_size, quantized.codes, quantized.absmax);
  replace_codes(spec.data, seed, n, quantized.codes);
  if (spec.nested) {
    quantized.nested = reference::quantize_scales(quantized.absmax);
    reference::dequantize_scales(*quantized.nested, quantized.absmax);
  }
  auto expected = reference::dequantize(quantized);
  return {std::move(quantized), std::move(expected)};
}

OutputType output_type(reference::WeightType type) {
  return type == reference::WeightType::fp16 ? OutputType::fp16 : OutputType::bf16;
}

Problem host_problem(const reference::QuantizedTensor& tensor, void* output) {
  Problem problem;
  problem.codes = tensor.codes.data();
  problem.table = tensor.table;
  problem.n = tensor.n;
  problem.block_size = tensor.block_size;
  problem.output = output;
  problem.output_type = output_type(tensor.type);
  if (tensor.nested) {
    problem.nested = {.codes = tensor.nested->codes.data(),
                      .map = tensor.nested->map.data(),
                      .absmax = tensor.nested->absmax.data(),
                      .offset = tensor.nested->offset,
                      .block_size = tensor.nested->block_size};
  } else {
    problem.absmax = tensor.absmax.data();
  }
  return problem;
}

std::int64_t Model::weights() const {
  std::int64_t sum = 0;
  for (const auto& matrix : matrices) sum += matrix.weights();
  return sum * layers;
}

std::int64_t Model::launches() const { return layers * static_cast<std::int64_t>(matrices.size()); }

std::vector<Model> read_models(const std::filesystem::path& path) {
  std::vector<Model> models;
  const auto json = read_json(path);
  for (const auto& entry : json.at("models")) models.push_back(to_model(entry));
  return models;
}

std::vector<Model> select_models(const std::vector<Model>& models,
                                 const std::vector<std::string>& ids) {
  std::vector<Model> selected;
  for (const auto& id : ids) {
    if (std::ranges::find(selected, id, &Model::id) != selected.end()) {
      throw UsageError(fmt::format("model '{}' is named twice", id));
    }
    const auto entry = std::ranges::find(models, id, &Model::id);
    if (entry == models.end()) {
      std::string known;
      for (const auto& model : models) known += (known.empty() ? "" : ", ") + model.id;
      throw UsageError(fmt::format("no model '{}'; known: {}", id, known));
    }
    selected.push_back(*entry);
  }
  return selected;
}

Protocol papers_protocol() {
  const auto json = read_json(project_root() / "data/models.json").at("protocol");
  Protocol protocol{.batches = json.at("batches").get<std::vector<int>>(),
                    .warmup_passes = json.at("warmup_passes"),
                    .profiled_passes = json.at("profiled_passes")};
  for (const auto& [column, models] : json.at("models").items()) {
    for (const auto& model : models) protocol.models.push_back(model);
  }
  return protocol;
}

std::vector<Shape> distinct_shapes(const std::vector<Model>& models) {
  std::vector<Shape> shapes;
  for (const auto& model : models) {
    for (const auto& matrix : model.matrices) {
      auto shape = std::ranges::find_if(shapes, [&](const Shape& known) {
        return known.rows == matrix.rows && known.columns == matrix.columns;
      });
      if (shape == shapes.end()) shape = shapes.insert(shape, {matrix.rows, matrix.columns, {}});
      shape->used_by.push_back(model.id + "." + matrix.name);
    }
  }
  return shapes;
}

}  // namespace reprolab::nf4
