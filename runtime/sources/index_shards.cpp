// Indexes files that hold many samples each: tar, TFRecord, packed.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/log/frame_log.h"
#include "runtime/sources/fields_seen.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/record.h"
#include "runtime/sources/sequence_record.h"
#include "runtime/sources/source_format.h"
#include "runtime/sources/tar.h"
#include "runtime/sources/tfrecord.h"

namespace batchflow::sources {
namespace {

using ByteSpan = std::span<const std::byte>;

// A record is read into memory as a whole, so a larger one is refused.
constexpr Bytes kRecordMost = Bytes{1} << 30;

Bytes record_most(const IndexBuilder& builder) {
  const Bytes most = builder.options.memory_most;
  return most == 0 ? kRecordMost : std::min(kRecordMost, most);
}

void note_end(IndexBuilder& builder, std::string_view path, std::string_view what, std::uint64_t at,
              const DatasetFile& file, std::uint64_t before) {
  builder.note(fmt::format("{}: {} at byte {} of {}; the {} samples before it are served; {}", path,
                           what, at, file.size(), before, kLost));
}

// The members of one tar, gathered into samples.
class TarSamples {
 public:
  TarSamples(IndexBuilder& builder, DatasetFile& file, std::string_view path, FieldsSeen& fields)
      : builder_(builder), file_(file), path_(path), fields_(fields), first_(builder.samples()) {}

  void read() {
    TarWalker walker(file_, &long_name_);
    TarMember member;
    TarStep step;
    while ((step = walker.next(member)) == TarStep::member)
      if (member.regular) take(member);
    const bool whole = step == TarStep::end;
    // The last sample is whole only if the lost member is known to belong to another sample.
    if (whole || (step == TarStep::cut && belongs_to_another(member))) close();
    const std::uint64_t found = builder_.samples() - first_;
    if (!whole && walker.at() == 0) builder_.refuse(path_, not_tar());
    if (!whole)
      note_end(builder_, path_, step == TarStep::cut ? "cut" : "damaged", walker.at(), file_,
               found);
    if (whole && !walker.end_marked())
      builder_.note(
          fmt::format("{}: has no mark of its end after {} samples; more may have been "
                      "cut off",
                      path_, found));
    if (left_out_ > 0)
      builder_.note(
          fmt::format("{}: {} members without an ending belong to no sample", path_, left_out_));
  }

 private:
  // Splits the member's name; false when it belongs to no sample.
  bool split(const TarMember& member, std::string_view& key, std::string_view& part) {
    name_ = member.folder;
    if (!name_.empty()) name_ += '/';
    name_ += member.name;
    std::size_t key_bytes = 0;
    if (!split_member_name(name_, key_bytes, part)) return false;
    key = std::string_view(name_).substr(0, key_bytes);
    return true;
  }

  bool belongs_to_another(const TarMember& member) {
    std::string_view key, part;
    return split(member, key, part) && key != key_;
  }

  void take(const TarMember& member) {
    std::string_view key, part;
    if (!split(member, key, part)) {
      ++left_out_;
      return;
    }
    if (!open_ || key != key_) {
      close();
      open_ = true;
      key_ = key;
      begin_ = member.begin;
      label_ = kNoLabel;
      parts_.clear();
    }
    // With more parts it is no sample; that is found when the sample is read.
    if (parts_.size() < RecordParts::kPartsMost) parts_.emplace_back(part, member.bytes);
    end_ = member.data + member.bytes;
    if (part == "cls") read_label(member);
  }

  void read_label(const TarMember& member) {
    constexpr Bytes kLabelMost = 64;
    const auto bytes = static_cast<std::size_t>(std::min(member.bytes, kLabelMost));
    const auto label = label_in_digits(as_text(file_.view(member.data, bytes)));
    label_ = label.value_or(kNoLabel);
    if (!label)
      builder_.note(
          fmt::format("{}: {}.cls: no whole number; the sample has no label", path_, key_));
  }

  void close() {
    if (!open_) return;
    builder_.add_sample(begin_, end_ - begin_, label_);
    builder_.add_name(key_);
    fields_.begin_sample();
    for (const auto& [part, bytes] : parts_) fields_.add(part, batch::ElementType::u8, bytes);
    open_ = false;
  }

  std::string not_tar() {
    const ByteSpan begin = file_.view(0, 4);
    const bool zipped = begin.size() == 4 && (load<std::uint16_t>(begin) == 0x8b1f ||
                                              load<std::uint32_t>(begin) == 0xfd2fb528);
    return zipped
               ? "it is compressed, so samples cannot be read one by one; unpack it to a plain tar"
               : "it is not a tar file; write the format that it has";
  }

  IndexBuilder& builder_;
  DatasetFile& file_;
  std::string_view path_;
  FieldsSeen& fields_;
  std::uint64_t first_;
  std::string long_name_;
  std::string name_;
  std::string key_;
  bool open_ = false;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::int64_t label_ = kNoLabel;
  std::vector<std::pair<std::string, Bytes>> parts_;  // of the sample that is open
  std::uint64_t left_out_ = 0;
};

void keep_fields(IndexBuilder& builder, const FieldsSeen& seen) {
  std::string problem;
  builder.parts.head.fields = seen.fields(problem);
  // This note comes first, so that it is never one of those that are only counted.
  auto& notes = builder.parts.head.notes;
  if (!problem.empty())
    notes.insert(
        notes.begin(),
        fmt::format("samples as they are stored cannot make a batch: {}; a pipeline has to "
                    "name the part that it works on (field: NAME)",
                    problem));
}

void read_tfrecords(IndexBuilder& builder, DatasetFile& file, std::string_view path,
                    RecordParts& parts, FieldsSeen& fields) {
  const std::uint64_t first = builder.samples();
  std::string_view what;
  std::uint64_t at = 0;
  while (at < file.size() && what.empty()) {
    const ByteSpan head = file.view(at, kTfRecordHead);
    const auto length = head.size() < kTfRecordHead ? Bytes{0} : tfrecord_length(head);
    if (!length && at == 0)
      builder.refuse(path, "it is not a TFRecord file; write the format that it has");
    const Bytes left = file.size() - at;
    if (!length) {
      what = "damaged";
    } else if (left < kTfRecordHead + kTfRecordTail ||
               *length > left - kTfRecordHead - kTfRecordTail) {
      what = "cut";
    } else if (*length > record_most(builder)) {
      builder.refuse(path, fmt::format("the record at byte {} has {} bytes; at most {} can be a "
                                       "sample",
                                       at, *length, record_most(builder)));
    } else {
      const Bytes bytes = kTfRecordHead + *length + kTfRecordTail;
      const ByteSpan record = file.view(at, bytes);
      const bool sound = parts.find(RecordKind::example, record, {});
      if (sound) fields.begin_sample();
      for (const Part& part : parts.parts()) fields.add(part.name, part.type, part.elements());
      if (!sound)
        builder.note(fmt::format("{}: record {} is corrupt: {}", path, builder.samples() - first,
                                 parts.problem()));
      // The checksum is added to the version instead of the payload.
      builder.content.add(load<std::uint32_t>(record, bytes - kTfRecordTail));
      const auto label = stored_label(RecordKind::example, parts);
      builder.add_sample(at, bytes, label.value_or(kNoLabel));
      at += bytes;
    }
  }
  if (!what.empty()) note_end(builder, path, what, at, file, builder.samples() - first);
}

class PackedShards {
 public:
  // `sequences`: of several packings, each in a folder of its own, with texts in place of classes.
  explicit PackedShards(IndexBuilder& builder, bool sequences = false)
      : builder_(builder), sequences_(sequences) {}

  void read(DatasetFile& file, std::string_view path) {
    PackedHeader header;
    PackedFooter footer;
    Bytes at = 0;
    std::string problem = read_packed_header(file, header, at);
    if (problem.empty()) problem = read_packed_footer(file, footer);
    if (!problem.empty()) builder_.refuse(path, problem);
    if (header.shard != next_shard_)
      builder_.refuse(path,
                      fmt::format("it is shard {}, and shard {} is missing; copy that one, too, "
                                  "or pack them again",
                                  header.shard, next_shard_));
    next_shard_ = footer.last_shard ? 0 : next_shard_ + 1;
    IndexHead& head = builder_.parts.head;
    if (last_.empty()) head.fields = header.fields;
    if (last_.empty() || (sequences_ && header.shard == 0)) head.classes = header.classes;
    if (sequences_ && header.shard == 0) add_texts();
    if (head.fields != header.fields || head.classes != header.classes)
      builder_.refuse(path,
                      "its fields or classes differ from those of the files before it; "
                      "keep it in a folder of its own");
    read_entries(file, path, footer, at);
    last_ = path;
  }

  void finish() {
    if (sequences_) builder_.parts.head.classes.clear();
    if (next_shard_ != 0)
      builder_.refuse(last_,
                      fmt::format("it is not the last shard, and shard {} is missing: packing "
                                  "was interrupted, or files were not copied; pack again",
                                  next_shard_));
  }

 private:
  // What is to be said of a packing, and the rule by which it was done.
  void add_texts() {
    const std::vector<std::string>& texts = builder_.parts.head.classes;
    for (const std::string& text : texts) builder_.content.add(text);
    if (!texts.empty()) builder_.note(texts.front());
  }

  void read_entries(DatasetFile& file, std::string_view path, const PackedFooter& footer,
                    Bytes at) {
    std::uint32_t checksum = 0;
    for (std::uint64_t i = 0; i < footer.records; ++i) {
      const ByteSpan bytes = file.view(footer.index + i * kPackedEntry, kPackedEntry);
      checksum = log::crc32c(bytes, checksum);
      const PackedEntry entry = packed_entry(bytes);
      if (entry.offset != at || entry.bytes < kPackedRecordHead || entry.bytes > footer.index - at)
        builder_.refuse(path, "its index is damaged; pack it again");
      at += entry.bytes;
      builder_.content.add(entry.checksum);
      builder_.add_sample(entry.offset, entry.bytes, entry.label);
    }
    if (checksum != footer.index_checksum || at != footer.index)
      builder_.refuse(path, "its index is damaged; pack it again");
  }

  IndexBuilder& builder_;
  bool sequences_;
  std::uint32_t next_shard_ = 0;
  std::string last_;
};

}  // namespace

void index_tar_shards(IndexBuilder& builder) {
  builder.parts.head.kind = RecordKind::tar;
  FieldsSeen fields;
  builder.read_files([&](DatasetFile& file, std::string_view path) {
    TarSamples(builder, file, path, fields).read();
  });
  keep_fields(builder, fields);
}

void index_tfrecords(IndexBuilder& builder) {
  builder.parts.head.kind = RecordKind::example;
  RecordParts parts;
  FieldsSeen fields;
  builder.read_files([&](DatasetFile& file, std::string_view path) {
    read_tfrecords(builder, file, path, parts, fields);
  });
  keep_fields(builder, fields);
}

void index_packed_shards(IndexBuilder& builder) {
  builder.parts.head.kind = RecordKind::packed;
  PackedShards shards(builder);
  builder.read_files([&](DatasetFile& file, std::string_view path) { shards.read(file, path); });
  shards.finish();
}

void index_sequence_shards(IndexBuilder& builder) {
  PackedShards shards(builder, true);
  builder.read_files([&](DatasetFile& file, std::string_view path) { shards.read(file, path); });
  shards.finish();
  IndexHead& head = builder.parts.head;
  head.kind = RecordKind::sequence;
  const auto shape = sequence_shape(head.fields);
  if (!shape)
    builder.refuse(builder.path(0),
                   "its fields are not those of sequences; pack the documents again");
  head.fields = sequence_fields(*shape);
}

}  // namespace batchflow::sources
