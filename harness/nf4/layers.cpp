#include "harness/nf4/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"

namespace reprolab::nf4 {
namespace {

Model to_model(const nlohmann::json& entry, const std::filesystem::path& path) {
  const std::string id = entry.value("id", "(no id)");
  const auto positive = [&](const char* key) {
    const auto value = entry.find(key);
    if (value == entry.end() || !value->is_number_integer() || value->get<std::int64_t>() <= 0) {
      throw UsageError(fmt::format("{}: model '{}' needs a positive '{}'", path.string(), id, key));
    }
    return value->get<std::int64_t>();
  };
  const auto hidden = positive("hidden");
  const auto intermediate = positive("intermediate");
  const auto query = positive("heads") * positive("head_dim");
  const auto key_value = positive("kv_heads") * positive("head_dim");
  return {id,
          positive("layers"),
          {{"q", query, hidden},
           {"k", key_value, hidden},
           {"v", key_value, hidden},
           {"o", hidden, query},
           {"gate", intermediate, hidden},
           {"up", intermediate, hidden},
           {"down", hidden, intermediate}}};
}

}  // namespace

std::int64_t Model::weights() const {
  std::int64_t sum = 0;
  for (const auto& matrix : matrices) sum += matrix.weights();
  return sum * layers;
}

std::int64_t Model::launches() const { return layers * static_cast<std::int64_t>(matrices.size()); }

std::vector<Model> read_models(const std::filesystem::path& path) {
  const auto json = read_json(path);
  if (!json.contains("models") || !json["models"].is_array()) {
    throw UsageError(fmt::format("{}: needs an array 'models'", path.string()));
  }
  std::vector<Model> models;
  for (const auto& entry : json["models"]) models.push_back(to_model(entry, path));
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
  const auto path = project_root() / "data/models.json";
  try {
    const auto json = read_json(path).at("protocol");
    Protocol protocol{.batches = json.at("batches").get<std::vector<int>>(),
                      .warmup_passes = json.at("warmup_passes"),
                      .profiled_passes = json.at("profiled_passes")};
    for (const auto& [column, models] : json.at("models").items()) {
      for (const auto& model : models) protocol.models.push_back(model);
    }
    return protocol;
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

std::vector<Shape> distinct_shapes(const std::vector<Model>& models) {
  std::vector<Shape> shapes;
  for (const auto& model : models) {
    for (const auto& matrix : model.matrices) {
      auto shape = std::ranges::find_if(shapes, [&](const Shape& known) {
        return known.rows == matrix.rows && known.columns == matrix.columns;
      });
      if (shape == shapes.end()) {
        shapes.push_back({matrix.rows, matrix.columns, {}});
        shape = shapes.end() - 1;
      }
      shape->used_by.push_back(model.id + "." + matrix.name);
    }
  }
  return shapes;
}

}  // namespace reprolab::nf4
