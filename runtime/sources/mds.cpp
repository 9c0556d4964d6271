#include "runtime/sources/mds.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/sources/record.h"

namespace batchflow::sources {
namespace {

using ByteSpan = std::span<const std::byte>;
using Kind = Column::Kind;

constexpr Bytes kColumnsMost = 1 << 20;  // of the JSON that describes them
constexpr std::size_t kColumnCountMost = 4096;
constexpr std::string_view kArray = "ndarray:";

// The shape in `int32:3,224,224`; it stays empty where rows differ or it cannot be read.
std::vector<std::uint64_t> shape_in(std::string_view text) {
  std::vector<std::uint64_t> shape;
  while (!text.empty()) {
    const std::string_view size = text.substr(0, text.find(','));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
    if (error != std::errc{} || end != size.data() + size.size() || value == 0) return {};
    shape.push_back(value);
    text.remove_prefix(std::min(size.size() + 1, text.size()));
  }
  return shape;
}

Column column_of(std::string name, std::string encoding) {
  Column column{std::move(name), encoding};
  if (encoding == "jpeg" || encoding == "png") {
    column.kind = Kind::picture;
  } else if (encoding == "bytes") {
    column.kind = Kind::bytes;
  } else if (encoding == "str" || encoding == "json") {
    column.kind = Kind::text;
  } else if (encoding == "int" || encoding == "str_int") {
    column.kind = Kind::whole_number;
    column.element = batch::ElementType::i64;
  } else if (const auto type = element_of_numpy(encoding)) {
    column.element = *type;
    column.kind = is_whole(*type) ? Kind::whole_number : Kind::numbers;
    if (!is_whole(*type)) column.shape = {1};
  } else if (encoding.starts_with(kArray)) {
    const std::string_view rest = std::string_view(column.type).substr(kArray.size());
    const std::size_t colon = rest.find(':');
    const auto element = element_of_numpy(rest.substr(0, colon));
    if (colon != std::string_view::npos) column.shape = shape_in(rest.substr(colon + 1));
    if (element && !column.shape.empty()) {
      column.element = *element;
      column.kind = Kind::numbers;
    }
  }
  return column;
}

std::string read_columns(std::string_view text, MdsShard& shard) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const std::string wrong = "its columns cannot be read; it is no MDS shard, or is damaged";
  if (!json.is_object()) return wrong;
  const auto list = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_array() ? *found : nlohmann::json::array();
  };
  const nlohmann::json names = list("column_names"), encodings = list("column_encodings"),
                       sizes = list("column_sizes");
  if (names.empty() || names.size() > kColumnCountMost || encodings.size() != names.size() ||
      sizes.size() != names.size())
    return wrong;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].is_string() || !encodings[i].is_string()) return wrong;
    if (!sizes[i].is_null() && !sizes[i].is_number_unsigned()) return wrong;
    shard.columns.push_back(
        column_of(names[i].get<std::string>(), encodings[i].get<std::string>()));
    shard.fixed.push_back(sizes[i].is_null() ? std::nullopt : std::optional(sizes[i].get<Bytes>()));
    const Column& column = shard.columns.back();
    if (column.kind != Kind::numbers) continue;
    Bytes bytes = batch::element_bytes(column.element);
    for (const std::uint64_t size : column.shape) bytes = bytes > UINT32_MAX ? 0 : bytes * size;
    if (shard.fixed.back() != bytes) shard.columns.back().kind = Kind::other;
  }
  return "";
}

}  // namespace

Bytes MdsShard::head_bytes() const {
  Bytes bytes = 0;
  for (const auto& size : fixed) bytes += size ? 0 : sizeof(std::uint32_t);
  return bytes;
}

std::string read_mds(ByteView& file, MdsShard& shard, Bytes memory_most) {
  shard = {};
  const ByteSpan head = file.view(0, sizeof(std::uint32_t));
  if (head.size() < sizeof(std::uint32_t)) return "it is no MDS shard; write the format it has";
  const std::uint64_t samples = load<std::uint32_t>(head);
  const Bytes table = (samples + 1) * sizeof(std::uint32_t);
  if (table > file.size() - sizeof(std::uint32_t))
    return "it is no MDS shard, or it is cut; write the format it has, or copy it again";
  if (table > memory_most)
    return fmt::format("its table of {} samples takes more than {} MiB", samples,
                       memory_most >> 20);
  const ByteSpan offsets = file.view(sizeof(std::uint32_t), table);
  for (std::uint64_t i = 0; i <= samples; ++i)
    shard.offsets.push_back(load<std::uint32_t>(offsets, i * sizeof(std::uint32_t)));
  const Bytes columns_at = sizeof(std::uint32_t) + table;
  Bytes before = columns_at;
  for (const std::uint32_t offset : shard.offsets) {
    if (offset < before)
      return "it is no MDS shard, or its table of samples is damaged; write the format it has, or "
             "copy it again";
    before = offset;
  }
  if (shard.offsets.front() - columns_at > kColumnsMost)
    return "its columns cannot be read; it is no MDS shard, or is damaged";
  if (shard.offsets.back() > file.size())
    return fmt::format("it has {} bytes, and its samples end at byte {}; copy it again",
                       file.size(), shard.offsets.back());
  return read_columns(as_text(file.view(columns_at, shard.offsets.front() - columns_at)), shard);
}

bool find_mds_columns(const MdsShard& shard, ByteSpan head, Bytes sample_bytes,
                      std::vector<MdsPlace>& places) {
  places.clear();
  Bytes at = shard.head_bytes();
  std::size_t size_at = 0;
  for (const auto& fixed : shard.fixed) {
    MdsPlace place{at, fixed.value_or(0)};
    if (!fixed) {
      if (size_at + sizeof(std::uint32_t) > head.size()) return false;
      place.bytes = load<std::uint32_t>(head, size_at);
      size_at += sizeof(std::uint32_t);
    }
    if (place.offset > sample_bytes || place.bytes > sample_bytes - place.offset) return false;
    at += place.bytes;
    places.push_back(place);
  }
  return at == sample_bytes;
}

std::optional<std::int64_t> mds_number(const Column& column, ByteSpan bytes) {
  if (column.type == "str_int") return label_in_digits(as_text(bytes));
  return whole_number_in(column, bytes);
}

}  // namespace batchflow::sources
