// The packed record format of docs/packed.md, as its bytes. Index files write names and fields in
// the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/byte_codec.h"
#include "core/base/types.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

inline constexpr std::string_view kPackedMagic{"BFPACK\r\n", 8};
inline constexpr std::string_view kPackedEnd{"BFPACKED", 8};
inline constexpr std::uint32_t kPackedVersion = 1;
inline constexpr Bytes kPackedHeaderMost = 64 << 20;
inline constexpr std::size_t kPackedPreamble = 20;  // magic, version, length, checksum
inline constexpr std::size_t kPackedRecordHead = 12;
inline constexpr std::size_t kPackedEntry = 28;
inline constexpr std::size_t kPackedFooter = 40;
inline constexpr std::int64_t kNoLabel = INT64_MIN;

// The header of a shard.
struct PackedHeader {
  batch::BatchSpec fields;
  std::vector<std::string> classes;
  std::uint32_t shard = 0;
};
std::vector<std::byte> encode_packed_header(const PackedHeader& header);

struct PackedEntry {
  std::uint64_t offset = 0;
  Bytes bytes = 0;
  std::int64_t label = kNoLabel;
  std::uint32_t checksum = 0;
};
struct PackedFooter {
  std::uint64_t index = 0;    // the offset of the index
  std::uint64_t records = 0;  // how many entries it has
  std::uint32_t index_checksum = 0;
  bool last_shard = false;  // no shard follows
};
void put_packed_entry(const PackedEntry& entry, std::vector<std::byte>& out);
// REQUIRES: bytes has kPackedEntry bytes
PackedEntry packed_entry(std::span<const std::byte> bytes);
void put_packed_footer(const PackedFooter& footer, std::vector<std::byte>& out);

// Read and check the header and the footer of a shard. They answer what is wrong; empty: nothing.
std::string read_packed_header(ByteView& file, PackedHeader& header, Bytes& header_bytes);
std::string read_packed_footer(ByteView& file, PackedFooter& footer);

// A record: length of the payload (8), CRC-32C of length and payload (4), payload.
std::uint32_t packed_checksum(Bytes length, std::span<const std::byte> payload);
std::optional<std::span<const std::byte>> packed_payload(std::span<const std::byte> record);

// Fields and lists of names as bytes.
void put_text(std::string_view text, ByteWriter& out);
void put_texts(const std::vector<std::string>& texts, ByteWriter& out);
void put_spec(const batch::BatchSpec& spec, ByteWriter& out);

// These read untrusted bytes; `in` says whether they were sound. The spec may still be one that no
// batch can have.
std::string take_text(ByteReader& in);
std::vector<std::string> take_texts(ByteReader& in);
batch::BatchSpec take_spec(ByteReader& in);

}  // namespace batchflow::sources
