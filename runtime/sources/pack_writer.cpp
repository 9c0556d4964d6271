#include "runtime/sources/pack_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/check.h"
#include "core/log/frame_log.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::sources {
namespace {

constexpr std::size_t kBuffer = 1 << 20;
// Bounds the index, which is in memory until the shard is closed.
constexpr std::uint64_t kShardRecordsMost = 1 << 22;

bool is_label(const batch::Field& field) {
  return field.name == "label" && field.type == batch::ElementType::i64 && field.shape.empty();
}

}  // namespace

PackWriter::PackWriter(PackOptions options, batch::BatchSpec fields,
                       std::vector<std::string> classes)
    : options_(std::move(options)) {
  header_.fields = std::move(fields);
  header_.classes = std::move(classes);
  if (const std::string problem = header_.fields.problem(); !problem.empty())
    throw DatasetError(fmt::format("{}: {}", options_.name, problem));
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (std::filesystem::exists(shard_path(), error))
    throw DatasetError(fmt::format("{}: is there already; choose another folder, or remove it",
                                   shard_path().string()));
  open_shard();
}

PackWriter::~PackWriter() {
  std::error_code error;
  if (fd_) std::filesystem::remove(shard_path().string() + ".part", error);
}

std::filesystem::path PackWriter::shard_path() const {
  return options_.folder /
         fmt::format("{}-{:05}.{}", options_.name, header_.shard, options_.ending);
}

void PackWriter::failed(const std::string& path) const {
  throw DatasetError(
      fmt::format("{}: {}; make room there, or let this user write", path, std::strerror(errno)));
}

void PackWriter::open_shard() {
  const std::string path = shard_path().string() + ".part";
  fd_ = protocol::Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd_) failed(path);
  buffer_ = encode_packed_header(header_);
  written_ = buffer_.size();
  index_.clear();
  shard_records_ = 0;
}

void PackWriter::flush() {
  for (std::size_t at = 0; at < buffer_.size();) {
    ssize_t written = write(fd_.get(), buffer_.data() + at, buffer_.size() - at);
    if (BF_FAILPOINT("sources.pack.write")) {
      written = -1;
      errno = ENOSPC;
    }
    if (written < 0 && errno != EINTR) failed(shard_path().string() + ".part");
    if (written > 0) at += static_cast<std::size_t>(written);
  }
  // The drive begins at once, so that close_shard() does not wait for all of it.
  sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  buffer_.clear();
}

void PackWriter::add(std::span<const std::span<const std::byte>> values) {
  PackedEntry entry;
  entry.bytes = record_bytes(values);
  if (shard_records_ > 0 &&
      (written_ + entry.bytes > options_.shard_bytes || shard_records_ == kShardRecordsMost)) {
    close_shard(false);
    ++header_.shard;
    open_shard();
  }
  entry.offset = written_;
  const Bytes payload_bytes = entry.bytes - kPackedRecordHead;
  const std::size_t head = buffer_.size();
  append_value(buffer_, std::uint64_t{payload_bytes});
  append_value(buffer_, entry.checksum);  // its place
  const std::vector<batch::Field>& fields = header_.fields.fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].ragged)
      append_value(buffer_, std::uint64_t{values[i].size() / fields[i].row_bytes()});
    append(buffer_, values[i]);
    if (is_label(fields[i])) entry.label = load<std::int64_t>(values[i]);
  }
  const std::span<std::byte> record = std::span(buffer_).subspan(head);
  entry.checksum = packed_checksum(payload_bytes, record.subspan(kPackedRecordHead));
  std::memcpy(record.data() + sizeof payload_bytes, &entry.checksum, sizeof entry.checksum);
  written_ += entry.bytes;
  put_packed_entry(entry, index_);
  ++shard_records_;
  ++records_;
  if (buffer_.size() >= kBuffer) flush();
}

Bytes PackWriter::record_bytes(std::span<const std::span<const std::byte>> values) const {
  const std::vector<batch::Field>& fields = header_.fields.fields;
  BF_CHECK(values.size() == fields.size());
  Bytes bytes = kPackedRecordHead;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::uint64_t rows = values[i].size() / fields[i].row_bytes();
    const bool fits = values[i].size() % fields[i].row_bytes() == 0 &&
                      (fields[i].ragged ? rows <= fields[i].rows_most() : rows == 1);
    if (!fits)
      throw DatasetError(fmt::format("{}: record {}: {} bytes are no value of field '{}'",
                                     options_.name, records_, values[i].size(), fields[i].name));
    bytes += values[i].size() + (fields[i].ragged ? sizeof rows : 0);
  }
  return bytes;
}

void PackWriter::close_shard(bool last) {
  append(buffer_, index_);
  put_packed_footer({written_, shard_records_, log::crc32c(index_), last}, buffer_);
  flush();
  const std::string path = shard_path().string();
  const std::string part = path + ".part";
  if (BF_FAILPOINT("sources.pack.sync")) {
    errno = EIO;
    failed(part);
  }
  if (fsync(fd_.get()) != 0 || rename(part.c_str(), path.c_str()) != 0) failed(part);
  fd_ = protocol::Descriptor();
}

void PackWriter::close() {
  BF_CHECK(records_ > 0);
  close_shard(true);
  const protocol::Descriptor folder(
      open(options_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) fsync(folder.get());
}

}  // namespace batchflow::sources
