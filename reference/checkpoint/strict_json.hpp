// JSON from files that are not trusted.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace reprolab::reference {

/// An error in a text or its content, as the predicate of a sentence: "is not valid
/// JSON (byte 12)".
struct InvalidJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads a text that is one JSON object. Rejects a key that occurs twice in an object (readers
/// differ in which one they use), nesting deeper than `max_depth` objects and lists, and anything
/// except white space after the object. Throws InvalidJson. `keep` is called as by nlohmann's
/// reader: what it drops takes no memory.
nlohmann::json parse_strict_json(std::string_view text, int max_depth,
                                 const nlohmann::json::parser_callback_t& keep = nullptr);

/// Whether `value` is a non-negative integer that fits in a signed 64-bit number.
bool is_whole_number(const nlohmann::json& value);

}  // namespace reprolab::reference
