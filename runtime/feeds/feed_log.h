// The log of a feed: its records, in the order in which they came, in files of its folder.
//
// A record is *written* when the system has it, and *durable* when the drive has it, too. Only
// durable ones are acknowledged and served. One thread takes and writes, another makes durable; any
// thread may look records up. After a crash the log is what was durable, and what was written of
// the rest as far as it is whole: a torn end is cut.
//
//   file   := head with "BFFEED\r\n" (frames.h), number of its first record (8), frames
//   body of a frame := kind (1), rest
//   record := class (4), producer (8), sequence (8), key (8), time in ns (8), the sample's bytes;
//             a time of the future is that at which it was taken
//   state  := producer (8), its last sequence (8), the counts of LogCounts (8 each)
//   end    := nothing: no record will follow
//
// Of files that go, exemplar_log.h keeps the records that jobs rehearse.
//
// Each file begins with the states of all producers, so the files before it may go. A file that has
// grown long without a record is replaced by a new one, so records that were left out take no room
// for good.
//
// The log knows each producer that ever was, since what such a producer sends again must not be
// taken again. From kProducersMost on the feed welcomes no new one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "runtime/feeds/exemplar_log.h"
#include "runtime/feeds/feed_settings.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/feed_wire.h"

namespace batchflow::feeds {

// What became of records, over the whole life of the feed.
struct LogCounts {
  std::uint64_t taken = 0;
  std::uint64_t doubled = 0;    // sent again: they are there already
  std::uint64_t late = 0;       // older than the settings allow
  std::uint64_t thinned = 0;    // left out, since there was no room
  std::uint64_t malformed = 0;  // of a wrong size, or from a connection that broke the rules
  friend bool operator==(const LogCounts&, const LogCounts&) = default;
};

inline constexpr std::size_t kProducersMost = 1 << 16;

enum class Taken : std::uint8_t { taken, doubled, late, thinned, malformed };

// What the owner of a feed must know of it.
struct FeedState {
  std::uint64_t first = 0;
  std::uint64_t end = 0;  // behind the last durable record
  Bytes kept = 0;
  bool ended = false;  // no record will follow, and that is durable
};

class FeedLog {
 public:
  // Opens the log in the folder, or begins it. Throws FeedError.
  FeedLog(std::string folder, FeedSettings settings);
  ~FeedLog();
  FeedLog(const FeedLog&) = delete;
  FeedLog& operator=(const FeedLog&) = delete;

  const FeedSettings& settings() const { return settings_; }
  const std::string& folder() const { return folder_; }
  // How many bytes were cut from the end when the log was opened.
  Bytes cut() const { return cut_; }
  // Whether exemplars were forgotten then, since files of records had gone without them.
  bool has_forgotten() const { return has_forgotten_; }

  // ---- by the thread that takes

  // The record is written with the next write(), or is counted. Records are left out unless the low
  // 32 bits of their key's hash are below `taken_part`.
  Taken take(std::uint64_t producer, const protocol::FeedRecordHead& head,
             std::span<const std::byte> bytes, std::uint64_t taken_part);
  void count_malformed(std::uint64_t producer);
  void end();
  // The last sequence of the producer that is taken, or was counted; 0: none.
  std::uint64_t last_sequence(std::uint64_t producer) const;
  bool has_to_write() const;
  // Bytes that wait to be written.
  Bytes waiting() const;
  // Writes what was taken. Empty, or what is wrong: what could not be written goes on waiting, and
  // the file is as it was.
  [[nodiscard]] std::string write();

  // ---- by the thread that makes durable

  // Keeps what jobs rehearse of the first file that is to go, and lets it go; or notes new
  // reservoirs. Empty, or what is wrong: all is as it was, and it is to be called again.
  [[nodiscard]] std::string keep_exemplars();
  // Makes durable what was written before the call. Empty, or what is wrong: the log then takes
  // nothing any more, since it is not known what the drive has.
  [[nodiscard]] std::string sync();

  // ---- by any thread

  FeedState state() const;  // of one moment
  std::uint64_t first() const;
  std::uint64_t end_record() const;  // behind the last durable one
  Bytes kept() const;                // all files
  std::size_t producers() const;     // that are known
  // It knows the producer, or has room for one more.
  bool may_send(std::uint64_t producer) const;
  bool has_ended() const;    // and that is durable
  LogCounts counts() const;  // of what was taken, durable or not
  // Of the producer's records since the log was opened.
  LogCounts counts_of(std::uint64_t producer) const;
  // The producer's last sequence that is durable as a record, or durably counted.
  std::uint64_t durable_sequence(std::uint64_t producer) const;
  using Place = ExemplarLog::Place;
  // None: it is not there, or gone.
  std::optional<Place> find(std::uint64_t record) const;
  // Reads the bytes of a record that was found. False: the drive does not give them, or they went
  // meanwhile.
  bool read(const Place& place, std::span<std::byte> to) const;
  // A name in the folder, valid as long as the log. A zero byte follows.
  std::string_view file_name(std::uint32_t file) const;
  Bytes file_bytes(std::uint32_t file) const;
  // The files that have only records before this one go, and the records before these files' end
  // are gone, but for what reservoirs have then: of these names, and of those that were named
  // before, as far as there is room. If there are any, the files stay until keep_exemplars().
  void drop_before(std::uint64_t record, std::span<const order::ReservoirName> reservoirs = {});
  // It is to be called again and again, until this says no.
  bool has_to_keep_exemplars() const;
  // Whether all exemplars of this reservoir are there, for any record that is there.
  bool can_rehearse(const order::ReservoirName& reservoir) const;
  ExemplarLog::Sums exemplars() const { return exemplars_->sums(); }

 private:
  struct Entry {
    std::uint64_t offset = 0;  // of the sample's bytes
    std::uint32_t bytes = 0;
    std::int32_t label = -1;
  };
  struct Segment {
    std::uint64_t first = 0;
    std::uint32_t number = 0;
    Bytes bytes = 0;  // written
    Bytes head = 0;   // of these, before all that was taken
    bool is_dirty = false;
    std::vector<Entry> entries;
    protocol::Descriptor file;
    std::uint64_t end() const { return first + entries.size(); }
  };
  using Segments = std::deque<std::shared_ptr<Segment>>;
  // Frames that wait to be written: no more bytes than a file may have, or one longer frame. So the
  // last file, which always stays, never takes most of what a small log keeps.
  struct Pending {
    std::vector<std::byte> bytes;
    std::vector<Entry> entries;  // of its records; offsets count from its beginning
    // The last sequence of each producer in these frames, or counted before them.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> sequences;
    bool ends = false;  // the end is among them
  };
  struct Producer {
    std::uint64_t taken = 0;    // the last sequence
    std::uint64_t written = 0;  // of that, as far as it is written
    std::uint64_t durable = 0;
    bool is_changed = false;  // without a record: its state is to be written
    LogCounts counts;         // since the log was opened
  };

  void recover();
  void read_segment(Segment& segment, bool is_last);
  bool apply(Segment& segment, std::span<const std::byte> body, std::uint64_t offset);
  std::uint32_t take_number() { return std::exchange(next_number_, next_number_ + 2); }
  std::shared_ptr<Segment> make_segment(bool replaces);
  void begin_segment(std::shared_ptr<Segment> segment);
  std::string roll(Bytes next_bytes);
  Pending& pending_for(std::size_t frame_bytes);
  void settle();
  std::string write(const Pending& pending);
  bool is_removed() const;
  void remove(const Segment& segment);
  std::shared_ptr<const Segment> segment_of(std::uint32_t file) const;
  static std::optional<Place> place_in(const Segments& segments, std::uint64_t record);
  void put_state(std::uint64_t producer, std::uint64_t sequence, std::uint64_t taken,
                 std::vector<std::byte>& to);

  const std::string folder_;
  const FeedSettings settings_;
  Bytes cut_ = 0;
  bool has_forgotten_ = false;
  protocol::Descriptor lock_;
  std::unique_ptr<ExemplarLog> exemplars_;

  // Used by the thread that takes. A state is never written before its records.
  std::deque<Pending> pending_;
  std::uint64_t pending_records_ = 0;
  std::vector<std::byte> body_;  // scratch
  bool end_waits_ = false;
  std::int64_t newest_ns_ = INT64_MIN;

  // Guards all below. Only the thread that takes changes which producers there are, the counts and
  // the last segment. So it reads these without the lock, and never waits for the drive while it
  // holds it.
  mutable std::mutex mutex_;
  Segments segments_;
  Segments leaving_;  // that are gone once their exemplars are kept
  // That has gone last. Its records may be read just now, so it stays until another goes.
  std::shared_ptr<Segment> gone_;
  std::vector<order::ReservoirName> reservoirs_;  // of the jobs that there are
  bool are_noted_ = true;                         // in the file of exemplars
  std::map<std::uint64_t, Producer> producers_;
  LogCounts counts_;
  std::uint64_t first_ = 0;
  std::uint64_t written_ = 0;  // behind the last record that is written
  std::uint64_t durable_ = 0;
  bool end_written_ = false;
  bool end_durable_ = false;
  std::string broken_;                          // why it takes nothing any more; empty: it does
  bool is_replaced_ = false;                    // the last file is, just now
  std::map<std::uint32_t, std::string> names_;  // of files that had records, by number; they stay
  std::uint32_t next_number_ = 0;
};

}  // namespace batchflow::feeds
