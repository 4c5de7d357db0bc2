// JSON from files that are not trusted.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprolab::reference {

/// What is wrong with a text, as the predicate of a sentence: "is not valid JSON (byte 12)".
class InvalidJson : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses one JSON object. Rejects a key that occurs twice in an object (which one counts depends
/// on the reader) and nesting deeper than `max_depth` objects and arrays. Throws InvalidJson.
nlohmann::json parse_strict_json(std::string_view text, int max_depth);

}  // namespace reprolab::reference
