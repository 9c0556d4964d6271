// What a feed's log keeps of the records that it drops: those that reservoirs of jobs have then
// (core/order/reservoir.h). A job that goes on from any record that the log still has finds all of
// its exemplars: they are older and here, or they are in the log.
//
// Frames are appended to one file of the feed's folder (exemplar_file.h), and are durable before
// the log's files go. Where most of the file is not needed any more, another takes its place. The
// one before stays until the next such change, since it may be read just now.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "core/order/reservoir.h"
#include "runtime/feeds/exemplar_file.h"
#include "runtime/feeds/feed_settings.h"

namespace batchflow::feeds {

class ExemplarLog {
 public:
  // Opens what the folder has. Throws FeedError.
  ExemplarLog(std::string folder, const FeedSettings& settings);

  // ---- by one thread

  // Brings a record's bytes and its class. False: it cannot be read.
  using Bring =
      std::function<bool(std::uint64_t record, std::vector<std::byte>& bytes, std::int32_t& label)>;
  // Records [from, next) are to go from the log, or none: keeps those that reservoirs have then, of
  // these names and of all that it has already. Where there is no room for all, some that are not
  // named are forgotten. Empty, or what is wrong: all is as it was, and the records must stay.
  [[nodiscard]] std::string keep(std::uint64_t from, std::uint64_t next,
                                 std::span<const order::ReservoirName> names, const Bring& bring);

  // All of it is forgotten. By the thread that opens it.
  void forget();

  // ---- by any thread

  // The log has dropped the records before this one.
  std::uint64_t dropped_before() const;
  bool has(const order::ReservoirName& name) const;
  bool is_empty() const;
  struct Sums {
    std::size_t exemplars = 0;  // one of several reservoirs counts for each
    Bytes bytes = 0;            // of files
  };
  Sums sums() const;
  struct Place {
    std::uint32_t file = 0;  // its number, see file_name
    std::uint64_t offset = 0;
    Bytes bytes = 0;
    std::int32_t label = -1;
  };
  std::optional<Place> find(std::uint64_t record) const;
  bool read(const Place& place, std::span<std::byte> to) const;
  // A name in the folder, valid as long as this. A zero byte follows. Numbers of files are odd.
  std::string_view file_name(std::uint32_t file) const;
  Bytes file_bytes(std::uint32_t file) const;

 private:
  struct Kept {
    order::Reservoir reservoir;
    std::vector<HeldExemplar> held;  // by slot
  };
  using AllKept = std::map<order::ReservoirName, Kept>;
  void recover(std::uint32_t number);
  std::shared_ptr<ExemplarFile> make_file(std::uint32_t number, std::string& problem) const;
  std::string path_of(std::uint32_t number) const;
  static std::vector<order::ReservoirName> names_of(const AllKept& all);
  void make_room(AllKept& all, std::span<const order::ReservoirName> names) const;
  // From now on this is what is kept.
  void take(std::shared_ptr<ExemplarFile> file, AllKept kept, std::uint64_t dropped_before);
  std::string give_name(const ExemplarFile& file) const;
  void rewrite();

  const std::string folder_;
  const std::uint64_t feed_;
  const Digest version_;  // of the dataset
  const std::uint64_t exemplars_most_;

  mutable std::mutex mutex_;              // all below; only the one thread changes them
  std::shared_ptr<ExemplarFile> file_;    // null: nothing was kept yet
  std::shared_ptr<ExemplarFile> before_;  // which it has replaced
  AllKept kept_;
  std::uint64_t dropped_before_ = 0;
  std::vector<std::pair<std::uint32_t, HeldExemplar>> places_;  // by record
  std::map<std::uint32_t, std::string> names_;                  // of files, by number; they stay
};

}  // namespace batchflow::feeds
