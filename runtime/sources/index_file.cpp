#include "runtime/sources/index_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/log/frame_log.h"
#include "core/order/permutation.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/sequence_record.h"

namespace batchflow::sources {
namespace {

using ByteSpan = std::span<const std::byte>;

constexpr std::string_view kIndexMagic{"BFINDEX\n", 8};
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kPreamble = 16;

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + 7) & ~std::uint64_t{7};
}

ByteSpan section_bytes(const IndexParts& parts, std::size_t section) {
  if (section < kNumberSections) return std::as_bytes(std::span(parts.numbers[section]));
  return as_bytes(section == static_cast<std::size_t>(IndexSection::paths) ? parts.paths
                                                                           : parts.names);
}

std::vector<std::byte> encode_head(const IndexParts& parts) {
  const IndexHead& head = parts.head;
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  put_text(head.format, out);
  out.count(static_cast<std::uint64_t>(head.kind));
  out.count(head.takes_all ? 1 : 0);
  out.count(head.takes_nested ? 1 : 0);
  out.u64(head.version);
  out.u64(head.listing);
  out.count(head.samples);
  out.count(head.row_bytes);
  put_spec(head.fields, out);
  put_texts(head.classes, out);
  put_texts(head.notes, out);
  for (std::size_t i = 0; i < kIndexSections; ++i) out.count(section_bytes(parts, i).size());
  return bytes;
}

bool below_root(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return true;
}

bool is_of_sequences(const batch::BatchSpec& fields) {
  if (fields.fields.front().shape.empty()) return false;
  const auto& shape = fields.fields.front().shape;
  return fields == sequence_fields({shape.back(), fields.fields.size() > 1, false,
                                    shape.size() > 1 ? shape.front() : 0});
}

std::uint32_t checksum_of(ByteSpan bytes, const StopAsked& stop) {
  constexpr std::size_t kAtOnce = std::size_t{16} << 20;
  const StopCheck check(stop);
  std::uint32_t checksum = 0;
  while (!bytes.empty()) {
    check.now();
    const ByteSpan part = bytes.first(std::min(bytes.size(), kAtOnce));
    checksum = log::crc32c(part, checksum);
    bytes = bytes.subspan(part.size());
  }
  return checksum;
}

}  // namespace

void write_index(const IndexParts& parts, const std::function<void(ByteSpan)>& write) {
  const std::vector<std::byte> head = encode_head(parts);
  std::uint32_t checksum = 0;
  std::uint64_t written = 0;
  const auto put = [&](ByteSpan bytes) {
    static constexpr std::byte kZeros[8] = {};
    for (const ByteSpan piece : {bytes, ByteSpan(kZeros, padded(bytes.size()) - bytes.size())}) {
      if (piece.empty()) continue;
      checksum = log::crc32c(piece, checksum);
      written += piece.size();
      write(piece);
    }
  };
  std::vector<std::byte> preamble;
  append(preamble, as_bytes(kIndexMagic));
  append_value(preamble, kVersion);
  append_value(preamble, static_cast<std::uint32_t>(head.size()));
  put(preamble);
  put(head);
  for (std::size_t i = 0; i < kIndexSections; ++i) put(section_bytes(parts, i));
  write(std::as_bytes(std::span(&checksum, 1)));
}

std::string IndexView::read(ByteSpan bytes, const StopAsked& stop) {
  *this = {};
  if (bytes.size() < kPreamble + 4 || !as_text(bytes).starts_with(kIndexMagic)) return "no index";
  if (load<std::uint32_t>(bytes, 8) != kVersion) return "of another version of BatchFlow";
  const ByteSpan summed = bytes.first(bytes.size() - 4);
  const auto length = load<std::uint32_t>(bytes, 12);
  ByteSpan rest = summed.subspan(kPreamble);
  if (padded(length) > rest.size()) return "its head is cut";

  ByteReader in(rest.first(length));
  head_.format = take_text(in);
  head_.kind = static_cast<RecordKind>(in.count(static_cast<std::uint64_t>(RecordKind::sequence)));
  head_.takes_all = in.count(1) == 1;
  head_.takes_nested = in.count(1) == 1;
  head_.version = in.u64();
  head_.listing = in.u64();
  head_.samples = in.count(order::kSamplesMost);
  head_.row_bytes = in.count();
  head_.fields = take_spec(in);
  head_.classes = take_texts(in);
  head_.notes = take_texts(in);
  rest = rest.subspan(padded(length));
  for (ByteSpan& section : sections_) {
    const std::uint64_t size = in.count(rest.size());
    if (padded(size) > rest.size()) in.fail();
    if (!in.ok()) return "its head is damaged";
    section = rest.first(size);
    rest = rest.subspan(padded(size));
  }
  // Before all of it is read: a file may have grown without bound.
  if (!in.at_end() || head_.samples == 0) return "its head is damaged";
  if (!rest.empty()) return fmt::format("it has {} bytes more than its head says", rest.size());
  if (checksum_of(summed, stop) != load<std::uint32_t>(bytes, summed.size()))
    return "its checksum is wrong";
  return check(stop);
}

std::string IndexView::check(const StopAsked& stop) const {
  StopCheck look_up(stop);
  const std::uint64_t n = count(IndexSection::path_ends);
  const bool one_each = at(IndexSection::sample_ends).empty();
  const bool rows = head_.kind == RecordKind::rows;
  const auto has = [&](IndexSection section, std::uint64_t entries) {
    return at(section).size() == entries * 8;
  };
  const bool fits =
      n <= UINT32_MAX && has(IndexSection::path_ends, n) && has(IndexSection::file_bytes, n) &&
      (one_each ? n == head_.samples && head_.kind == RecordKind::whole
                : has(IndexSection::sample_ends, n)) &&
      has(IndexSection::data_begins, rows ? n : 0) &&
      (at(IndexSection::file_marks).empty() || has(IndexSection::file_marks, n)) &&
      has(IndexSection::offsets, one_each || rows ? 0 : head_.samples) &&
      has(IndexSection::sizes, one_each || rows ? 0 : head_.samples) &&
      (at(IndexSection::labels).empty() || has(IndexSection::labels, head_.samples)) &&
      has(IndexSection::name_ends, head_.kind == RecordKind::tar ? head_.samples : 0) &&
      (head_.fields.fields.empty()
           ? !rows && head_.kind != RecordKind::packed && head_.kind != RecordKind::value &&
                 head_.kind != RecordKind::sequence
           : head_.kind != RecordKind::whole && head_.fields.problem().empty() &&
                 (head_.kind != RecordKind::value || head_.fields.fields.size() == 1) &&
                 (head_.kind != RecordKind::sequence || is_of_sequences(head_.fields)));
  if (!fits) return "its lists do not fit together";

  // Ends must not descend, and the last must be the end of the section.
  const auto ascends = [&](IndexSection ends, std::uint64_t entries, std::uint64_t last) {
    std::uint64_t before = 0;
    for (std::uint64_t i = 0; i < entries; ++i) {
      look_up();
      const std::uint64_t end = number(ends, i);
      if (end < before) return false;
      before = end;
    }
    return before == last;
  };
  if (!ascends(IndexSection::path_ends, n, at(IndexSection::paths).size()) ||
      (!one_each && !ascends(IndexSection::sample_ends, n, head_.samples)) ||
      !ascends(IndexSection::name_ends, count(IndexSection::name_ends),
               at(IndexSection::names).size()))
    return "its lists do not ascend";

  std::uint64_t sample = 0;
  for (std::uint32_t file = 0; file < n; ++file) {
    const std::uint64_t first = begin(IndexSection::path_ends, file);
    const std::uint64_t bytes = number(IndexSection::path_ends, file) - first;
    const std::string_view text = as_text(at(IndexSection::paths).subspan(first, bytes));
    if (text.empty() || text.back() != '\0' || !below_root(text.substr(0, bytes - 1)))
      return fmt::format("the path of file {} is wrong", file);
    if (one_each) continue;
    const Bytes size = file_bytes(file);
    const std::uint64_t end = number(IndexSection::sample_ends, file);
    if (rows) {
      const std::uint64_t data = number(IndexSection::data_begins, file);
      if (head_.row_bytes == 0 || head_.row_bytes != head_.fields.fields[0].row_bytes() ||
          data > size || end - sample > (size - data) / head_.row_bytes)
        return fmt::format("file {} has fewer rows", file);
      sample = end;
    }
    for (; sample < end; ++sample) {
      look_up();
      const std::uint64_t offset = number(IndexSection::offsets, sample);
      if (offset > size || number(IndexSection::sizes, sample) > size - offset)
        return fmt::format("sample {} is not within its file", sample);
    }
  }
  return {};
}

std::string_view IndexView::path(std::uint32_t file) const {
  const std::uint64_t first = begin(IndexSection::path_ends, file);
  const std::uint64_t end = number(IndexSection::path_ends, file);
  return as_text(at(IndexSection::paths).subspan(first, end - 1 - first));
}

std::uint32_t IndexView::file_of(std::uint64_t sample) const {
  if (at(IndexSection::sample_ends).empty()) return static_cast<std::uint32_t>(sample);
  std::uint32_t low = 0;
  std::uint32_t high = files();
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (number(IndexSection::sample_ends, middle) <= sample) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Extent IndexView::extent(std::uint64_t sample) const {
  const std::uint32_t file = file_of(sample);
  if (at(IndexSection::sample_ends).empty()) return {file, 0, file_bytes(file)};
  if (head_.kind != RecordKind::rows)
    return {file, number(IndexSection::offsets, sample), number(IndexSection::sizes, sample)};
  const std::uint64_t row = sample - begin(IndexSection::sample_ends, file);
  return {file, number(IndexSection::data_begins, file) + row * head_.row_bytes, head_.row_bytes};
}

std::int64_t IndexView::label(std::uint64_t sample) const {
  return has_labels() ? static_cast<std::int64_t>(number(IndexSection::labels, sample)) : kNoLabel;
}

std::string IndexView::name(std::uint64_t sample) const {
  if (count(IndexSection::name_ends) > 0) {
    const std::uint64_t first = begin(IndexSection::name_ends, sample);
    const std::uint64_t bytes = number(IndexSection::name_ends, sample) - first;
    return std::string(as_text(at(IndexSection::names).subspan(first, bytes)));
  }
  const std::uint32_t file = file_of(sample);
  if (at(IndexSection::sample_ends).empty()) return std::string(path(file));
  return fmt::format("{}:{}", path(file), sample - begin(IndexSection::sample_ends, file));
}

}  // namespace batchflow::sources
