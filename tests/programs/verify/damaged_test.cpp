// The table of damaged checkpoints, cases that it cannot contain, and thousands of randomly damaged
// files: each is either read completely or refused with InvalidFile. Run under the preset asan,
// this also shows that nothing is read past the end of a file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"
#include "tests/refusal.hpp"
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
  const Json others = entry.value("others", Json::object());
  for (const auto& [name, tensors] : others.items()) {
    Tensors other;
    put(tensors, other);
    folder.write(name, safetensors_bytes(other));
  }
  if (entry.contains("index")) folder.write("model.safetensors.index.json", entry.at("index"));
}

/// The error line for the checkpoint; empty if all of it is read.
std::string refusal(const std::filesystem::path& given) {
  try {
    const BnbCheckpoint checkpoint({given});
    for (const auto& info : checkpoint.tensors()) {
      dequantize(checkpoint.load(info, 1), 1);
      if (info.dequantized) checkpoint.load_bits(*info.dequantized);
    }
  } catch (const InvalidFile& error) {
    return error.what();
  }
  return {};
}

TEST(DamagedCheckpoint, GetsOneLineThatNamesTheFault) {
  for (const Json& entry : table().at("cases")) {
    SCOPED_TRACE(entry.at("name"));
    const OwnFolder folder;
    write(folder, entry);
    const std::string line = refusal(folder.path());
    if (entry.contains("index")) {
      EXPECT_EQ(refusal(folder.path() / "model.safetensors.index.json"), line);
    }
    if (entry.contains("accepts")) {
      EXPECT_FALSE(entry.at("accepts").get<std::string>().empty());
      EXPECT_EQ(line, "");
    } else {
      EXPECT_TRUE(begins(line, folder.path().string()));
      EXPECT_TRUE(contains(line, "; ")) << "the remedy";
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  }
}

TEST(DamagedCheckpoint, IsAcceptedWhereTheTableSaysSo) {
  for (const Json& sweep : table().at("sweeps")) {
    SCOPED_TRACE(sweep.at("name"));
    const OwnFolder folder;
    const MemoryFile file;
    Json accepted = Json::array();
    const Json& by = sweep.at("by") == "values" ? table().at("values") : sweep.at("by");
    for (const Json& old : sweep.at("replace")) {
      for (const Json& value : by) {
        const Json change = {old, value};
        const bool of_index = sweep.at("of") == "index";
        const Json entry = {
            {"base", sweep.at("base")},
            {sweep.at("of"), of_index ? Json(replaced(sweep.at("text"), change)) : change}};
        if (of_index) write(folder, entry);
        const auto given = of_index ? folder.path() : file.write(model_of(entry));
        if (refusal(given).empty()) accepted.push_back(change);
      }
    }
    EXPECT_EQ(accepted, sweep.at("accepts"));
  }
}

TEST(DamagedCheckpoint, MayBeNoTextOrNestWithoutEndOrHoldNothing) {
  const OwnFolder folder;
  EXPECT_TRUE(contains(refusal(folder.path()), "safetensors"));
  for (const auto& header :
       {std::string("{\"\xff\":1}"), R"({"t":)" + std::string(1'000'000, '[')}) {
    EXPECT_TRUE(contains(refusal(folder.write("a.safetensors", safetensors_bytes(header, ""))),
                         "safetensors"));
  }
}

TEST(SpecialOffset, InfinityAsPythonWritesItKeepsItsSign) {
  const OwnFolder folder;
  for (const std::string word : {"Infinity", "-Infinity"}) {
    Tensors tensors;
    put(table().at("bases").at("nested"), tensors);
    replace_state({"0.25", word}, tensors);
    const BnbCheckpoint checkpoint({folder.write("a", safetensors_bytes(tensors))});
    const float offset = checkpoint.tensors()[0].state.nested_offset;
    EXPECT_TRUE(std::isinf(offset) && (offset < 0) == (word[0] == '-'));
  }
}

/// One to three damages of `bytes`, of which the first 8 are a length.
std::string damaged(std::string bytes, std::uint32_t seed) {
  std::mt19937 random(seed);  // its sequence is fixed by the standard
  const auto below = [&](std::size_t bound) { return random() % bound; };
  for (auto changes = 1 + below(3); changes > 0 && bytes.size() > 8; --changes) {
    char& any = bytes[below(bytes.size())];
    switch (below(6)) {
      case 0:
        any ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        any = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(below(bytes.size()));
        break;
      case 3:
        bytes.append(1 + below(64), static_cast<char>(below(256)));
        break;
      case 4: {  // a length a little off, or far
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data(), 8);
        length = below(2) == 0 ? random() : length + below(32) - 16;
        std::memcpy(bytes.data(), &length, 8);
        break;
      }
      case 5: {  // an offset, a shape or a block size: any digit
        const auto digit = bytes.find_first_of("0123456789", below(bytes.size()));
        if (digit != bytes.npos) bytes[digit] = static_cast<char>('0' + below(10));
        break;
      }
    }
  }
  return bytes;
}

/// `write` writes the damaged text and returns what to read.
void expect_read_or_refused(const std::string& sound, int mutations,
                            const std::function<std::filesystem::path(const std::string&)>& write) {
  ASSERT_EQ(refusal(write(sound)), "");
  int accepted = 0;
  for (int seed = 0; seed < mutations; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_NO_THROW(accepted += refusal(write(damaged(sound, seed))).empty());
  }
  EXPECT_GT(accepted, 0) << "mutations of data, numbers and white space";
  EXPECT_LT(accepted, mutations / 2) << accepted;
}

TEST(Mutation, EveryDamagedFileIsReadOrRefused) {
  const MemoryFile file;
  for (const bool nested : {false, true}) {
    expect_read_or_refused(safetensors_bytes(valid_tensors({.nested = nested})), 3000,
                           [&](const std::string& bytes) { return file.write(bytes); });
  }
}

/// The same bytes are damaged as in a file; it does not matter that the first 8 are not a length.
TEST(Mutation, EveryDamagedIndexIsReadOrRefused) {
  const OwnFolder folder;
  write_shards(folder, valid_tensors({.nested = true}), 1200);
  const std::string index = "model.safetensors.index.json";
  expect_read_or_refused(content_of(folder.path() / index), 300,
                         [&](const std::string& text) { return folder.write(index, text); });
}

TEST(Truncation, AFileCutAnywhereIsRefused) {
  const MemoryFile file;
  const std::string sound = safetensors_bytes(valid_tensors());
  for (std::size_t size = 0; size < sound.size(); ++size) {
    ASSERT_NE(refusal(file.write(sound.substr(0, size))), "") << size;
  }
}

}  // namespace
}  // namespace reprolab::reference
