#include "runtime/feeds/feed_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "core/base/random.h"
#include "core/log/frame_log.h"
#include "core/order/live_epoch.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/frames.h"
#include "runtime/protocol/feed_hello.h"

namespace batchflow::feeds {
namespace {

// REQUIRES: less >= 0
std::int64_t saturating_difference(std::int64_t from, std::int64_t less) {
  return from < INT64_MIN + less ? INT64_MIN : from - less;
}

constexpr std::string_view kMagic = "BFFEED\r\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHead = kFileHead + 8;
enum Kind : std::uint8_t { kRecord = 1, kState = 2, kEnd = 3 };
constexpr std::size_t kRecordHead = 1 + 4 + 8 + 8 + 8 + 8;
constexpr std::size_t kStateBytes = 1 + 2 * 8 + 5 * 8;
constexpr std::string_view kPrefix = "records.";
constexpr std::string_view kNew = ".new";  // of a file that is to replace another

using order::ReservoirName;
using protocol::put_feed;
using protocol::take_feed;

// Numbers of files of records are even, those of exemplars odd.
bool is_of_exemplars(std::uint32_t file) {
  return file % 2 == 1;
}

}  // namespace

FeedLog::FeedLog(std::string folder, FeedSettings settings)
    : folder_(std::move(folder)), settings_(std::move(settings)) {
  lock_ = protocol::Descriptor(
      ::open((folder_ + "/" + std::string(kSettingsFile)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    throw FeedError(fmt::format(
        "{}: {}", folder_, errno == EWOULDBLOCK ? "another service has this feed" : said(errno)));
  exemplars_ = std::make_unique<ExemplarLog>(folder_, settings_);
  recover();
}

FeedLog::~FeedLog() = default;

// ------------------------------------------------------------------------------ recovery ----

void FeedLog::recover() {
  DIR* const listing = ::opendir(folder_.c_str());
  if (!listing) throw FeedError(fmt::format("{}: {}", folder_, said(errno)));
  std::vector<std::uint64_t> firsts;
  while (const dirent* const entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    std::uint64_t first = 0;
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    if (name.ends_with(kNew)) {  // it was never a part of the log
      ::unlinkat(::dirfd(listing), entry->d_name, 0);
      continue;
    }
    const auto end =
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), first);
    if (end.ec == std::errc() && end.ptr == name.data() + name.size()) firsts.push_back(first);
  }
  ::closedir(listing);
  std::sort(firsts.begin(), firsts.end());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    auto segment = std::make_shared<Segment>();
    segment->first = firsts[i];
    segment->number = take_number();
    names_[segment->number] = fmt::format("{}{:020}", kPrefix, firsts[i]);
    const bool is_last = i + 1 == firsts.size();
    if (!segments_.empty() &&
        segments_.back()->first + segments_.back()->entries.size() != segment->first)
      throw FeedError(fmt::format(
          "{}: a file of records is missing before {}; put the file back, or move the later ones "
          "elsewhere",
          folder_, names_[segment->number]));
    read_segment(*segment, is_last);
    // It was only begun when the machine died.
    if (segment->bytes == 0 && is_last) {
      ::unlink((folder_ + "/" + names_[segment->number]).c_str());
      continue;
    }
    segments_.push_back(std::move(segment));
  }
  // Files that were to go when the service died. Reservoirs are as of the record behind them.
  while (segments_.size() > 1 && segments_.front()->end() <= exemplars_->dropped_before()) {
    remove(*segments_.front());
    segments_.pop_front();
  }
  if (!segments_.empty()) {
    first_ = segments_.front()->first;
    written_ = durable_ = segments_.back()->end();
  }
  // Files went without it, as they do where a service knows nothing of exemplars.
  has_forgotten_ = exemplars_->dropped_before() != first_ && !exemplars_->is_empty();
  if (has_forgotten_) exemplars_->forget();
  for (auto& [id, producer] : producers_) producer.written = producer.durable = producer.taken;
  end_durable_ = end_written_;
  // A file that was torn before its first record may lack states that the files before it have, and
  // these may go.
  const bool is_torn = cut_ > 0 && segments_.back()->entries.empty();
  if (segments_.empty() || is_torn) {
    begin_segment(make_segment(is_torn));
    if (const std::string problem = sync_folder(folder_); !problem.empty())
      throw FeedError(fmt::format("{}: {}", folder_, problem));
  }
  // What was not durable, and is there, is made so before it is served.
  segments_.back()->is_dirty = true;
  if (const std::string problem = sync(); !problem.empty())
    throw FeedError(fmt::format("{}: {}", folder_, problem));
}

void FeedLog::read_segment(Segment& segment, bool is_last) {
  const std::string path = folder_ + "/" + names_[segment.number];
  std::string problem;
  segment.file = protocol::open_regular(path, O_RDWR, problem);
  if (!segment.file) throw FeedError(fmt::format("{}: {}", path, problem));
  struct stat status {};
  if (fstat(segment.file.get(), &status) != 0)
    throw FeedError(fmt::format("{}: {}", path, said(errno)));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::vector<std::byte> bytes(kHead);
  if (size < kHead || !read_at(segment.file.get(), bytes, 0)) {
    if (is_last) return;
    throw FeedError(fmt::format("{} is no file of records", path));
  }
  std::span<const std::byte> first = std::span(bytes).subspan(kFileHead);
  if (!has_head(bytes, kMagic, kVersion, settings_.id) ||
      take_feed<std::uint64_t>(first) != segment.first)
    throw FeedError(fmt::format("{} is of another feed or version", path));
  const std::uint64_t at =
      visit_frames(segment.file.get(), kHead, size, kRecordHead + protocol::kFeedRecordMost,
                   [&](std::span<const std::byte> body, std::uint64_t offset) {
                     return apply(segment, body, offset);
                   });
  segment.bytes = at;
  segment.head = kHead;
  if (at == size) return;
  if (!is_last)
    throw FeedError(fmt::format(
        "{} is damaged at byte {}; restore it, or move it and the later files elsewhere", path,
        at));
  cut_ += size - at;
  if (::ftruncate(segment.file.get(), static_cast<off_t>(at)) != 0)
    throw FeedError(fmt::format("{}: {}", path, said(errno)));
}

bool FeedLog::apply(Segment& segment, std::span<const std::byte> body, std::uint64_t offset) {
  const std::span<const std::byte> whole = body;
  const auto kind = take_feed<std::uint8_t>(body);
  if (kind == kEnd) {
    end_written_ = true;
    return whole.size() == 1;
  }
  if (kind == kState && whole.size() == kStateBytes) {
    const auto id = take_feed<std::uint64_t>(body);
    Producer& producer = producers_[id];
    producer.taken = std::max(producer.taken, take_feed<std::uint64_t>(body));
    counts_.taken = take_feed<std::uint64_t>(body);
    counts_.doubled = take_feed<std::uint64_t>(body);
    counts_.late = take_feed<std::uint64_t>(body);
    counts_.thinned = take_feed<std::uint64_t>(body);
    counts_.malformed = take_feed<std::uint64_t>(body);
    return true;
  }
  if (kind != kRecord || whole.size() < kRecordHead || end_written_) return false;
  const auto label = take_feed<std::int32_t>(body);
  Producer& producer = producers_[take_feed<std::uint64_t>(body)];
  producer.taken = std::max(producer.taken, take_feed<std::uint64_t>(body));
  take_feed<std::uint64_t>(body);
  // Logs of earlier services may have times of the future.
  newest_ns_ =
      std::max(newest_ns_, std::min(take_feed<std::int64_t>(body), protocol::record_time_ns()));
  segment.entries.push_back({offset + kRecordHead, static_cast<std::uint32_t>(body.size()), label});
  ++counts_.taken;
  return true;
}

// ------------------------------------------------------------------------------- taking ----

Taken FeedLog::take(std::uint64_t producer, const protocol::FeedRecordHead& head,
                    std::span<const std::byte> bytes, std::uint64_t taken_part) {
  const std::lock_guard lock(mutex_);
  Producer& from = producers_[producer];
  const auto leave_out = [&](std::uint64_t LogCounts::*count, Taken why) {
    ++(counts_.*count);
    ++(from.counts.*count);
    from.is_changed = true;
    return why;
  };
  if (head.sequence <= from.taken) return leave_out(&LogCounts::doubled, Taken::doubled);
  Pending& pending = pending_for(kFrameHead + kRecordHead + bytes.size());
  from.taken = head.sequence;
  const bool fits = settings_.schema == "bytes"
                        ? !bytes.empty() && bytes.size() <= settings_.record_bytes
                        : bytes.size() == settings_.record_bytes;
  const bool lacks_class = settings_.labelled && head.label < 0;
  if (!fits || lacks_class || end_waits_ || end_written_)
    return leave_out(&LogCounts::malformed, Taken::malformed);
  const bool is_late =
      settings_.late_after.count() > 0 && newest_ns_ != INT64_MIN &&
      head.time_ns < saturating_difference(newest_ns_, settings_.late_after.count());
  if (is_late) return leave_out(&LogCounts::late, Taken::late);
  const std::uint64_t record = written_ + pending_records_;
  if ((hash(head.key, head.sequence) & UINT32_MAX) >= taken_part ||
      record >= order::kLiveRecordsMost)
    return leave_out(&LogCounts::thinned, Taken::thinned);
  // A producer with a clock that is wrong does not make the records of all others late, now or once
  // the log is read again.
  const std::int64_t time_ns = std::min(head.time_ns, protocol::record_time_ns());
  newest_ns_ = std::max(newest_ns_, time_ns);
  body_.clear();
  put_feed(static_cast<std::uint8_t>(kRecord), body_);
  put_feed(head.label, body_);
  put_feed(producer, body_);
  put_feed(head.sequence, body_);
  put_feed(head.key, body_);
  put_feed(time_ns, body_);
  body_.insert(body_.end(), bytes.begin(), bytes.end());
  pending.entries.push_back({pending.bytes.size() + kFrameHead + kRecordHead,
                             static_cast<std::uint32_t>(bytes.size()), head.label});
  put_frame(body_, pending.bytes);
  ++pending_records_;
  ++counts_.taken;
  ++from.counts.taken;
  return Taken::taken;
}

void FeedLog::count_malformed(std::uint64_t producer) {
  const std::lock_guard lock(mutex_);
  ++counts_.malformed;
  producers_[producer].is_changed = true;
}

void FeedLog::end() {
  const std::lock_guard lock(mutex_);
  if (end_waits_ || end_written_) return;
  end_waits_ = true;
  Pending& pending = pending_for(kFrameHead + 1);
  put_frame(std::array{static_cast<std::byte>(kEnd)}, pending.bytes);
  pending.ends = true;
}

std::uint64_t FeedLog::last_sequence(std::uint64_t producer) const {
  const std::lock_guard lock(mutex_);
  const auto found = producers_.find(producer);
  return found == producers_.end() ? 0 : found->second.taken;
}

bool FeedLog::has_to_write() const {
  const std::lock_guard lock(mutex_);
  return !pending_.empty() || std::any_of(producers_.begin(), producers_.end(),
                                          [](const auto& one) { return one.second.is_changed; });
}

// Where a frame of so many bytes goes: what one file has no room for is for the next.
FeedLog::Pending& FeedLog::pending_for(std::size_t frame_bytes) {
  if (!pending_.empty() && pending_.back().bytes.size() + frame_bytes <= settings_.segment_bytes)
    return pending_.back();
  settle();
  return pending_.emplace_back();
}

// What is pending tells of all that was taken or left out by now.
void FeedLog::settle() {
  for (auto& [id, producer] : producers_) {
    if (!producer.is_changed && producer.taken == producer.written) continue;
    Pending& last = pending_.empty() ? pending_.emplace_back() : pending_.back();
    if (std::exchange(producer.is_changed, false))
      put_state(id, producer.taken, counts_.taken, last.bytes);
    last.sequences.emplace_back(id, producer.taken);
  }
}

Bytes FeedLog::waiting() const {
  Bytes bytes = 0;
  for (const Pending& one : pending_) bytes += one.bytes.size();
  return bytes;
}

void FeedLog::put_state(std::uint64_t producer, std::uint64_t sequence, std::uint64_t taken,
                        std::vector<std::byte>& to) {
  body_.clear();
  put_feed(static_cast<std::uint8_t>(kState), body_);
  for (const std::uint64_t value : {producer, sequence, taken, counts_.doubled, counts_.late,
                                    counts_.thinned, counts_.malformed})
    put_feed(value, body_);
  put_frame(body_, to);
}

// A file with the states of all producers as of the files before it, and no record. `replaces`: the
// last file, which has no record either. By the thread that takes, without the lock.
std::shared_ptr<FeedLog::Segment> FeedLog::make_segment(bool replaces) {
  auto segment = std::make_shared<Segment>();
  segment->first = written_;
  const std::string name = fmt::format("{}{:020}", kPrefix, written_);
  const std::string last = folder_ + "/" + name;
  const std::string path = last + (replaces ? std::string(kNew) : "");
  segment->file =
      protocol::Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!segment->file) throw FeedError(fmt::format("{}: {}", path, said(errno)));
  std::vector<std::byte> head = file_head(kMagic, kVersion, settings_.id);
  put_feed(segment->first, head);
  for (const auto& [id, producer] : producers_)
    put_state(id, producer.written, counts_.taken - pending_records_, head);
  if (end_written_) put_frame(std::array{static_cast<std::byte>(kEnd)}, head);
  std::string problem = write_all(segment->file.get(), head, 0);
  // It is durable before the files before it may go, which have what it says of producers.
  if (problem.empty() && (::fdatasync(segment->file.get()) != 0 ||
                          (replaces && ::rename(path.c_str(), last.c_str()) != 0)))
    problem = said(errno);
  if (!problem.empty()) {
    ::unlink(path.c_str());
    throw FeedError(fmt::format("{}: {}", path, problem));
  }
  segment->bytes = segment->head = head.size();
  return segment;
}

// With the lock, or before there are other threads.
void FeedLog::begin_segment(std::shared_ptr<Segment> segment) {
  if (!segments_.empty() && segments_.back()->first == segment->first) {
    names_.erase(segments_.back()->number);  // nothing was ever found in that file
    segments_.pop_back();
  }
  segment->number = take_number();
  names_[segment->number] = fmt::format("{}{:020}", kPrefix, segment->first);
  segments_.push_back(std::move(segment));
}

// Goes on in a new file, where the last one has no room for the next bytes. It is durable first: a
// file never follows one that is torn. Otherwise says what is wrong.
std::string FeedLog::roll(Bytes next_bytes) {
  std::shared_ptr<Segment> last;
  {
    const std::lock_guard lock(mutex_);
    last = segments_.back();
  }
  if (last->bytes <= last->head || last->bytes + next_bytes <= settings_.segment_bytes) return "";
  // A head that is as long as a file would be written again and again.
  if (last->bytes < 2 * last->head) return "";
  if (BF_FAILPOINT("feed.roll")) return said(EIO);
  if (::fdatasync(last->file.get()) != 0) {
    const std::lock_guard lock(mutex_);
    return broken_ = said(errno);
  }
  const bool replaces = last->first == written_;
  {
    const std::lock_guard lock(mutex_);
    is_replaced_ = replaces;
  }
  std::shared_ptr<Segment> next;
  std::string problem;
  try {
    next = make_segment(replaces);
  } catch (const FeedError& error) {
    problem = error.what();
  }
  const std::string unsynced = next ? sync_folder(folder_) : "";
  const std::lock_guard lock(mutex_);
  if (next) begin_segment(std::move(next));
  is_replaced_ = false;
  if (!unsynced.empty()) broken_ = problem = unsynced;
  return problem;
}

std::string FeedLog::write() {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) return broken_;
    settle();
  }
  while (!pending_.empty()) {
    if (std::string problem = write(pending_.front()); !problem.empty()) return problem;
    pending_.pop_front();
  }
  return "";
}

std::string FeedLog::write(const Pending& pending) {
  if (std::string problem = roll(pending.bytes.size()); !problem.empty()) return problem;
  std::shared_ptr<Segment> segment;
  {
    const std::lock_guard lock(mutex_);
    segment = segments_.back();
  }
  std::string problem = write_all(segment->file.get(), pending.bytes, segment->bytes);
  // A part of it may be there. It is cut, so that a crash now leaves whole frames alone.
  const bool is_cut =
      problem.empty() || ::ftruncate(segment->file.get(), static_cast<off_t>(segment->bytes)) == 0;
  const std::lock_guard lock(mutex_);
  if (!is_cut) broken_ = problem;
  if (!problem.empty()) return problem;
  for (Entry entry : pending.entries) {
    entry.offset += segment->bytes;
    segment->entries.push_back(entry);
  }
  segment->bytes += pending.bytes.size();
  segment->is_dirty = true;
  written_ += pending.entries.size();
  pending_records_ -= pending.entries.size();
  end_written_ = end_written_ || pending.ends;
  for (const auto& [id, sequence] : pending.sequences) {
    const auto found = producers_.find(id);
    if (found != producers_.end()) found->second.written = sequence;
  }
  return "";
}

// What is written would be gone with this process.
bool FeedLog::is_removed() const {
  if (is_replaced_) return false;
  struct stat status {};
  return ::fstat(segments_.back()->file.get(), &status) != 0 || status.st_nlink == 0;
}

std::string FeedLog::sync() {
  std::vector<std::shared_ptr<Segment>> dirty;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sequences;
  std::uint64_t written = 0;
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) return broken_;
    for (const auto& segment : segments_) {
      if (std::exchange(segment->is_dirty, false)) dirty.push_back(segment);
    }
    written = written_;
    ended = end_written_;
    for (const auto& [id, producer] : producers_) {
      if (producer.written != producer.durable) sequences.emplace_back(id, producer.written);
    }
  }
  int error = 0;
  for (const auto& segment : dirty) {
    if (BF_FAILPOINT("feed.sync")) error = EIO;
    if (error == 0 && ::fdatasync(segment->file.get()) != 0) error = errno;
  }
  const std::lock_guard lock(mutex_);
  if (error != 0) return broken_ = said(error);
  if (is_removed()) return broken_ = folder_ + " was removed while the service had it";
  durable_ = std::max(durable_, written);
  end_durable_ = end_durable_ || ended;
  for (const auto& [id, sequence] : sequences) {
    const auto found = producers_.find(id);
    if (found != producers_.end()) found->second.durable = sequence;
  }
  return "";
}

// ------------------------------------------------------------------------------ looking ----

FeedState FeedLog::state() const {
  const std::lock_guard lock(mutex_);
  FeedState state{first_, durable_, 0, end_durable_};
  for (const Segments* all : {&segments_, &leaving_})
    for (const auto& segment : *all) state.kept += segment->bytes;
  return state;
}

std::uint64_t FeedLog::first() const {
  return state().first;
}

std::uint64_t FeedLog::end_record() const {
  return state().end;
}

Bytes FeedLog::kept() const {
  return state().kept;
}

std::size_t FeedLog::producers() const {
  const std::lock_guard lock(mutex_);
  return producers_.size();
}

bool FeedLog::may_send(std::uint64_t producer) const {
  const std::lock_guard lock(mutex_);
  return producers_.size() < kProducersMost || producers_.contains(producer);
}

bool FeedLog::has_ended() const {
  return state().ended;
}

LogCounts FeedLog::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

LogCounts FeedLog::counts_of(std::uint64_t producer) const {
  const std::lock_guard lock(mutex_);
  const auto found = producers_.find(producer);
  return found == producers_.end() ? LogCounts() : found->second.counts;
}

std::uint64_t FeedLog::durable_sequence(std::uint64_t producer) const {
  const std::lock_guard lock(mutex_);
  const auto found = producers_.find(producer);
  return found == producers_.end() ? 0 : found->second.durable;
}

std::optional<FeedLog::Place> FeedLog::find(std::uint64_t record) const {
  const std::lock_guard lock(mutex_);
  if (record >= durable_) return std::nullopt;
  if (record >= first_) return place_in(segments_, record);
  if (const auto kept = exemplars_->find(record)) return kept;
  return place_in(leaving_, record);
}

std::optional<FeedLog::Place> FeedLog::place_in(const Segments& segments, std::uint64_t record) {
  const auto next = std::upper_bound(
      segments.begin(), segments.end(), record,
      [](std::uint64_t at, const std::shared_ptr<Segment>& one) { return at < one->first; });
  if (next == segments.begin()) return std::nullopt;
  const Segment& segment = **std::prev(next);
  if (record >= segment.end()) return std::nullopt;
  const Entry& entry = segment.entries[record - segment.first];
  return Place{segment.number, entry.offset, entry.bytes, entry.label};
}

bool FeedLog::read(const Place& place, std::span<std::byte> to) const {
  if (is_of_exemplars(place.file)) return exemplars_->read(place, to);
  std::shared_ptr<const Segment> segment;
  {
    const std::lock_guard lock(mutex_);
    segment = segment_of(place.file);
  }
  return segment && to.size() == place.bytes && read_at(segment->file.get(), to, place.offset);
}

std::string_view FeedLog::file_name(std::uint32_t file) const {
  if (is_of_exemplars(file)) return exemplars_->file_name(file);
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(file);
  return found == names_.end() ? std::string_view("") : found->second;
}

Bytes FeedLog::file_bytes(std::uint32_t file) const {
  if (is_of_exemplars(file)) return exemplars_->file_bytes(file);
  const std::lock_guard lock(mutex_);
  const auto segment = segment_of(file);
  return segment ? segment->bytes : 0;
}

// With the lock. Null: there is none.
std::shared_ptr<const FeedLog::Segment> FeedLog::segment_of(std::uint32_t file) const {
  for (const Segments* all : {&segments_, &leaving_})
    for (const auto& segment : *all)
      if (segment->number == file) return segment;
  return gone_ && gone_->number == file ? gone_ : nullptr;
}

// ------------------------------------------------------------------------------ dropping ----

void FeedLog::remove(const Segment& segment) {
  ::unlink((folder_ + "/" + names_[segment.number]).c_str());
}

void FeedLog::drop_before(std::uint64_t record, std::span<const ReservoirName> reservoirs) {
  const std::lock_guard lock(mutex_);
  if (!std::ranges::equal(reservoirs_, reservoirs)) {
    reservoirs_.assign(reservoirs.begin(), reservoirs.end());
    are_noted_ = false;
  }
  const bool rehearses = !reservoirs_.empty() || !leaving_.empty() || !exemplars_->is_empty();
  while (segments_.size() > 1 && segments_[1]->first <= record) {
    if (rehearses) {
      leaving_.push_back(segments_.front());
    } else {
      remove(*segments_.front());
    }
    segments_.pop_front();
    first_ = segments_.front()->first;
  }
}

bool FeedLog::has_to_keep_exemplars() const {
  const std::lock_guard lock(mutex_);
  return !leaving_.empty() || !are_noted_;
}

// A file at a time, so that what has come meanwhile is soon made durable.
std::string FeedLog::keep_exemplars() {
  std::shared_ptr<Segment> leaving;
  std::vector<ReservoirName> reservoirs;
  std::uint64_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    if (leaving_.empty() && are_noted_) return "";
    if (!leaving_.empty()) leaving = leaving_.front();
    reservoirs = reservoirs_;
    first = first_;
  }
  const auto bring = [&](std::uint64_t record, std::vector<std::byte>& bytes, std::int32_t& label) {
    if (!leaving || record < leaving->first || record >= leaving->end()) return false;
    const Entry& entry = leaving->entries[record - leaving->first];
    bytes.resize(entry.bytes);
    label = entry.label;
    return read_at(leaving->file.get(), bytes, entry.offset);
  };
  std::string problem = exemplars_->keep(leaving ? leaving->first : first,
                                         leaving ? leaving->end() : first, reservoirs, bring);
  const std::lock_guard lock(mutex_);
  if (!problem.empty()) return problem;
  are_noted_ = are_noted_ || reservoirs == reservoirs_;
  if (!leaving) return "";
  leaving_.pop_front();
  if (gone_) remove(*gone_);
  gone_ = std::move(leaving);
  return "";
}

bool FeedLog::can_rehearse(const ReservoirName& reservoir) const {
  const std::lock_guard lock(mutex_);
  const bool is_named =
      std::find(reservoirs_.begin(), reservoirs_.end(), reservoir) != reservoirs_.end();
  return reservoir.first >= first_ || is_named || exemplars_->has(reservoir);
}

}  // namespace batchflow::feeds
