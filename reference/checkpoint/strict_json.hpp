// JSON from files that are not trusted.
#pragma once

#include <cstdint>
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

/// Receives the parts of a text one by one, in their order. Strings may be moved from.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual void begin_object() {}
  virtual void key(std::string& /*key*/) {}
  virtual void end_object() {}
  virtual void begin_list() {}
  virtual void end_list() {}
  virtual void string(std::string& /*value*/) {}
  virtual void whole_number(std::uint64_t /*value*/) {}  ///< From 0.
  virtual void other_value() {}                          ///< Any other number, true, false, null.
};

/// Reads one JSON object in one pass, in linear memory. Rejects a key that occurs twice in an
/// object (which one counts depends on the reader), nesting deeper than `max_depth` objects and
/// lists, and anything but white space after the object. Throws InvalidJson, maybe after the
/// visitor has received a part. `text` is shorter than 4 GB.
void read_strict_json(std::string_view text, int max_depth, JsonVisitor& visitor);

/// The same as a tree, for short texts.
nlohmann::json parse_strict_json(std::string_view text, int max_depth);

}  // namespace reprolab::reference
