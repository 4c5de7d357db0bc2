#include "reference/checkpoint/quant_state.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/strict_json.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::reference {
namespace {

using nlohmann::json;

constexpr std::string_view infinity_word = "Infinity";
constexpr std::string_view nan_word = "NaN";

/// Python writes non-finite numbers as bare words, which are no JSON: here they become strings, or
/// zeros.
enum class Words { strings, zeros };

std::string with_words_as(Words kind, std::string_view text) {
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string && c == '\\') {
      result += text.substr(i, 2);
      i += 2;
      continue;
    }
    if (c == '"') in_string = !in_string;
    std::string_view word;
    for (const std::string_view candidate :
         {std::string_view("-Infinity"), infinity_word, nan_word}) {
      if (!in_string && text.substr(i).starts_with(candidate)) word = candidate;
    }
    if (word.empty()) {
      result += c;
      ++i;
    } else {
      result += kind == Words::zeros ? "0" : fmt::format("\"{}\"", word);
      i += word.size();
    }
  }
  return result;
}

const json& member(const json& state, const char* key) {
  const auto found = state.find(key);
  if (found == state.end()) throw InvalidQuantState(fmt::format("has no '{}'", key));
  return *found;
}

std::string text_member(const json& state, const char* key) {
  const json& value = member(state, key);
  if (!value.is_string()) throw InvalidQuantState(fmt::format("has a '{}' that is no string", key));
  return value.get<std::string>();
}

std::int64_t whole_number(const json& value, const char* key) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX) {
    throw InvalidQuantState(fmt::format("has a '{}' that is not whole numbers from 0", key));
  }
  return value.get<std::int64_t>();
}

WeightType parse_type(const std::string& dtype) {
  if (dtype == "float16") return WeightType::fp16;
  if (dtype == "bfloat16") return WeightType::bf16;
  throw InvalidQuantState(
      fmt::format("has the dtype {}; only float16 and bfloat16 outputs can be "
                  "verified",
                  quote_name(dtype)));
}

int parse_nested_block_size(const json& state) {
  const std::int64_t size = whole_number(member(state, "nested_blocksize"), "nested_blocksize");
  if (size <= 0 || size > 4096 || (size & (size - 1)) != 0) {
    throw InvalidQuantState(
        fmt::format("has the nested_blocksize {}, not a power of two to 4096", size));
  }
  return static_cast<int>(size);
}

/// `numbers`: the state with zeros for words, which tell a word from a string.
float parse_offset(const json& state, const json& numbers) {
  if (!member(numbers, "nested_offset").is_number()) {
    throw InvalidQuantState("has a nested_offset that is no number");
  }
  const json& value = member(state, "nested_offset");
  if (value == "Infinity") return std::numeric_limits<float>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<float>::infinity();
  if (value == "NaN")
    throw InvalidQuantState("has a nested_offset of NaN, which makes every weight NaN");
  const auto offset = value.get<double>();
  if (std::abs(offset) > std::numeric_limits<float>::max()) {
    throw InvalidQuantState("has a nested_offset past the range of fp32");
  }
  return static_cast<float>(offset);
}

void parse_shape(const json& value, QuantState& parsed) {
  if (!value.is_array()) throw InvalidQuantState("has a 'shape' that is no list");
  parsed.elements = 1;
  for (const json& entry : value) {
    parsed.shape.push_back(whole_number(entry, "shape"));
    if (__builtin_mul_overflow(parsed.elements, parsed.shape.back(), &parsed.elements)) {
      throw InvalidQuantState("has a 'shape' whose product exceeds 64 bits");
    }
  }
}

}  // namespace

QuantState parse_quant_state(std::string_view text) {
  json state, numbers;
  try {
    numbers = parse_strict_json(with_words_as(Words::zeros, text), 3);
    state = parse_strict_json(with_words_as(Words::strings, text), 3);
  } catch (const InvalidJson& error) {
    throw InvalidQuantState(error.what());
  }
  if (const std::string type = text_member(state, "quant_type"); type != "nf4") {
    throw InvalidQuantState(fmt::format("says {}, not NF4", quote_name(type)));
  }
  QuantState parsed;
  const std::int64_t block_size = whole_number(member(state, "blocksize"), "blocksize");
  if (!is_block_size(block_size)) {
    throw InvalidQuantState(
        fmt::format("has the blocksize {}, not a power of two from 32 to 4096", block_size));
  }
  parsed.block_size = static_cast<int>(block_size);
  parsed.type = parse_type(text_member(state, "dtype"));
  parse_shape(member(state, "shape"), parsed);
  parsed.nested = state.contains("nested_blocksize") || state.contains("nested_offset");
  if (parsed.nested) {
    parsed.nested_block_size = parse_nested_block_size(state);
    parsed.nested_offset = parse_offset(state, numbers);
    if (const std::string type = text_member(state, "nested_dtype"); type != "float32") {
      throw InvalidQuantState(
          fmt::format("has the nested_dtype {}, not float32", quote_name(type)));
    }
  }
  return parsed;
}

}  // namespace reprolab::reference
