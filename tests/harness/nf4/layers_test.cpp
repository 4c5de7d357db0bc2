#include "harness/nf4/layers.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::nf4 {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

std::filesystem::path models_file() { return project_root() / "data/models.json"; }

json small_model() {
  return {{"id", "small"}, {"hidden", 64},  {"intermediate", 256}, {"layers", 3},
          {"heads", 4},    {"kv_heads", 2}, {"head_dim", 32}};
}

TEST(Layers, WeightsAndLaunchesOfEveryModelAreThosePublished) {
  const auto models = read_models(models_file());
  const json file = read_json(models_file());
  ASSERT_EQ(models.size(), file["models"].size());
  int published = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const json& entry = file["models"][i];
    EXPECT_EQ(models[i].id, entry["id"].get<std::string>());
    EXPECT_EQ(models[i].layers, entry["layers"].get<std::int64_t>());
    if (!entry.contains("nf4_weights")) continue;
    ++published;
    EXPECT_EQ(models[i].weights(), entry["nf4_weights"].get<std::int64_t>()) << models[i].id;
    EXPECT_EQ(models[i].launches(), entry["launches_per_forward"].get<std::int64_t>())
        << models[i].id;
  }
  EXPECT_GE(published, 4);
}

TEST(Layers, MatricesOfOneLayerInTheOrderOfUse) {
  const OwnFolder folder;
  const auto models =
      read_models(folder.write("models.json", json{{"models", {small_model()}}}.dump()));
  ASSERT_EQ(models.size(), 1u);
  Names matrices;
  for (const auto& [name, rows, columns] : models[0].matrices) {
    matrices.push_back(name + " " + std::to_string(rows) + "x" + std::to_string(columns));
  }
  EXPECT_EQ(matrices, (Names{"q 128x64", "k 64x64", "v 64x64", "o 64x128", "gate 256x64",
                             "up 256x64", "down 64x256"}));
  EXPECT_EQ(models[0].launches(), 21);
  EXPECT_EQ(models[0].weights(), 3 * (2 * 8192 + 2 * 4096 + 3 * 16384));
}

}  // namespace
}  // namespace reprolab::nf4
