#include "runtime/sources/packed.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/byte_codec.h"
#include "core/log/frame_log.h"

namespace batchflow::sources {
namespace {

using ByteSpan = std::span<const std::byte>;

bool take_header(ByteSpan bytes, PackedHeader& header) {
  ByteReader in(bytes);
  header = {};
  header.shard = in.count32();
  header.fields = take_spec(in);
  header.classes = take_texts(in);
  return in.ok() && in.at_end();
}

}  // namespace

std::vector<std::byte> encode_packed_header(const PackedHeader& header) {
  std::vector<std::byte> body;
  ByteWriter out(body);
  out.count(header.shard);
  put_spec(header.fields, out);
  put_texts(header.classes, out);

  std::vector<std::byte> bytes;
  append(bytes, as_bytes(kPackedMagic));
  append_value(bytes, kPackedVersion);
  append_value(bytes, static_cast<std::uint32_t>(body.size()));
  append_value(bytes, log::crc32c(body, log::crc32c(bytes)));
  append(bytes, body);
  return bytes;
}

std::string read_packed_header(ByteView& file, PackedHeader& header, Bytes& header_bytes) {
  const ByteSpan seen = file.view(0, kPackedPreamble);
  if (!as_text(seen).starts_with(kPackedMagic))
    return "it is not a packed file; write the format that it has";
  if (seen.size() < kPackedPreamble) return "it ends within its header; pack it again";
  const std::vector<std::byte> preamble(seen.begin(), seen.end());
  const auto version = load<std::uint32_t>(preamble, 8);
  if (version != kPackedVersion)
    return fmt::format(
        "it is packed in version {}, and this program reads version {}; pack it again", version,
        kPackedVersion);
  const auto length = load<std::uint32_t>(preamble, 12);
  if (length > kPackedHeaderMost) return "its header is damaged; pack it again";
  const ByteSpan body = file.view(kPackedPreamble, length);
  if (body.size() < length) return "it ends within its header; pack it again";
  const std::uint32_t checksum = log::crc32c(body, log::crc32c(ByteSpan(preamble).first(16)));
  if (checksum != load<std::uint32_t>(preamble, 16) || !take_header(body, header))
    return "its header is damaged; pack it again";
  if (std::string problem = header.fields.problem(); !problem.empty())
    return fmt::format("its header is wrong ({}); pack it again", problem);
  header_bytes = kPackedPreamble + length;
  return {};
}

void put_packed_entry(const PackedEntry& entry, std::vector<std::byte>& out) {
  append_value(out, entry.offset);
  append_value(out, entry.bytes);
  append_value(out, entry.label);
  append_value(out, entry.checksum);
}

PackedEntry packed_entry(ByteSpan bytes) {
  return {load<std::uint64_t>(bytes), load<std::uint64_t>(bytes, 8), load<std::int64_t>(bytes, 16),
          load<std::uint32_t>(bytes, 24)};
}

void put_packed_footer(const PackedFooter& footer, std::vector<std::byte>& out) {
  std::vector<std::byte> bytes;
  append_value(bytes, footer.index);
  append_value(bytes, footer.records);
  append_value(bytes, footer.index_checksum);
  append_value(bytes, std::uint32_t{footer.last_shard});
  append_value(bytes, std::uint32_t{0});
  append_value(bytes, log::crc32c(bytes));
  append(bytes, as_bytes(kPackedEnd));
  append(out, bytes);
}

std::string read_packed_footer(ByteView& file, PackedFooter& footer) {
  const Bytes size = file.size();
  const ByteSpan bytes =
      size < kPackedFooter ? ByteSpan{} : file.view(size - kPackedFooter, kPackedFooter);
  if (bytes.size() < kPackedFooter || as_text(bytes.subspan(32)) != kPackedEnd)
    return "it has no index: packing was interrupted, or the file was cut; pack it again";
  footer = {load<std::uint64_t>(bytes), load<std::uint64_t>(bytes, 8),
            load<std::uint32_t>(bytes, 16), load<std::uint32_t>(bytes, 20) == 1};
  const Bytes room = size - kPackedFooter;
  if (load<std::uint32_t>(bytes, 28) != log::crc32c(bytes.first(28)) || footer.index > room ||
      footer.records != (room - footer.index) / kPackedEntry ||
      (room - footer.index) % kPackedEntry != 0)
    return "its footer is damaged; pack it again";
  return {};
}

std::uint32_t packed_checksum(Bytes length, ByteSpan payload) {
  return log::crc32c(payload, log::crc32c(std::as_bytes(std::span(&length, 1))));
}

std::optional<ByteSpan> packed_payload(ByteSpan record) {
  if (record.size() < kPackedRecordHead) return std::nullopt;
  const ByteSpan payload = record.subspan(kPackedRecordHead);
  const auto length = load<std::uint64_t>(record);
  if (length != payload.size()) return std::nullopt;
  if (load<std::uint32_t>(record, 8) != packed_checksum(length, payload)) return std::nullopt;
  return payload;
}

void put_text(std::string_view text, ByteWriter& out) {
  out.count(text.size());
  out.bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

void put_texts(const std::vector<std::string>& texts, ByteWriter& out) {
  out.count(texts.size());
  for (const std::string& text : texts) put_text(text, out);
}

void put_spec(const batch::BatchSpec& spec, ByteWriter& out) {
  out.count(spec.fields.size());
  for (const batch::Field& field : spec.fields) {
    put_text(field.name, out);
    out.count(static_cast<std::uint64_t>(field.type));
    out.count(field.ragged ? 1 : 0);
    out.count(field.shape.size());
    for (const std::uint64_t size : field.shape) out.u64(size);
  }
}

std::string take_text(ByteReader& in) {
  const auto bytes = in.bytes(in.count(in.left()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> take_texts(ByteReader& in) {
  std::vector<std::string> texts;
  for (std::uint64_t left = in.count(in.left()); left > 0 && in.ok(); --left)
    texts.push_back(take_text(in));
  return texts;
}

batch::BatchSpec take_spec(ByteReader& in) {
  batch::BatchSpec spec;
  for (std::uint64_t left = in.count(batch::BatchSpec::kFieldsMost); left > 0 && in.ok(); --left) {
    batch::Field field;
    field.name = take_text(in);
    field.type = static_cast<batch::ElementType>(in.count(batch::kElementTypes - 1));
    field.ragged = in.count(1) == 1;
    field.shape.resize(in.count(batch::Field::kDimensionsMost));
    for (std::uint64_t& size : field.shape) size = in.u64();
    spec.fields.push_back(std::move(field));
  }
  return spec;
}

}  // namespace batchflow::sources
