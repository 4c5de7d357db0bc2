#include "reference/checkpoint/quant_state.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/strict_json.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::reference {
namespace {

using nlohmann::json;

/// Python writes non-finite numbers as bare words, which are not JSON. They are replaced by fp64
/// numbers that are far from any fp32 number.
constexpr double infinity_word = std::numeric_limits<double>::max(), nan_word = -1.25e308;

std::string with_numbers_for_words(std::string_view text) {
  const std::array<std::pair<std::string_view, double>, 3> words = {
      {{"-Infinity", -infinity_word}, {"Infinity", infinity_word}, {"NaN", nan_word}}};
  std::string result;
  bool in_string = false;
  while (!text.empty()) {
    std::size_t taken = in_string && text[0] == '\\' ? 2 : 1;  // an escaped quote ends no string
    std::string written(text.substr(0, taken));
    for (const auto& [word, number] : words) {
      if (in_string || !text.starts_with(word)) continue;
      taken = word.size();
      written = fmt::format("{}", number);
    }
    if (text[0] == '"') in_string = !in_string;
    result += written;
    text.remove_prefix(std::min(taken, text.size()));
  }
  return result;
}

const json& member(const json& state, const char* key) {
  const auto entry = state.find(key);
  if (entry == state.end()) throw InvalidJson(fmt::format("has no '{}'", key));
  return *entry;
}

std::string text_member(const json& state, const char* key) {
  const json& value = member(state, key);
  if (!value.is_string()) throw InvalidJson(fmt::format("has a '{}' that is not a string", key));
  return value;
}

std::int64_t whole_number(const json& value, const char* key) {
  if (is_whole_number(value)) return value;
  throw InvalidJson(fmt::format("has a '{}' that is not whole numbers from 0", key));
}

std::optional<WeightType> parse_type(const std::string& dtype) {
  if (dtype == "float16") return WeightType::fp16;
  if (dtype == "bfloat16") return WeightType::bf16;
  if (dtype == "float32") return std::nullopt;
  throw InvalidJson(
      fmt::format("has the dtype {}; known are float16, bfloat16 and float32", quote_name(dtype)));
}

int parse_nested_block_size(const json& state) {
  const std::int64_t size = whole_number(member(state, "nested_blocksize"), "nested_blocksize");
  if (size <= 0 || size > 4096 || (size & (size - 1)) != 0) {
    throw InvalidJson(fmt::format("has the nested_blocksize {}, not a power of two to 4096", size));
  }
  return static_cast<int>(size);
}

float parse_offset(const json& state) {
  const json& value = member(state, "nested_offset");
  if (!value.is_number()) throw InvalidJson("has a nested_offset that is not a number");
  const auto offset = value.get<double>();
  if (offset == nan_word) {
    throw InvalidJson("has a nested_offset of NaN, which makes every weight NaN");
  }
  const bool is_infinite = std::abs(offset) == infinity_word;
  if (!is_infinite && std::abs(offset) > std::numeric_limits<float>::max()) {
    throw InvalidJson("has a nested_offset past the range of fp32");
  }
  return is_infinite ? std::copysign(std::numeric_limits<float>::infinity(), offset)
                     : static_cast<float>(offset);
}

void parse_shape(const json& value, QuantState& parsed) {
  if (!value.is_array()) throw InvalidJson("has a 'shape' that is not a list");
  parsed.elements = 1;
  for (const json& entry : value) {
    parsed.shape.push_back(whole_number(entry, "shape"));
    if (__builtin_mul_overflow(parsed.elements, parsed.shape.back(), &parsed.elements)) {
      throw InvalidJson("has a 'shape' whose product exceeds 64 bits");
    }
  }
}

}  // namespace

QuantState parse_quant_state(std::string_view text) {
  const json state = parse_strict_json(with_numbers_for_words(text), 3);
  if (const std::string type = text_member(state, "quant_type"); type != "nf4") {
    throw InvalidJson(fmt::format("says {}, not NF4", quote_name(type)));
  }
  QuantState parsed;
  const std::int64_t block_size = whole_number(member(state, "blocksize"), "blocksize");
  if (!is_block_size(block_size)) {
    throw InvalidJson(
        fmt::format("has the blocksize {}, not a power of two from 32 to 4096", block_size));
  }
  parsed.block_size = static_cast<int>(block_size);
  parsed.type = parse_type(text_member(state, "dtype"));
  parse_shape(member(state, "shape"), parsed);
  parsed.nested = state.contains("nested_blocksize") || state.contains("nested_offset");
  if (parsed.nested) {
    parsed.nested_block_size = parse_nested_block_size(state);
    parsed.nested_offset = parse_offset(state);
    if (const std::string type = text_member(state, "nested_dtype"); type != "float32") {
      throw InvalidJson(fmt::format("has the nested_dtype {}, not float32", quote_name(type)));
    }
  }
  return parsed;
}

}  // namespace reprolab::reference
