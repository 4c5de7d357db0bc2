#include "reference/checkpoint/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/strict_json.hpp"

namespace reprolab::reference {
namespace {

struct Dtype {
  std::string_view name;
  int bits;  ///< Per element.
};

constexpr std::array<Dtype, 22> dtypes = {{
    {"F64", 64},        {"F32", 32},        {"F16", 16},    {"BF16", 16},   {"I64", 64},
    {"I32", 32},        {"I16", 16},        {"I8", 8},      {"U64", 64},    {"U32", 32},
    {"U16", 16},        {"U8", 8},          {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
    {"F8_E5M2FNUZ", 8}, {"C64", 64},
}};

/// Receives the header and makes TensorInfos of it. A wrong entry is remembered rather than thrown,
/// because a header that is no valid JSON is said to be that, wherever the fault lies.
class HeaderVisitor : public JsonVisitor {
 public:
  explicit HeaderVisitor(std::uint64_t data_bytes) : data_bytes_(data_bytes) {}

  std::vector<TensorInfo> take_tensors() {
    if (fault_) throw *fault_;
    return std::move(tensors_);
  }

  void begin_object() override {
    if (depth_ >= 2) not_expected();
    ++depth_;
    if (depth_ == 2) entry_ = {};
  }

  void end_object() override {
    if (--depth_ == 1 && !in_metadata_) finish_entry();
  }

  void begin_list() override {
    not_expected();
    ++depth_;
    if (depth_ != 3 || in_metadata_) return;
    if (field_ == Field::shape) entry_.shape_fault = {};
    if (field_ == Field::offsets) entry_.offsets_fault = {};
  }

  void end_list() override { --depth_; }

  void key(std::string& key) override {
    if (depth_ == 1) {
      name_ = std::move(key);
      in_metadata_ = name_ == "__metadata__";
      field_ = Field::none;
    } else if (depth_ == 2 && !in_metadata_) {
      field_ = key == "dtype"          ? Field::dtype
               : key == "shape"        ? Field::shape
               : key == "data_offsets" ? Field::offsets
                                       : Field::none;
      if (field_ == Field::dtype) entry_.dtype_fault = "has a dtype that is not a string";
      if (field_ == Field::shape) entry_.shape_fault = "has a shape that is not a list";
      if (field_ == Field::offsets) entry_.offsets_fault = bad_offsets;
    }
  }

  void string(std::string& value) override {
    if (depth_ == 2 && in_metadata_) return;
    if (depth_ == 2 && field_ == Field::dtype) {
      entry_.dtype = std::move(value);
      entry_.dtype_fault = {};
    } else {
      not_expected();
    }
  }

  void whole_number(std::uint64_t value) override {
    if (depth_ == 3 && field_ == Field::shape && value <= INT64_MAX) {
      const auto size = static_cast<std::int64_t>(value);
      entry_.overflow |= __builtin_mul_overflow(entry_.elements, size, &entry_.elements);
    } else if (depth_ == 3 && field_ == Field::offsets) {
      if (entry_.offset_count < 2) entry_.offsets[entry_.offset_count] = value;
      ++entry_.offset_count;
    } else {
      not_expected();
    }
  }

  void other_value() override { not_expected(); }

 private:
  enum class Field { none, dtype, shape, offsets };
  static constexpr std::string_view bad_offsets =
      "has data_offsets that are not two whole numbers from 0";

  /// The entry that is being read. A fault is empty when there is none.
  struct Entry {
    std::string dtype{};
    std::string_view dtype_fault = "has no 'dtype' in the header";
    std::string_view shape_fault = "has no 'shape' in the header";
    std::string_view offsets_fault = "has no 'data_offsets' in the header";
    std::int64_t elements = 1;  ///< The product of the dimensions.
    bool overflow = false;
    std::array<std::uint64_t, 2> offsets{};
    std::uint64_t offset_count = 0;
  };

  /// A value where the format has none, or one of another kind. What an unknown key holds is free.
  void not_expected() {
    if (depth_ == 1) {
      remember(in_metadata_ ? "is not an object" : "has a header entry that is not an object");
    } else if (in_metadata_) {
      if (depth_ == 2) remember("holds a value that is not a string");
    } else if (depth_ >= 3 && field_ == Field::shape) {
      entry_.shape_fault = "has a shape that is not whole numbers from 0";
    } else if (depth_ >= 3 && field_ == Field::offsets) {
      entry_.offsets_fault = bad_offsets;
    }
  }

  void remember(const std::string& fault) {
    if (!fault_) fault_.emplace(name_, fault);
  }

  void finish_entry() {
    if (fault_) return;
    try {
      tensors_.push_back(checked_tensor());
    } catch (const InvalidEntry& fault) {
      fault_ = fault;
    }
  }

  TensorInfo checked_tensor() {
    require(entry_.dtype_fault.empty(), entry_.dtype_fault);
    const auto dtype = std::find_if(dtypes.begin(), dtypes.end(), [this](const Dtype& known) {
      return known.name == entry_.dtype;
    });
    if (dtype == dtypes.end()) {
      fail(fmt::format("has the unknown dtype {}", quote_name(entry_.dtype)));
    }
    require(entry_.shape_fault.empty(), entry_.shape_fault);
    require(!entry_.overflow, "has a shape whose product exceeds 64 bits");
    require(entry_.offsets_fault.empty(), entry_.offsets_fault);
    require(entry_.offset_count == 2, bad_offsets);
    const auto [begin, end] = entry_.offsets;
    if (begin > end) fail(fmt::format("ends ({}) before it begins ({})", end, begin));
    if (end > data_bytes_) {
      fail(fmt::format("ends at byte {} of the data, but the file has {} bytes of data", end,
                       data_bytes_));
    }
    std::int64_t bits = 0;
    require(!__builtin_mul_overflow(entry_.elements, static_cast<std::int64_t>(dtype->bits), &bits),
            "has more bytes than 64 bits can count");
    require(bits % 8 == 0, "does not fill whole bytes");
    const auto size_bytes = static_cast<std::uint64_t>(bits / 8);
    if (size_bytes != end - begin) {
      fail(fmt::format("needs {} bytes for its shape and dtype {}, but its data_offsets span {}",
                       size_bytes, dtype->name, end - begin));
    }
    return {std::move(name_), dtype->name, entry_.elements, begin, size_bytes};
  }

  void require(bool condition, std::string_view fault) const {
    if (!condition) fail(std::string(fault));
  }

  [[noreturn]] void fail(const std::string& fault) const { throw InvalidEntry(name_, fault); }

  std::uint64_t data_bytes_;
  std::vector<TensorInfo> tensors_;
  std::optional<InvalidEntry> fault_;
  int depth_ = 0;     ///< Of the open objects and lists.
  std::string name_;  ///< The key of the entry.
  bool in_metadata_ = false;
  Field field_ = Field::none;
  Entry entry_;
};

}  // namespace

std::vector<TensorInfo> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  if (!text.starts_with('{')) throw InvalidJson("does not begin with '{'");
  HeaderVisitor visitor(data_bytes);
  read_strict_json(text, 4, visitor);
  return visitor.take_tensors();
}

}  // namespace reprolab::reference
