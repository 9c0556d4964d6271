#include "runtime/sources/npy.h"

#include <fmt/format.h>

#include <optional>

namespace batchflow::sources {
namespace {

constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};
constexpr std::size_t kHeaderMost = 64 << 10;
constexpr std::string_view kDamaged = "its header is damaged; save it again with numpy.save";

// The Python literal of a header: a dictionary of strings, truth values and tuples of numbers.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> text() {
    skip_blanks();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::optional<bool> truth() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    return std::nullopt;
  }
  std::optional<std::vector<std::uint64_t>> numbers() {
    std::vector<std::uint64_t> numbers;
    if (!take('(')) return std::nullopt;
    while (!take(')')) {
      const auto value = number();
      if (!value || numbers.size() > batch::Field::kDimensionsMost) return std::nullopt;
      numbers.push_back(*value);
      if (take(',')) continue;
      if (!take(')')) return std::nullopt;
      break;
    }
    return numbers;
  }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }
  std::optional<std::uint64_t> number() {
    skip_blanks();
    std::uint64_t value = 0;
    std::size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      if (digits == 18) return std::nullopt;
      value = value * 10 + static_cast<std::uint64_t>(rest_[digits] - '0');
    }
    if (digits == 0) return std::nullopt;
    rest_.remove_prefix(digits);
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // as Python 2 wrote it
    return value;
  }

  std::string_view rest_;
};

std::optional<batch::ElementType> element_of(std::string_view type) {
  if (type == "|b1") return batch::ElementType::u8;
  if (type.size() != 3 || (type[0] != '<' && type[0] != '|')) return std::nullopt;
  struct Name {
    std::string_view name;
    batch::ElementType type;
  };
  constexpr Name kNames[] = {{"u1", batch::ElementType::u8},  {"i1", batch::ElementType::i8},
                             {"u2", batch::ElementType::u16}, {"i2", batch::ElementType::i16},
                             {"i4", batch::ElementType::i32}, {"i8", batch::ElementType::i64},
                             {"f2", batch::ElementType::f16}, {"f4", batch::ElementType::f32},
                             {"f8", batch::ElementType::f64}};
  for (const Name& name : kNames)
    if (type.substr(1) == name.name) return name.type;
  return std::nullopt;
}

std::string read_literal(std::string_view text, NpyHeader& header) {
  Literal literal(text);
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<bool> fortran;
  std::string type;
  if (!literal.take('{')) return std::string(kDamaged);
  while (!literal.take('}')) {
    const auto key = literal.text();
    if (!key || !literal.take(':')) return std::string(kDamaged);
    if (*key == "descr") {
      const auto value = literal.text();
      if (!value)
        return "its elements are records; save each column as an array of its own with numpy.save";
      type = *value;
    } else if (*key == "fortran_order") {
      fortran = literal.truth();
    } else if (*key == "shape") {
      shape = literal.numbers();
    } else {
      return std::string(kDamaged);
    }
    if (!literal.take(',') && !literal.take('}')) return std::string(kDamaged);
    if (literal.at_end()) break;
  }
  if (!literal.at_end() || !shape || !fortran || type.empty()) return std::string(kDamaged);
  const auto element = element_of(type);
  if (!element)
    return fmt::format(
        "a batch cannot have its type {}; save array.astype('<i8') or "
        "another of |u1 |i1 <u2 <i2 <i4 <i8 <f2 <f4 <f8",
        type);
  if (shape->empty()) return "it is a single number; save an array with one row a sample";
  if (*fortran && shape->size() > 1)
    return "it is stored by columns; save numpy.ascontiguousarray(array)";
  header.type = *element;
  header.rows = shape->front();
  header.shape.assign(shape->begin() + 1, shape->end());
  return {};
}

}  // namespace

std::string read_npy_header(ByteView& file, NpyHeader& header) {
  const auto seen = file.view(0, 12);
  if (!as_text(seen).starts_with(kNpyMagic))
    return "it is not a NumPy file; write the format that it has";
  if (seen.size() < 12) return std::string(kDamaged);
  const auto version = std::to_integer<unsigned>(seen[6]);
  const std::size_t begin = version == 1 ? 10 : 12;
  const std::size_t length =
      version == 1 ? load<std::uint16_t>(seen, 8) : load<std::uint32_t>(seen, 8);
  if (version < 1 || version > 3)
    return fmt::format("it has version {}, and this program reads 1 to 3; save it again", version);
  if (length > kHeaderMost) return std::string(kDamaged);
  const auto text = file.view(begin, length);
  if (text.size() < length) return std::string(kDamaged);
  header.data = begin + length;
  return read_literal(as_text(text), header);
}

}  // namespace batchflow::sources
