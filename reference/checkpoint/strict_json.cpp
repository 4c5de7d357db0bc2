#include "reference/checkpoint/strict_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "reference/checkpoint/invalid_file.hpp"

namespace reprolab::reference {
namespace {

using nlohmann::json;

/// The keys of one object. They lie one after another, because an object may have millions.
class Keys {
 public:
  void clear() {
    text_.clear();
    ends_.clear();
  }

  void add(std::string_view key) {
    text_ += key;
    ends_.push_back(static_cast<std::uint32_t>(text_.size()));
  }

  void reject_repetition() {
    order_.resize(ends_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(),
              [this](std::uint32_t a, std::uint32_t b) { return at(a) < at(b); });
    const auto twice =
        std::adjacent_find(order_.begin(), order_.end(),
                           [this](std::uint32_t a, std::uint32_t b) { return at(a) == at(b); });
    if (twice != order_.end()) {
      throw InvalidJson(fmt::format("has the key {} twice", quote_name(at(*twice))));
    }
  }

 private:
  std::string_view at(std::uint32_t index) const {
    const std::uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(text_).substr(begin, ends_[index] - begin);
  }

  std::string text_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> order_;
};

/// Between nlohmann's reader, whose names and results these are, and a visitor.
class StrictReader {
 public:
  StrictReader(int max_depth, JsonVisitor& visitor) : keys_(max_depth), visitor_(visitor) {}

  bool is_object() const { return is_object_; }

  bool null() { return other_value(); }
  bool boolean(bool) { return other_value(); }
  bool number_integer(json::number_integer_t) { return other_value(); }
  bool number_float(json::number_float_t, const std::string&) { return other_value(); }
  bool binary(json::binary_t&) { return other_value(); }

  bool number_unsigned(json::number_unsigned_t value) {
    if (is_object_) visitor_.whole_number(value);
    return true;
  }

  bool string(std::string& value) {
    if (is_object_) visitor_.string(value);
    return true;
  }

  bool start_object(std::size_t) {
    if (depth_ == 0) is_object_ = true;
    enter();
    keys_[depth_ - 1].clear();
    if (is_object_) visitor_.begin_object();
    return true;
  }

  bool key(std::string& key) {
    keys_[depth_ - 1].add(key);
    if (is_object_) visitor_.key(key);
    return true;
  }

  bool end_object() {
    keys_[--depth_].reject_repetition();
    if (is_object_) visitor_.end_object();
    return true;
  }

  bool start_array(std::size_t) {
    enter();
    if (is_object_) visitor_.begin_list();
    return true;
  }

  bool end_array() {
    --depth_;
    if (is_object_) visitor_.end_list();
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const json::exception& error) {
    constexpr int number_out_of_range = 406;
    if (error.id == number_out_of_range) throw InvalidJson("holds a number out of range");
    throw InvalidJson(fmt::format("is not valid JSON (byte {})", byte));
  }

 private:
  bool other_value() {
    if (is_object_) visitor_.other_value();
    return true;
  }

  void enter() {
    if (++depth_ > keys_.size()) {
      throw InvalidJson(fmt::format("nests deeper than {} levels", keys_.size()));
    }
  }

  std::vector<Keys> keys_;  ///< Of the open objects, by depth.
  std::size_t depth_ = 0;
  bool is_object_ = false;  ///< The outermost value is one; of other values no part is passed on.
  JsonVisitor& visitor_;
};

/// Rejects what nlohmann's reader would accept or not bear: it takes a NUL for the end of the text,
/// skips a byte order mark, and copies the token of a fault several times into its message.
void reject_hostile_tokens(std::string_view text) {
  constexpr std::size_t longest_number = 1000;  // characters; of fp64, all digits are 767
  const auto reject_byte = [](std::size_t index) {
    throw InvalidJson(fmt::format("is not valid JSON (byte {})", index + 1));
  };
  if (text.starts_with("\xef\xbb\xbf")) reject_byte(0);
  bool in_string = false;
  std::size_t run = 0;  // of characters that a number may consist of
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0' || (in_string && static_cast<unsigned char>(c) < 0x20)) reject_byte(i);
    if (c == '"') in_string = !in_string;
    if (c == '\\' && in_string) ++i;
    const bool of_number =
        (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
    run = of_number && !in_string ? run + 1 : 0;
    if (run > longest_number) throw InvalidJson("holds a number out of range");
  }
  if (in_string) reject_byte(text.size());
}

}  // namespace

void read_strict_json(std::string_view text, int max_depth, JsonVisitor& visitor) {
  reject_hostile_tokens(text);
  StrictReader reader(max_depth, visitor);
  json::sax_parse(text.begin(), text.end(), &reader);
  if (!reader.is_object()) throw InvalidJson("is not a JSON object");
}

json parse_strict_json(std::string_view text, int max_depth) {
  JsonVisitor nothing;
  read_strict_json(text, max_depth, nothing);
  return json::parse(text);
}

}  // namespace reprolab::reference
