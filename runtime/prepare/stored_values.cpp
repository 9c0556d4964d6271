#include "runtime/prepare/stored_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/prepare/numbers.h"
#include "runtime/sources/npy.h"

namespace batchflow::prepare {
namespace {

using batch::ElementType;
using Json = nlohmann::json;

constexpr std::size_t kNestingMost = 64;

std::uint64_t numbers_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t size : shape) product = memory::counted_product(product, size);
  return product;
}

bool is_of_reals(ElementType type) {
  return converts(ElementType::f64, type);
}

bool is_value_of(std::int64_t number, ElementType type) {
  if (is_of_reals(type) || type == ElementType::i64) return true;
  const int bits = 8 * static_cast<int>(batch::element_bytes(type));
  const bool is_signed =
      type == ElementType::i8 || type == ElementType::i16 || type == ElementType::i32;
  const std::int64_t most = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  return number <= most && number >= (is_signed ? -most - 1 : 0);
}

// Gathers what stands below a chain of keys.
class JsonReader final : public nlohmann::json_sax<Json> {
 public:
  // Each list that holds numbers has a multiple of `in_list`; 0: any number of them.
  JsonReader(std::string_view key, ElementType type, std::uint64_t in_list, bool wants_text,
             std::vector<std::byte>& out)
      : type_(type), in_list_(in_list), wants_text_(wants_text), out_(out) {
    while (!key.empty()) {
      const std::size_t dot = std::min(key.find('.'), key.size());
      keys_.push_back(key.substr(0, dot));
      key.remove_prefix(std::min(dot + 1, key.size()));
    }
  }
  bool has_text() const { return has_text_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return !is_wanted() || fail("a null stands there"); }
  bool boolean(bool value) override { return number_integer(value ? 1 : 0); }
  bool number_integer(std::int64_t value) override {
    if (!is_wanted()) return true;
    if (wants_text_) return fail("a number stands there, and not a text");
    if (!is_value_of(value, type_))
      return fail(fmt::format("{} is no {}", value, batch::element_name(type_)));
    count();
    std::byte element[8];
    write_integer(value, type_, element);
    put(element);
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return number_integer(static_cast<std::int64_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, const std::string&) override {
    if (!is_wanted()) return true;
    if (wants_text_) return fail("a number stands there, and not a text");
    if (!is_of_reals(type_)) {
      if (value == std::floor(value) && std::fabs(value) < 0x1p53)
        return number_integer(static_cast<std::int64_t>(value));
      return fail(fmt::format("{} is no {}", value, batch::element_name(type_)));
    }
    count();
    std::byte element[8];
    convert(ElementType::f64, std::as_bytes(std::span(&value, 1)).data(), type_, element, 1);
    put(element);
    return true;
  }
  bool string(std::string& value) override {
    if (!is_wanted() || has_text_) return true;
    if (!wants_text_) return fail("a text stands there, and not a number");
    sources::append(out_, sources::as_bytes(value));
    has_text_ = true;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool key(std::string& name) override {
    const std::size_t before = levels_.back().found;
    found_ = before < keys_.size() && keys_[before] == name ? before + 1 : kElsewhere;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override {
    const std::uint64_t numbers = levels_.back().numbers;
    if (in_list_ > 0 && numbers % in_list_ != 0)
      return fail(fmt::format("a list has {} numbers, and a row {}", numbers, in_list_));
    return close();
  }
  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    return fail(fmt::format("it is no JSON from byte {} on", at));
  }

 private:
  static constexpr std::size_t kElsewhere = SIZE_MAX;

  struct Level {
    std::size_t found;          // how many of the keys led to it
    std::uint64_t numbers = 0;  // that stand in it
  };

  bool is_wanted() const { return found_ == keys_.size(); }
  void count() {
    if (!levels_.empty()) ++levels_.back().numbers;
  }
  bool open() {
    if (levels_.size() == kNestingMost) return fail("it is nested too deep");
    levels_.push_back({found_});
    return true;
  }
  bool close() {
    found_ = levels_.back().found;
    levels_.pop_back();
    return true;
  }
  void put(const std::byte* element) {
    sources::append(out_, std::span(element, batch::element_bytes(type_)));
  }
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  const ElementType type_;
  const std::uint64_t in_list_;
  const bool wants_text_;
  std::vector<std::byte>& out_;
  std::vector<std::string_view> keys_;
  std::vector<Level> levels_;
  std::size_t found_ = 0;
  bool has_text_ = false;
  std::string problem_;
};

}  // namespace

// Each number of JSON takes two bytes at least, and each of a NumPy file one.
Bytes StoredValues::needs(const sources::Part& part, const StoredAs& as, ElementType type) {
  const Bytes bytes = part.bytes.size();
  if (as.form == StoredForm::plain) return part.elements() * batch::element_bytes(type);
  return memory::counted_product(as.form == StoredForm::npy ? bytes : bytes / 2 + 1,
                                 batch::element_bytes(type));
}

bool StoredValues::fail(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

bool StoredValues::numbers(const sources::Part& part, const StoredAs& as, ElementType type,
                           const std::vector<std::uint64_t>& shape, bool ragged) {
  result_.clear();
  result_.reserve(needs(part, as, type));
  const std::uint64_t in_list = shape.empty() ? 0 : shape.back();
  const bool read = as.form == StoredForm::plain ? take(part.type, part.bytes, type)
                    : as.form == StoredForm::npy ? read_npy(part, type, shape, ragged)
                                                 : read_json(part, as, type, in_list, false);
  if (!read) return false;
  const std::uint64_t each = numbers_of(shape);
  const std::uint64_t has = result_.size() / batch::element_bytes(type);
  if (ragged ? has % each != 0 : has != each)
    return fail(fmt::format("it has {} numbers, and {} has {}", has,
                            ragged ? "each of its rows" : "the field", each));
  return true;
}

bool StoredValues::columns(std::span<const sources::Part* const> parts, const StoredAs& as,
                           ElementType type) {
  const Bytes each = batch::element_bytes(type);
  rows_.clear();
  for (std::size_t column = 0; column < parts.size(); ++column) {
    if (!numbers(*parts[column], as, type, {}, true)) return false;
    if (column == 0) rows_.resize(result_.size() * parts.size());
    if (result_.size() * parts.size() != rows_.size())
      return fail(fmt::format("'{}' has {} numbers, and '{}' {}", parts[column]->name,
                              result_.size() / each, parts[0]->name,
                              rows_.size() / parts.size() / each));
    for (std::size_t row = 0; row * each < result_.size(); ++row)
      std::memcpy(rows_.data() + (row * parts.size() + column) * each, result_.data() + row * each,
                  each);
  }
  std::swap(result_, rows_);
  return true;
}

bool StoredValues::text(const sources::Part& part, const StoredAs& as) {
  result_.clear();
  result_.reserve(part.bytes.size());
  return read_json(part, as, ElementType::u8, 0, true);
}

bool StoredValues::take(ElementType from, std::span<const std::byte> numbers, ElementType to) {
  if (!converts(from, to))
    return fail(fmt::format("it holds {}, and the field {}", batch::element_name(from),
                            batch::element_name(to)));
  const std::uint64_t count = numbers.size() / batch::element_bytes(from);
  result_.resize(count * batch::element_bytes(to));
  convert(from, numbers.data(), to, result_.data(), count);
  return true;
}

bool StoredValues::read_npy(const sources::Part& part, ElementType type,
                            const std::vector<std::uint64_t>& shape, bool ragged) {
  sources::MemoryView view(part.bytes);
  sources::NpyHeader header;
  if (std::string problem = sources::read_npy_header(view, header); !problem.empty())
    return fail(std::move(problem));
  const std::uint64_t row = numbers_of(header.shape);
  const Bytes all = memory::counted_product(memory::counted_product(header.rows, row),
                                            batch::element_bytes(header.type));
  if (header.data > part.bytes.size() || all != part.bytes.size() - header.data)
    return fail("it has not as many numbers as its header says");
  if (ragged && all > 0 && row != numbers_of(shape))
    return fail(
        fmt::format("its rows have {} numbers, and those of the field {}", row, numbers_of(shape)));
  return take(header.type, part.bytes.subspan(header.data), type);
}

bool StoredValues::read_json(const sources::Part& part, const StoredAs& as, ElementType type,
                             std::uint64_t in_list, bool text) {
  JsonReader reader(as.key, type, in_list, text, result_);
  const std::string_view bytes = sources::as_text(part.bytes);
  if (!Json::sax_parse(bytes.begin(), bytes.end(), &reader))
    return fail(reader.problem().empty() ? "it is no JSON" : reader.problem());
  if (text && !reader.has_text())
    return fail(as.key.empty() ? "it holds no text" : fmt::format("it has no text '{}'", as.key));
  return true;
}

}  // namespace batchflow::prepare
