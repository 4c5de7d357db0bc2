// The table of damaged checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"
#include "tests/text.hpp"

namespace reprolab::reference {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::vector<BuilderTensor>;

const std::string state_name = "layer.weight.quant_state.bitsandbytes__nf4";

const Json& table() {
  static const Json read = Json::parse(content_of(DAMAGED_CHECKPOINTS));
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

std::string replaced(std::string text, const Json& old_and_new) {
  const std::string old = old_and_new.at(0);
  const std::size_t at = text.find(old);
  if (at == std::string::npos) throw std::logic_error("no " + old + " in " + text);
  return text.replace(at, old.size(), old_and_new.at(1).get<std::string>());
}

void replace_state(const Json& old_and_new, Tensors& tensors) {
  BuilderTensor& state = tensor_named(tensors, state_name);
  state.data = replaced(state.data, old_and_new);
  state.shape = {static_cast<std::int64_t>(state.data.size())};
}

std::string with_header_replaced(const std::string& bytes, const Json& old_and_new) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return safetensors_bytes(replaced(bytes.substr(8, length), old_and_new),
                           bytes.substr(8 + length));
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
  if (entry.contains("header")) bytes = with_header_replaced(bytes, entry.at("header"));
  bytes.resize(bytes.size() - std::min(bytes.size(), entry.value("cut", std::size_t{0})));
  return bytes;
}

void write(const OwnFolder& folder, const Json& entry) {
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
  const OwnFolder folder;
  write(folder, entry);
  const std::string line = refusal(folder.path());
  if (entry.contains("index")) {
    EXPECT_EQ(refusal(folder.path() / "model.safetensors.index.json"), line);
  }
  if (const Json& expected = entry.at("says"); expected.is_object()) {
    EXPECT_FALSE(expected.at("accepts").get<std::string>().empty());
    EXPECT_EQ(line, "");
  } else {
    EXPECT_TRUE(begins(line, folder.path().string()));
    EXPECT_TRUE(contains(line, expected.get<std::string>()));
    EXPECT_TRUE(contains(line, "; ")) << "which is followed by what to do";
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

class Sweep : public testing::TestWithParam<Case> {};

TEST_P(Sweep, TakesWhatTheTableSays) {
  const Json& sweep = GetParam().entry;
  const OwnFolder folder;
  Json accepted = Json::array();
  const Json& by = sweep.at("by") == "values" ? table().at("values") : sweep.at("by");
  for (const Json& old : sweep.at("replace")) {
    for (const Json& value : by) {
      const Json change = {old, value};
      write(folder, {{"base", sweep.at("base")},
                     {sweep.at("of"),
                      sweep.contains("text") ? Json(replaced(sweep.at("text"), change)) : change}});
      if (refusal(folder.path()).empty()) accepted.push_back(change);
    }
  }
  EXPECT_EQ(accepted, sweep.at("accepts"));
}

std::vector<Case> all(const char* kind) {
  std::vector<Case> cases;
  for (const Json& entry : table().at(kind)) cases.push_back({entry});
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.entry.at("name");
}

INSTANTIATE_TEST_SUITE_P(Table, DamagedCheckpoint, testing::ValuesIn(all("cases")), name_of);
INSTANTIATE_TEST_SUITE_P(Table, Sweep, testing::ValuesIn(all("sweeps")), name_of);

}  // namespace
}  // namespace reprolab::reference
