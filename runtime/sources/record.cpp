#include "runtime/sources/record.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "runtime/sources/byte_view.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/tar.h"
#include "runtime/sources/tfrecord.h"

namespace batchflow::sources {

using ByteSpan = std::span<const std::byte>;

bool RecordParts::fail(std::string_view problem) {
  problem_ = problem;
  return false;
}

bool RecordParts::add(std::string_view name, batch::ElementType type, ByteSpan bytes) {
  if (parts_.size() == kPartsMost) return fail("it has more parts than a sample may have");
  parts_.push_back({name, type, bytes});
  return true;
}

const Part* RecordParts::part(std::string_view name) const {
  for (const Part& part : parts_)
    if (part.name == name) return &part;
  return nullptr;
}

// An integer takes at least one byte, and is written out as eight.
Bytes RecordParts::numbers_most(RecordKind kind, Bytes record) {
  if (kind == RecordKind::example) return record * sizeof(std::int64_t);
  // Three numbers of 32 bits for each token, of which at least 16 bits are stored.
  return kind == RecordKind::sequence ? record / 2 * 3 * sizeof(std::int32_t) : 0;
}

Bytes RecordParts::numbers_bytes(RecordKind kind, ByteSpan record) {
  if (kind == RecordKind::sequence) return numbers_most(kind, record.size());
  if (kind != RecordKind::example) return 0;
  find(kind, record, {}, Numbers::left_out);
  return left_out_;
}

bool RecordParts::find(RecordKind kind, ByteSpan record, const batch::BatchSpec& stored,
                       Numbers numbers) {
  wanted_ = numbers;
  left_out_ = 0;
  parts_.clear();
  numbers_.clear();
  written_.clear();
  problem_ = {};
  bool found = false;
  switch (kind) {
    case RecordKind::whole:
      found = add("bytes", batch::ElementType::u8, record);
      break;
    case RecordKind::tar:
      found = find_members(record);
      break;
    case RecordKind::example:
      found = find_features(record);
      break;
    case RecordKind::packed:
      found = find_fields(record, stored);
      break;
    case RecordKind::sequence:
      found = find_sequence(record, stored);
      break;
    case RecordKind::rows:
      if (stored.fields.size() != 1 || record.size() != stored.fields[0].row_bytes())
        return fail("a row has not the size that the index says");
      found = add(stored.fields[0].name, stored.fields[0].type, record);
      break;
    case RecordKind::value:
      if (stored.fields.size() != 1 ||
          (!stored.fields[0].ragged && record.size() != stored.fields[0].row_bytes()))
        return fail("it has not the size that the index says");
      found = add(stored.fields[0].name, stored.fields[0].type, record);
      break;
  }
  // From here on the memory of numbers that were written out does not move.
  for (const Written& written : written_)
    parts_[written.part].bytes = {numbers_.data() + written.at, parts_[written.part].bytes.size()};
  if (!found) parts_.clear();
  return found;
}

bool RecordParts::find_members(ByteSpan record) {
  MemoryView bytes(record);
  TarWalker walker(bytes, nullptr);
  TarMember member;
  TarStep step;
  while ((step = walker.next(member)) == TarStep::member) {
    std::size_t key_bytes = 0;
    std::string_view part;
    if (!member.regular || !split_member_name(member.name, key_bytes, part)) continue;
    if (!add(part, batch::ElementType::u8, record.subspan(member.data, member.bytes))) return false;
  }
  if (step != TarStep::end) return fail("a header of the tar is damaged");
  return !parts_.empty() || fail("no member of the tar is there");
}

// Example { Features features = 1; }  Features { map<string, Feature> feature = 1; }
bool RecordParts::find_features(ByteSpan record) {
  const auto payload = tfrecord_payload(record);
  if (!payload) return fail("the checksum of the TFRecord does not fit");
  WireReader example(*payload);
  while (example.next()) {
    if (!example.is(1)) continue;
    WireReader features(example.bytes());
    while (features.next()) {
      if (!features.is(1)) continue;
      std::string_view name;
      ByteSpan value;
      WireReader entry(features.bytes());
      while (entry.next()) {
        if (entry.is(1)) name = as_text(entry.bytes());
        if (entry.is(2)) value = entry.bytes();
      }
      if (!entry.ok()) return fail("the payload of the TFRecord is no tf.train.Example");
      if (!add_feature(name, value)) return false;
    }
    if (!features.ok()) return fail("the payload of the TFRecord is no tf.train.Example");
  }
  return example.ok() || fail("the payload of the TFRecord is no tf.train.Example");
}

// Feature { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }, each { repeated value = 1; }
bool RecordParts::add_feature(std::string_view name, ByteSpan feature) {
  WireReader kind(feature);
  while (kind.next()) {
    if (kind.is(1)) {
      WireReader list(kind.bytes());
      while (list.next())
        if (list.is(1) && !add(name, batch::ElementType::u8, list.bytes())) return false;
      if (!list.ok()) return fail("a feature of the tf.train.Example is damaged");
    }
    if (kind.is(2) && !add_numbers(name, batch::ElementType::f32, kind.bytes())) return false;
    if (kind.is(3) && !add_numbers(name, batch::ElementType::i64, kind.bytes())) return false;
  }
  return kind.ok() || fail("a feature of the tf.train.Example is damaged");
}

// Numbers are in one run, or each is in a field of its own. Integers have seven bits in each byte.
bool RecordParts::add_numbers(std::string_view name, batch::ElementType type, ByteSpan list) {
  if (wanted_ == Numbers::left_out) {
    left_out_ += list.size() * (type == batch::ElementType::f32 ? 1 : sizeof(std::int64_t));
    return add(name, type, {});
  }
  const std::size_t begin = numbers_.size();
  bool ok = true;
  WireReader values(list);
  while (ok && values.next()) {
    if (values.field() != 1) continue;
    if (type == batch::ElementType::f32) {
      ok = values.type() != WireReader::kVarint && values.bytes().size() % sizeof(float) == 0;
      if (ok) append(numbers_, values.bytes());
      continue;
    }
    std::uint64_t number = values.number();
    if (values.type() == WireReader::kVarint) {
      append_value(numbers_, number);
      continue;
    }
    ByteSpan run = values.bytes();
    while (ok && !run.empty())
      if ((ok = WireReader::take_varint(run, number))) append_value(numbers_, number);
  }
  if (!ok || !values.ok()) return fail("a list of numbers of the tf.train.Example is damaged");
  written_.push_back({parts_.size(), begin});
  // Until find() ends, only the size of this part is right.
  return add(name, type, ByteSpan(numbers_).subspan(begin));
}

bool RecordParts::find_fields(ByteSpan record, const batch::BatchSpec& stored) {
  const auto payload = packed_payload(record);
  if (!payload) return fail("the checksum of the packed record does not fit");
  ByteSpan rest = *payload;
  for (const batch::Field& field : stored.fields) {
    std::uint64_t rows = 1;
    if (field.ragged) {
      if (rest.size() < sizeof rows) return fail("the packed record ends within a field");
      rows = load<std::uint64_t>(rest);
      rest = rest.subspan(sizeof rows);
      if (rows > field.rows_most()) return fail("a field has more rows than the header says");
    }
    const Bytes bytes = rows * field.row_bytes();
    if (bytes > rest.size()) return fail("the packed record ends within a field");
    if (!add(field.name, field.type, rest.first(bytes))) return false;
    rest = rest.subspan(bytes);
  }
  return rest.empty() || fail("the packed record has bytes that belong to no field");
}

// Calls write() with room for the numbers of the field, all 0.
template <class Write>
bool RecordParts::add_written(const batch::Field& field, Write write) {
  if (wanted_ == Numbers::left_out) return add(field.name, field.type, {});
  const std::size_t begin = numbers_.size();
  numbers_.resize(begin + field.row_bytes());
  write(reinterpret_cast<std::int32_t*>(numbers_.data() + begin));
  written_.push_back({parts_.size(), begin});
  return add(field.name, field.type, ByteSpan(numbers_).subspan(begin));
}

// The index has checked that the fields are those of a sequence.
bool RecordParts::find_sequence(ByteSpan record, const batch::BatchSpec& fields) {
  const auto payload = packed_payload(record);
  if (!payload) return fail("the checksum of the sequence does not fit");
  const std::uint64_t length = fields.fields.front().row_bytes() / sizeof(std::int32_t);
  ByteSpan lengths, tokens = *payload;
  if (fields.fields.size() > 1) {
    if (tokens.size() < sizeof(std::uint64_t)) return fail("the sequence ends within its lengths");
    const auto documents = load<std::uint64_t>(tokens);
    tokens = tokens.subspan(sizeof documents);
    if (documents > tokens.size() / sizeof(std::int32_t))
      return fail("the sequence ends within its lengths");
    lengths = tokens.first(documents * sizeof(std::int32_t));
    tokens = tokens.subspan(lengths.size());
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < lengths.size(); at += sizeof(std::int32_t)) {
      const std::int64_t one = load<std::int32_t>(lengths, at);
      if (one == 0) return fail("a document of the sequence has no length");
      sum += static_cast<std::uint64_t>(std::abs(one));  // below 0: places that are left empty
    }
    if (sum > length) return fail("the documents of the sequence are longer than it is");
  }
  const bool wide = tokens.size() == length * sizeof(std::int32_t);
  if (!wide && tokens.size() != length * sizeof(std::uint16_t))
    return fail("the sequence has not as many tokens as the header says");
  if (wide) {
    if (!add(fields.fields[0].name, fields.fields[0].type, tokens)) return false;
  } else if (!add_written(fields.fields[0], [&](std::int32_t* out) {
               for (std::uint64_t i = 0; i < length; ++i)
                 out[i] = load<std::uint16_t>(tokens, i * sizeof(std::uint16_t));
             })) {
    return false;
  }
  if (fields.fields.size() == 1) return true;
  // Both are 0 where no document is.
  const auto write = [&](std::int32_t* out, auto number_of) {
    std::int32_t segment = 0;
    for (std::size_t at = 0; at < lengths.size(); at += sizeof(std::int32_t)) {
      const auto one = load<std::int32_t>(lengths, at);
      if (one < 0) {
        out -= one;
        continue;
      }
      ++segment;
      for (std::int32_t position = 0; position < one; ++position)
        *out++ = number_of(segment, position);
    }
  };
  return add_written(fields.fields[1],
                     [&](std::int32_t* out) {
                       write(out, [](std::int32_t, std::int32_t position) { return position; });
                     }) &&
         add_written(fields.fields[2], [&](std::int32_t* out) {
           write(out, [](std::int32_t segment, std::int32_t) { return segment; });
         });
}

std::optional<std::int64_t> label_in_digits(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_label_part(RecordKind kind, std::string_view name) {
  return name == kLabelField || (kind == RecordKind::tar && name == "cls") ||
         (kind == RecordKind::example && name == "image/class/label");
}

std::optional<std::int64_t> stored_label(RecordKind kind, const RecordParts& parts) {
  const Part* label = nullptr;
  if (kind == RecordKind::example) label = parts.part("image/class/label");
  if (label == nullptr) label = parts.part(kind == RecordKind::tar ? "cls" : "label");
  if (label == nullptr) return std::nullopt;
  if (label->type == batch::ElementType::i64 && label->bytes.size() == sizeof(std::int64_t))
    return load<std::int64_t>(label->bytes);
  if (kind != RecordKind::tar) return std::nullopt;
  return label_in_digits(as_text(label->bytes));
}

}  // namespace batchflow::sources
