// The table of damaged checkpoints, which the reader in Python is held against as well.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/bnb_checkpoint.hpp"
#include "tests/text.hpp"
#include "tests/verify/checkpoint_builder.hpp"

namespace reprolab::reference {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::vector<BuilderTensor>;

const std::string state_name = "layer.weight.quant_state.bitsandbytes__nf4";

const Json& table() {
  static const Json read = Json::parse(content(DAMAGED_CHECKPOINTS));
  return read;
}

/// A number, or a text where JSON has none.
float number(const Json& value) {
  return value.is_string() ? std::stof(value.get<std::string>()) : value.get<float>();
}

std::string bytes_of(const Json& data) {
  if (data.is_string()) return data.get<std::string>();
  if (data.is_number()) return std::string(data.get<std::size_t>(), '\0');
  std::vector<float> values;
  if (data.is_array()) {
    for (const Json& value : data) values.push_back(number(value));
  } else {
    for (int i = 0; i < data.at("count"); ++i) {
      values.push_back(number(data.at("from")) + static_cast<float>(i) * number(data.at("step")));
    }
  }
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void put(const Json& given, Tensors& tensors) {
  for (const auto& [name, tensor] : given.items()) {
    const std::string data = bytes_of(tensor.at(2));
    const Json shape = tensor.at(1).is_null() ? Json::array({data.size()}) : Json(tensor.at(1));
    std::erase_if(tensors, [&](const auto& there) { return there.name == name; });
    tensors.push_back({name, tensor.at(0), shape.get<std::vector<std::int64_t>>(), data});
  }
}

void replace_state(const Json& old_and_new, Tensors& tensors) {
  const std::string old = old_and_new.at(0);
  BuilderTensor& state = tensor_named(tensors, state_name);
  const std::size_t at = state.data.find(old);
  if (at == std::string::npos) throw std::logic_error("no " + old + " in " + state.data);
  state.data.replace(at, old.size(), old_and_new.at(1).get<std::string>());
  state.shape = {static_cast<std::int64_t>(state.data.size())};
}

/// The bytes of the case's model.safetensors.
std::string model_of(const Json& entry) {
  if (entry.contains("file")) {
    const Json& file = entry.at("file");
    std::string bytes = safetensors_bytes(file.at(1).get<std::string>(), bytes_of(file.at(2)));
    if (const Json& length = file.at(0); !length.is_null()) {
      const auto said = length.get<std::uint64_t>();
      std::memcpy(bytes.data(), &said, sizeof said);
    }
    return bytes;
  }
  Tensors tensors;
  put(table().at("bases").at(entry.value("base", "plain")), tensors);
  put(entry.value("put", Json::object()), tensors);
  if (entry.contains("state")) replace_state(entry.at("state"), tensors);
  for (const auto& name : entry.value("remove", Json::array())) remove_tensor(tensors, name);
  std::string bytes = safetensors_bytes(tensors);
  bytes.resize(bytes.size() - std::min(bytes.size(), entry.value("cut", std::size_t{0})));
  return bytes;
}

void write(const TemporaryFolder& folder, const Json& entry) {
  folder.write(entry.contains("index") ? "model-1.safetensors" : "model.safetensors",
               model_of(entry));
  const Json others = entry.value("beside", Json::object());
  for (const auto& [name, tensors] : others.items()) {
    Tensors beside;
    put(tensors, beside);
    folder.write(name, safetensors_bytes(beside));
  }
  if (entry.contains("index")) folder.write("model.safetensors.index.json", entry.at("index"));
}

struct Case {
  Json entry;
};

void PrintTo(const Case& damaged, std::ostream* out) {
  *out << damaged.entry.at("name").get<std::string>();
}

/// The line that refuses the checkpoint; empty if all of it is read.
std::string refusal(const std::filesystem::path& given) {
  try {
    const BnbCheckpoint checkpoint({given});
    for (const auto& info : checkpoint.tensors()) checkpoint.load(info, 1);
  } catch (const InvalidFile& error) {
    return error.what();
  }
  return {};
}

class DamagedCheckpoint : public testing::TestWithParam<Case> {};

TEST_P(DamagedCheckpoint, GetsOneLineThatNamesTheFault) {
  const Json& entry = GetParam().entry;
  const TemporaryFolder folder;
  write(folder, entry);
  const std::string line = refusal(folder.path());
  if (entry.contains("index")) {
    EXPECT_EQ(refusal(folder.path() / "model.safetensors.index.json"), line);
  }
  if (const Json& expected = entry.at("cpp"); expected.is_object()) {
    EXPECT_FALSE(expected.at("accepts").get<std::string>().empty());
    EXPECT_EQ(line, "");
  } else {
    EXPECT_TRUE(begins(line, folder.path().string()));
    EXPECT_TRUE(contains(line, expected.get<std::string>()));
    EXPECT_TRUE(contains(line, "; ")) << "which is followed by what to do";
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Json& entry : table().at("cases")) all.push_back({entry});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, DamagedCheckpoint, testing::ValuesIn(cases()),
                         [](const auto& info) {
                           return info.param.entry.at("name").template get<std::string>();
                         });

}  // namespace
}  // namespace reprolab::reference
