#include "reference/checkpoint/strict_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reference/checkpoint/invalid_file.hpp"

namespace reprolab::reference {
namespace {

using nlohmann::json;

void reject_repetition(std::vector<std::string>& keys) {
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice == keys.end()) return;
  throw InvalidJson(fmt::format("has the key {} twice", quote_name(*twice)));
}

InvalidJson invalid_at(std::size_t byte) {
  return InvalidJson(fmt::format("is not valid JSON (byte {})", byte));
}

}  // namespace

json parse_strict_json(std::string_view text, int max_depth, const json::parser_callback_t& keep) {
  // nlohmann's reader skips a byte order mark, and treats a NUL as the end of the text.
  if (text.starts_with("\xef\xbb\xbf")) throw invalid_at(1);
  if (const auto nul = text.find('\0'); nul != text.npos) throw invalid_at(nul + 1);
  using Event = json::parse_event_t;
  std::vector<std::vector<std::string>> keys(max_depth);  // of the open objects
  const auto watch = [&](int depth, Event event, json& part) {
    if (event == Event::object_start || event == Event::array_start) {
      if (depth == max_depth) {
        throw InvalidJson(fmt::format("nests deeper than {} levels", max_depth));
      }
      keys[depth].clear();
    }
    if (event == Event::key) keys[depth - 1].push_back(part);
    if (event == Event::object_end) reject_repetition(keys[depth]);
    return !keep || keep(depth, event, part);
  };
  json value;
  try {
    value = json::parse(text, watch);
  } catch (const json::parse_error& error) {
    throw invalid_at(error.byte);
  } catch (const json::out_of_range&) {
    throw InvalidJson("holds a number out of range");
  }
  if (!value.is_object()) throw InvalidJson("is not a JSON object");
  return value;
}

bool is_whole_number(const json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
}

}  // namespace reprolab::reference
