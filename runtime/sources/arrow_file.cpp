#include "runtime/sources/arrow_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/sources/flatbuffer.h"

namespace batchflow::sources {
namespace {

using ByteSpan = std::span<const std::byte>;
using Kind = Column::Kind;

constexpr std::string_view kMagic{"ARROW1\0\0", 8};
constexpr std::uint32_t kContinues = 0xffffffff;
constexpr Bytes kMessageMost = 64 << 20;
constexpr std::size_t kFieldsMost = 4096;
constexpr int kDepthMost = 32;
constexpr Bytes kRowsMost = Bytes{1} << 28;  // of one batch

// As in Arrow's Message.fbs and Schema.fbs.
enum MessageKind : std::uint8_t { kSchema = 1, kDictionaryBatch = 2, kRecordBatch = 3 };
enum TypeKind : std::uint8_t {
  kNull = 1,
  kInt,
  kFloat,
  kBinary,
  kUtf8,
  kBool,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,
  kInterval,
  kList,
  kStruct,
  kUnion,
  kFixedSizeBinary,
  kFixedSizeList,
  kMap,
  kDuration,
  kLargeBinary,
  kLargeUtf8,
  kLargeList,
  kRunEnds,
  kBinaryView,
  kUtf8View,
  kListView,
  kLargeListView
};

std::string_view name_of(std::uint8_t type) {
  constexpr std::string_view kNames[] = {"nothing",
                                         "null",
                                         "int",
                                         "float",
                                         "binary",
                                         "string",
                                         "bool",
                                         "decimal",
                                         "date",
                                         "time",
                                         "timestamp",
                                         "interval",
                                         "list",
                                         "struct",
                                         "union",
                                         "fixed_size_binary",
                                         "fixed_size_list",
                                         "map",
                                         "duration",
                                         "large_binary",
                                         "large_string",
                                         "large_list",
                                         "run_end_encoded",
                                         "binary_view",
                                         "string_view",
                                         "list_view",
                                         "large_list_view"};
  return type < std::size(kNames) ? kNames[type] : "an unknown type";
}

std::string number_type(const FlatTable& field) {
  const auto type = field.get<std::uint8_t>(2, 0);
  if (!field.has(3) || field.has(4)) return "";
  if (type == kInt)
    return fmt::format("{}int{}", field.table(3).get<std::uint8_t>(1, 0) != 0 ? "" : "u",
                       field.table(3).get<std::int32_t>(0, 0));
  if (type != kFloat) return "";
  const auto precision = field.table(3).get<std::int16_t>(0, 0);
  return precision == 0 ? "float16" : precision == 1 ? "float32" : "float64";
}

// How many buffers a field and its children have in a batch; none: that depends on the batch.
std::optional<std::size_t> buffers_of(const FlatTable& field, int depth) {
  if (depth > kDepthMost) return std::nullopt;
  const auto type = field.get<std::uint8_t>(2, 0);
  if (field.has(4)) return 2;  // indices into a dictionary
  std::size_t buffers = 2;
  switch (type) {
    case kNull:
    case kRunEnds:
      buffers = 0;
      break;
    case kStruct:
    case kFixedSizeList:
      buffers = 1;
      break;
    case kBinary:
    case kUtf8:
    case kLargeBinary:
    case kLargeUtf8:
    case kListView:
    case kLargeListView:
      buffers = 3;
      break;
    case kUnion:
      buffers = field.has(3) && field.table(3).get<std::int16_t>(0, 0) == 1 ? 2 : 1;
      break;
    case kBinaryView:
    case kUtf8View:
      return std::nullopt;
    default:
      break;
  }
  const std::uint64_t children = std::min<std::uint64_t>(field.count(5), kFieldsMost);
  for (std::uint64_t i = 0; i < children; ++i) {
    const auto more = buffers_of(field.table(5, i), depth + 1);
    if (!more || buffers + *more > kFieldsMost) return std::nullopt;
    buffers += *more;
  }
  return buffers;
}

}  // namespace

void ArrowFile::read_picture(const FlatTable& field, std::uint64_t parts_most, Column& column,
                             Layout& layout) const {
  std::size_t at = buffers_ + 1;
  for (std::uint64_t child = 0; child < std::min(field.count(5), parts_most); ++child) {
    const FlatTable part = field.table(5, child);
    const auto its = part.get<std::uint8_t>(2, 0);
    if (part.text(0) == "bytes" && (its == kBinary || its == kLargeBinary)) {
      column.kind = Kind::picture;
      column.type = "a struct with bytes";
      layout.kind = Layout::offsets;
      layout.validity = at;
      layout.list = at + 1;
      layout.data = at + 2;
      layout.width = its == kBinary ? 4 : 8;
    }
    at += buffers_of(part, 0).value_or(0);
  }
}

bool ArrowFile::read_list(const FlatTable& field, Column& column, Layout& layout) const {
  const auto type = field.get<std::uint8_t>(2, 0);
  const std::string inner = number_type(field.table(5, 0));
  const auto of_inner = element_of_numpy(inner);
  column.type = fmt::format("{} of {}", name_of(type), inner.empty() ? "others" : inner);
  if (of_inner && inner != "uint64") {
    column.kind = Kind::numbers;
    column.element = *of_inner;
    if (type == kFixedSizeList) {
      const auto size = field.has(3) ? field.table(3).get<std::int32_t>(0, 0) : 0;
      if (size <= 0) return false;
      layout.kind = Layout::fixed;
      layout.repeated = static_cast<std::uint64_t>(size);
      layout.data = buffers_ + 2;
      layout.width = batch::element_bytes(*of_inner);
      column.shape = {layout.repeated};
    } else {
      layout.kind = Layout::list_of_numbers;
      layout.list = buffers_ + 1;
      layout.data = buffers_ + 3;
      layout.width = type == kList ? 4 : 8;
    }
  }
  return true;
}

std::string ArrowFile::read_schema(ByteSpan bytes) {
  const std::string damaged = "its schema is damaged; copy it again";
  bool ok = true;
  const FlatTable message(bytes, ok);
  if (message.get<std::uint8_t>(1, 0) != kSchema || !message.has(2)) return damaged;
  const FlatTable schema = message.table(2);
  if (schema.get<std::int16_t>(0, 0) != 0) return "its numbers are big-endian; write it again";
  const std::uint64_t fields = schema.count(1);
  if (fields == 0 || fields > kFieldsMost) return damaged;
  for (std::uint64_t i = 0; i < fields && ok; ++i) {
    const FlatTable field = schema.table(1, i);
    const auto type = field.get<std::uint8_t>(2, 0);
    Column column;
    Layout layout;
    layout.validity = buffers_;
    column.name = field.text(0);
    column.type = name_of(type);
    const std::string number = number_type(field);
    const auto element = element_of_numpy(number);
    const bool has_child = field.count(5) == 1 && !field.has(4);
    if (element && number != "uint64") {
      column.type = number;
      column.element = *element;
      column.kind = is_whole(*element) ? Kind::whole_number : Kind::numbers;
      if (!is_whole(*element)) column.shape = {1};
      layout.kind = Layout::fixed;
      layout.data = buffers_ + 1;
      layout.width = batch::element_bytes(*element);
    } else if (!field.has(4) &&
               (type == kBinary || type == kUtf8 || type == kLargeBinary || type == kLargeUtf8)) {
      column.kind = type == kUtf8 || type == kLargeUtf8 ? Kind::text : Kind::bytes;
      layout.kind = Layout::offsets;
      layout.list = buffers_ + 1;
      layout.data = buffers_ + 2;
      layout.width = type == kBinary || type == kUtf8 ? 4 : 8;
    } else if (type == kStruct && !field.has(4)) {
      read_picture(field, fields + kFieldsMost, column, layout);
    } else if (has_child && (type == kFixedSizeList || type == kList || type == kLargeList)) {
      if (!read_list(field, column, layout)) return damaged;
    }
    const auto buffers = buffers_of(field, 0);
    if (!buffers)
      return fmt::format("its column '{}' is {}, which is not read in place", column.name,
                         column.type);
    buffers_ += *buffers;
    columns_.push_back(std::move(column));
    layouts_.push_back(layout);
  }
  for (std::uint64_t i = 0; i < schema.count(2); ++i)
    if (schema.table(2, i).text(0) == "huggingface") notes_ = schema.table(2, i).text(1);
  return ok ? "" : damaged;
}

std::vector<std::string> ArrowFile::class_names(std::string_view column) const {
  const nlohmann::json json = nlohmann::json::parse(notes_, nullptr, false);
  std::vector<std::string> names;
  const nlohmann::json* at = &json;
  for (const std::string& key :
       {std::string("info"), std::string("features"), std::string(column), std::string("names")}) {
    const auto found = at->is_object() ? at->find(key) : at->end();
    if (!at->is_object() || found == at->end()) return {};
    at = &*found;
  }
  if (!at->is_array()) return {};
  for (const nlohmann::json& name : *at) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

std::string ArrowFile::open(ByteView& file) {
  *this = {};
  if (as_text(file.view(0, kMagic.size())) == kMagic) at_ = kMagic.size();
  const ByteSpan head = file.view(at_, 8);
  if (head.size() < 8 || load<std::uint32_t>(head) != kContinues)
    return "it is no Arrow file of version 0.15 or later; write the format that it has";
  const Bytes length = load<std::uint32_t>(head, 4);
  const ByteSpan message = length <= kMessageMost ? file.view(at_ + 8, length) : ByteSpan();
  if (length == 0 || message.size() < length) return "its schema is cut; copy it again";
  at_ += 8 + length;
  return read_schema(message);
}

std::optional<ArrowFile::Batch> ArrowFile::next(ByteView& file, std::string& problem) {
  const std::string damaged = fmt::format("the message at byte {} is damaged", at_);
  for (;;) {
    const ByteSpan head = file.view(at_, 8);
    if (head.empty()) return std::nullopt;  // a stream need not say that it ends
    if (head.size() < 8) return problem = "cut", std::nullopt;
    if (load<std::uint32_t>(head) != kContinues) return problem = damaged, std::nullopt;
    const Bytes length = load<std::uint32_t>(head, 4);
    if (length == 0) return std::nullopt;
    if (length > kMessageMost) return problem = damaged, std::nullopt;
    const ByteSpan bytes = file.view(at_ + 8, length);
    if (bytes.size() < length) return problem = "cut", std::nullopt;
    bool ok = true;
    const FlatTable message(bytes, ok);
    const auto kind = message.get<std::uint8_t>(1, 0);
    const auto body_bytes = message.get<std::int64_t>(3, 0);
    const std::uint64_t body = at_ + 8 + length;
    if (!ok || body_bytes < 0) return problem = damaged, std::nullopt;
    if (static_cast<Bytes>(body_bytes) > file.size() - body) return problem = "cut", std::nullopt;
    at_ = body + static_cast<std::uint64_t>(body_bytes);
    if (kind != kRecordBatch) continue;
    if (!message.has(2)) return problem = damaged, std::nullopt;
    const FlatTable record = message.table(2);
    if (record.has(3)) return problem = kCompressed, std::nullopt;
    Batch batch;
    const auto rows = record.get<std::int64_t>(0, 0);
    batch.rows = static_cast<std::uint64_t>(rows);
    batch.body = body;
    const std::uint64_t buffers = record.count(2, 16);
    for (std::uint64_t i = 0; i < buffers && ok; ++i) {
      const auto offset = record.in_struct<std::int64_t>(2, i, 16, 0);
      const auto size = record.in_struct<std::int64_t>(2, i, 16, 8);
      ok = ok && offset >= 0 && size >= 0 && offset <= body_bytes && size <= body_bytes - offset;
      batch.buffers.push_back(
          {body + static_cast<std::uint64_t>(offset), static_cast<Bytes>(size)});
    }
    if (!ok || rows < 0 || batch.rows > kRowsMost || buffers != buffers_)
      return problem = damaged, std::nullopt;
    return batch;
  }
}

std::string ArrowFile::values(ByteView& file, const Batch& batch, std::size_t column,
                              Values& out) const {
  const std::string damaged = fmt::format("the batch at byte {} is damaged in column '{}'",
                                          batch.body, columns_[column].name);
  const Layout& layout = layouts_[column];
  out = {};
  const auto bytes_of = [&](std::size_t buffer, Bytes bytes) {
    const Batch::Buffer& one = batch.buffers[buffer];
    return bytes <= one.bytes ? file.view(one.offset, bytes) : ByteSpan();
  };
  if (const Bytes bits = (batch.rows + 7) / 8; batch.buffers[layout.validity].bytes > 0) {
    const ByteSpan valid = bytes_of(layout.validity, bits);
    if (valid.size() < bits) return damaged;
    out.valid.assign(valid.begin(), valid.end());
  }
  const Batch::Buffer& data = batch.buffers[layout.data];
  out.begin = data.offset;
  if (layout.kind == Layout::fixed) {
    out.each = layout.width * layout.repeated;
    if (batch.rows > data.bytes / out.each && batch.rows > 0) return damaged;
    if (columns_[column].kind != Kind::whole_number) return "";
    const ByteSpan all = bytes_of(layout.data, batch.rows * out.each);
    if (all.size() < batch.rows * out.each) return damaged;
    out.bytes.assign(all.begin(), all.end());
    return "";
  }
  if (layout.kind == Layout::none || batch.rows == 0) return batch.rows == 0 ? "" : damaged;
  const Bytes wanted = (batch.rows + 1) * layout.width;
  const ByteSpan offsets = bytes_of(layout.list, wanted);
  if (offsets.size() < wanted) return damaged;
  const Bytes scale =
      layout.kind == Layout::list_of_numbers ? batch::element_bytes(columns_[column].element) : 1;
  const std::uint64_t most = data.bytes / scale;
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; i <= batch.rows; ++i) {
    const std::uint64_t offset = layout.width == 4 ? load<std::uint32_t>(offsets, i * 4)
                                                   : load<std::uint64_t>(offsets, i * 8);
    if (offset < before || offset > most) return damaged;
    before = offset;
    if (i == 0) {
      out.first = offset * scale;
    } else {
      out.ends.push_back(offset * scale);
    }
  }
  return "";
}

}  // namespace batchflow::sources
