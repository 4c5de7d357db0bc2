#include "reference/strict_json.hpp"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "reference/invalid_file.hpp"

namespace reprolab::reference {

using nlohmann::json;

json parse_strict_json(std::string_view text, int max_depth) {
  int depth = 0;
  std::vector<std::set<std::string>> keys;  // of the currently open objects
  const auto check = [&](int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (++depth > max_depth) {
          throw InvalidJson(fmt::format("nests deeper than {} levels", max_depth));
        }
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        break;
      case json::parse_event_t::object_end:
        keys.pop_back();
        [[fallthrough]];
      case json::parse_event_t::array_end:
        --depth;
        break;
      case json::parse_event_t::key:
        if (const auto& key = parsed.get_ref<const std::string&>(); !keys.back().insert(key).second)
          throw InvalidJson(fmt::format("has the key {} twice", quote_name(key)));
        break;
      case json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    json parsed = json::parse(text.begin(), text.end(), check);
    if (!parsed.is_object()) throw InvalidJson("is not a JSON object");
    return parsed;
  } catch (const json::parse_error& error) {
    throw InvalidJson(fmt::format("is not valid JSON (byte {})", error.byte));
  } catch (const json::exception&) {  // a number past the range of double
    throw InvalidJson("holds a number out of range");
  }
}

}  // namespace reprolab::reference
