#include "runtime/sources/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/sources/byte_view.h"

namespace batchflow::sources {
namespace {

using Kind = Column::Kind;

constexpr auto kLabels = std::to_array<std::string_view>(
    {"label", "labels", "cls", "class", "class_id", "target", "fine_label", "y"});

std::string described(std::span<const Column> columns) {
  std::string text;
  for (const Column& one : columns)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.name, one.type);
  return text;
}

std::optional<std::size_t> named(std::span<const Column> columns, std::string_view name) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].name == name) return i;
  return std::nullopt;
}

std::optional<std::size_t> first_of(std::span<const Column> columns, Kind kind) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].kind == kind) return i;
  return std::nullopt;
}

std::optional<std::size_t> obvious_sample(std::span<const Column> columns) {
  for (const Kind kind : {Kind::picture, Kind::bytes, Kind::numbers, Kind::text})
    if (const auto found = first_of(columns, kind)) return found;
  return std::nullopt;
}

// By its name, or as the only whole number beside the sample.
std::optional<std::size_t> obvious_label(std::span<const Column> columns) {
  for (const std::string_view name : kLabels)
    if (const auto found = named(columns, name);
        found && columns[*found].kind == Kind::whole_number)
      return found;
  const auto is_number = [](const Column& one) { return one.kind == Kind::whole_number; };
  if (std::count_if(columns.begin(), columns.end(), is_number) != 1) return std::nullopt;
  return first_of(columns, Kind::whole_number);
}

}  // namespace

ChosenColumns choose_columns(std::span<const Column> columns, std::string_view sample,
                             std::string_view label) {
  ChosenColumns chosen;
  const auto refuse = [&](std::string problem) {
    chosen.problem = fmt::format("{}; its columns are {}", problem, described(columns));
    return chosen;
  };
  const auto found = sample.empty() ? obvious_sample(columns) : named(columns, sample);
  if (!found && !sample.empty()) return refuse(fmt::format("it has no column '{}'", sample));
  if (!found)
    return refuse(
        "none of its columns can be a sample; a sample is bytes, text, or numbers of one shape");
  chosen.sample = *found;
  const Column& its = columns[*found];
  if (its.kind == Kind::other || its.kind == Kind::whole_number)
    return refuse(
        fmt::format("column '{}' is {}, and a sample is bytes, text, or numbers of one "
                    "shape; name another (column=NAME)",
                    its.name, its.type));
  if (!label.empty()) {
    chosen.label = named(columns, label);
    if (!chosen.label) return refuse(fmt::format("it has no column '{}'", label));
    if (columns[*chosen.label].kind != Kind::whole_number)
      return refuse(
          fmt::format("column '{}' is no whole number, which a label is; name another "
                      "(label=NAME)",
                      label));
  } else {
    chosen.label = obvious_label(columns);
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i == chosen.sample || i == chosen.label) continue;
    chosen.left_out += fmt::format("{}{}", chosen.left_out.empty() ? "" : ", ", columns[i].name);
  }
  return chosen;
}

batch::Field field_of(const Column& column, Bytes least, Bytes largest) {
  if (column.kind == Kind::numbers && !column.shape.empty())
    return {column.name, column.element, column.shape, false};
  if (column.kind == Kind::numbers) {
    const Bytes most = std::max<Bytes>(largest / batch::element_bytes(column.element), 1);
    return {column.name, column.element, {most}, least != largest || largest == 0};
  }
  return {column.name, batch::ElementType::u8, {std::max<Bytes>(largest, 1)}, true};
}

std::optional<batch::ElementType> element_of_numpy(std::string_view name) {
  using batch::ElementType;
  // A batch has no u32. Token ids are far below 2^31, so i32 holds them.
  constexpr auto kTypes = std::to_array<std::pair<std::string_view, ElementType>>({
      {"uint8", ElementType::u8},
      {"int8", ElementType::i8},
      {"uint16", ElementType::u16},
      {"int16", ElementType::i16},
      {"uint32", ElementType::i32},
      {"int32", ElementType::i32},
      {"int64", ElementType::i64},
      {"float16", ElementType::f16},
      {"float32", ElementType::f32},
      {"float64", ElementType::f64},
  });
  for (const auto& [known, type] : kTypes)
    if (known == name) return type;
  return std::nullopt;
}

bool is_whole(batch::ElementType type) {
  using batch::ElementType;
  return type != ElementType::f16 && type != ElementType::bf16 && type != ElementType::f32 &&
         type != ElementType::f64;
}

std::optional<std::int64_t> whole_number_in(const Column& column,
                                            std::span<const std::byte> bytes) {
  using batch::ElementType;
  if (bytes.size() != batch::element_bytes(column.element)) return std::nullopt;
  switch (column.element) {
    case ElementType::u8:
      return load<std::uint8_t>(bytes);
    case ElementType::i8:
      return load<std::int8_t>(bytes);
    case ElementType::u16:
      return load<std::uint16_t>(bytes);
    case ElementType::i16:
      return load<std::int16_t>(bytes);
    case ElementType::i32:
      return load<std::int32_t>(bytes);
    case ElementType::i64:
      return load<std::int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace batchflow::sources
