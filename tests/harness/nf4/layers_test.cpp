#include "harness/nf4/layers.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "tests/message_of.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::nf4 {
namespace {

using nlohmann::json;

std::filesystem::path models_file() { return project_root() / "data/models/models.json"; }

json small_model() {
  return {{"id", "small"}, {"hidden", 64},  {"intermediate", 256}, {"layers", 3},
          {"heads", 4},    {"kv_heads", 2}, {"head_dim", 32}};
}

/// The message of read_models for a file that holds only `model`.
std::string complaint(const json& model, const OwnFolder& folder) {
  const auto path = folder.write("models.json", json{{"models", {model}}}.dump());
  return message_of<UsageError>([&] { read_models(path); });
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
  const auto& matrices = models[0].matrices;
  const std::vector<LayerMatrix> expected = {{"q", 128, 64},   {"k", 64, 64},     {"v", 64, 64},
                                             {"o", 64, 128},   {"gate", 256, 64}, {"up", 256, 64},
                                             {"down", 64, 256}};
  ASSERT_EQ(matrices.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(matrices[i].name, expected[i].name);
    EXPECT_EQ(matrices[i].rows, expected[i].rows) << expected[i].name;
    EXPECT_EQ(matrices[i].columns, expected[i].columns) << expected[i].name;
  }
  EXPECT_EQ(models[0].launches(), 21);
  EXPECT_EQ(models[0].weights(), 3 * (2 * 8192 + 2 * 4096 + 3 * 16384));
}

TEST(Layers, DistinctShapesComeOnceInOrderOfFirstUseWithAllTheirUsers) {
  const Model a{"a", 1, {{"q", 8, 4}, {"o", 4, 8}, {"gate", 8, 4}}};
  const Model b{"b", 1, {{"q", 2, 2}, {"k", 4, 8}}};
  const auto shapes = distinct_shapes({a, b});
  ASSERT_EQ(shapes.size(), 3u);
  EXPECT_EQ(shapes[0].rows, 8);
  EXPECT_EQ(shapes[0].columns, 4);
  EXPECT_EQ(shapes[0].used_by, (std::vector<std::string>{"a.q", "a.gate"}));
  EXPECT_EQ(shapes[1].used_by, (std::vector<std::string>{"a.o", "b.k"}));
  EXPECT_EQ(shapes[2].used_by, (std::vector<std::string>{"b.q"}));
  EXPECT_TRUE(distinct_shapes({}).empty());
}

TEST(Layers, SelectedModelsComeInTheOrderAskedFor) {
  const auto models = read_models(models_file());
  const auto selected = select_models(models, {"qwen3-32b", "gemma-2-27b"});
  ASSERT_EQ(selected.size(), 2u);
  EXPECT_EQ(selected[0].id, "qwen3-32b");
  EXPECT_EQ(selected[1].id, "gemma-2-27b");
}

TEST(Layers, AnUnknownModelIsAnErrorThatNamesTheKnownOnes) {
  const std::vector<Model> models = {{"a", 1, {}}, {"b", 1, {}}};
  EXPECT_EQ(message_of<UsageError>([&] {
              select_models(models, {"a", "gpt"});
            }),
            "no model 'gpt'; known: a, b");
}

TEST(Layers, AMissingOrWrongKeyIsAnErrorThatNamesModelAndKey) {
  const OwnFolder folder;
  const std::string file = (folder.path() / "models.json").string();
  for (const char* key : {"hidden", "intermediate", "layers", "heads", "kv_heads", "head_dim"}) {
    const std::string expected = file + ": model 'small' needs a positive '" + key + "'";
    json model = small_model();
    model.erase(key);
    EXPECT_EQ(complaint(model, folder), expected);
    for (const json& wrong : {json(0), json(-4), json("64"), json(1.5), json(nullptr)}) {
      model[key] = wrong;
      EXPECT_EQ(complaint(model, folder), expected) << wrong;
    }
  }
  json nameless = small_model();
  nameless.erase("id");
  nameless.erase("hidden");
  EXPECT_EQ(complaint(nameless, folder), file + ": model '(no id)' needs a positive 'hidden'");
}

TEST(Layers, AFileWithoutModelsIsAnError) {
  const OwnFolder folder;
  for (const char* text : {"{}", "[]", "{\"models\": 3}"}) {
    const std::string file = folder.write("models.json", text).string();
    EXPECT_EQ(message_of<UsageError>([&] { read_models(file); }),
              file + ": needs an array 'models'");
  }
}

}  // namespace
}  // namespace reprolab::nf4
