#include "runtime/feeds/exemplar_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/order/live_epoch.h"
#include "core/order/rehearsal.h"
#include "runtime/feeds/feed_settings.h"
#include "runtime/feeds/frames.h"
#include "runtime/protocol/feed_wire.h"

namespace batchflow::feeds {
namespace {

using order::ReservoirName;
using protocol::put_feed;
using protocol::take_feed;

constexpr std::string_view kExemplarsMagic = "BFEXMPL\n";
constexpr std::uint32_t kExemplarsVersion = 1;
constexpr std::size_t kNameBytes = 20;
constexpr std::size_t kExemplarBytes = kBesideExemplar - kFrameHead;  // before the sample's
constexpr std::size_t kKeptBytes = 1 + 8 + 4;                         // before the names
enum ExemplarFrame : std::uint8_t { kExemplar = 1, kKeptFrame = 2 };

void put_name(const ReservoirName& name, std::vector<std::byte>& to) {
  put_feed(name.seed, to);
  put_feed(name.first, to);
  put_feed(name.most, to);
}

// REQUIRES: from.size() >= kNameBytes
ReservoirName take_name(std::span<const std::byte>& from) {
  ReservoirName name;
  name.seed = take_feed<std::uint64_t>(from);
  name.first = take_feed<std::uint64_t>(from);
  name.most = take_feed<std::uint32_t>(from);
  return name;
}

}  // namespace

bool can_be_kept(const ReservoirName& name) {
  return name.most > 0 && name.most <= order::kExemplarsMost &&
         name.first <= order::kLiveRecordsMost;
}

std::vector<std::byte> exemplar_file_head(std::uint64_t feed) {
  return file_head(kExemplarsMagic, kExemplarsVersion, feed);
}

// ------------------------------------------------------------------------------- writing ----

HeldExemplar ExemplarWriter::exemplar(const ReservoirName& name, std::uint32_t slot,
                                      std::uint64_t record, std::int32_t label,
                                      std::span<const std::byte> bytes) {
  body_.assign(1, static_cast<std::byte>(kExemplar));
  put_name(name, body_);
  put_feed(slot, body_);
  put_feed(record, body_);
  put_feed(label, body_);
  body_.insert(body_.end(), bytes.begin(), bytes.end());
  const HeldExemplar held{end() + kFrameHead + kExemplarBytes,
                          static_cast<std::uint32_t>(bytes.size()), label};
  put();
  return held;
}

void ExemplarWriter::kept(std::uint64_t dropped_before, const std::vector<ReservoirName>& names) {
  body_.assign(1, static_cast<std::byte>(kKeptFrame));
  put_feed(dropped_before, body_);
  put_feed(static_cast<std::uint32_t>(names.size()), body_);
  for (const ReservoirName& name : names) put_name(name, body_);
  put();
}

void ExemplarWriter::fail(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

std::string ExemplarWriter::finish() {
  flush();
  if (!failed() && ::fdatasync(file_.file.get()) != 0) fail(said(errno));
  return problem_;
}

void ExemplarWriter::put() {
  constexpr std::size_t kAtOnce = 1 << 20;
  put_frame(body_, pending_);
  if (pending_.size() >= kAtOnce) flush();
}

void ExemplarWriter::flush() {
  if (!failed()) fail(write_all(file_.file.get(), pending_, end_));
  end_ += pending_.size();
  pending_.clear();
}

// ------------------------------------------------------------------------------- reading ----

ExemplarReader::ExemplarReader(ExemplarFile& file, std::uint64_t feed, const std::string& path) {
  constexpr std::string_view kBeginAnew =
      "; move it elsewhere, and jobs that rehearse from it begin anew";
  struct stat status {};
  if (::fstat(file.file.get(), &status) != 0)
    throw FeedError(fmt::format("{}: {}", path, said(errno)));
  std::array<std::byte, kFileHead> head{};
  if (!read_at(file.file.get(), head, 0) ||
      !has_head(head, kExemplarsMagic, kExemplarsVersion, feed))
    throw FeedError(fmt::format("{} is of another feed or version{}", path, kBeginAnew));
  file.bytes = kFileHead;
  bool is_sound = true;
  visit_frames(file.file.get(), kFileHead, static_cast<std::uint64_t>(status.st_size),
               std::max<std::size_t>(kExemplarBytes + protocol::kFeedRecordMost,
                                     kKeptBytes + kNameBytes * order::kExemplarsMost),
               [&](std::span<const std::byte> body, std::uint64_t offset) {
                 const bool is_kept = body.front() == static_cast<std::byte>(kKeptFrame);
                 is_sound = is_kept ? kept(body) : exemplar(body, offset);
                 if (is_kept) file.bytes = offset + body.size();
                 return is_sound;
               });
  // A frame that is torn has another sum.
  if (!is_sound || !is_complete())
    throw FeedError(fmt::format("{} is damaged{}", path, kBeginAnew));
}

bool ExemplarReader::exemplar(std::span<const std::byte> body, std::uint64_t offset) {
  if (body.size() < kExemplarBytes || body.front() != static_cast<std::byte>(kExemplar))
    return false;
  Change change;
  change.held = {offset + kExemplarBytes, static_cast<std::uint32_t>(body.size() - kExemplarBytes),
                 -1};
  body = body.subspan(1);
  change.name = take_name(body);
  change.slot = take_feed<std::uint32_t>(body);
  const auto record = take_feed<std::uint64_t>(body);
  change.record = static_cast<std::uint32_t>(record);
  change.held.label = take_feed<std::int32_t>(body);
  changes_.push_back(change);
  return can_be_kept(change.name) && change.slot < change.name.most &&
         record < order::kLiveRecordsMost;
}

bool ExemplarReader::kept(std::span<const std::byte> body) {
  if (body.size() < kKeptBytes) return false;
  body = body.subspan(1);
  dropped_before_ = take_feed<std::uint64_t>(body);
  const auto count = take_feed<std::uint32_t>(body);
  if (body.size() != std::uint64_t{count} * kNameBytes) return false;
  std::set<ReservoirName> names;
  for (std::uint32_t i = 0; i < count; ++i) names.insert(take_name(body));
  for (const ReservoirName& name : names) {
    if (!can_be_kept(name)) return false;
    reservoirs_.try_emplace(name);
  }
  for (const Change& change : changes_) {
    Slots& slots = reservoirs_[change.name];
    if (change.slot > slots.records.size()) return false;
    if (change.slot == slots.records.size()) {
      slots.records.emplace_back();
      slots.held.emplace_back();
    }
    slots.records[change.slot] = change.record;
    slots.held[change.slot] = change.held;
  }
  changes_.clear();
  std::erase_if(reservoirs_, [&](const auto& one) { return !names.contains(one.first); });
  return true;
}

bool ExemplarReader::is_complete() const {
  return std::all_of(reservoirs_.begin(), reservoirs_.end(), [this](const auto& one) {
    const auto& [name, slots] = one;
    const std::uint64_t shown = std::max(dropped_before_, name.first) - name.first;
    return slots.records.size() == std::min<std::uint64_t>(name.most, shown);
  });
}

}  // namespace batchflow::feeds
