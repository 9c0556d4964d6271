// The file of a feed's exemplars: how it is written and read (runtime/feeds/exemplar_log.h).
//
//   file     := head with "BFEXMPL\n", frames (frames.h)
//   exemplar := 1, name, slot (4), record (8), class (4), the sample's bytes
//   kept     := 2, dropped before (8), how many reservoirs there are (4), their names
//   name     := seed (8), first record (8), exemplars at most (4)
//
// A `kept` frame says that the exemplars of these reservoirs are those that they have after all
// records before that one. What follows the last of these frames counts for nothing.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/order/reservoir.h"
#include "runtime/feeds/frames.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::feeds {

// What the file has for an exemplar beside the sample's bytes: frame, kind, name and three numbers.
inline constexpr Bytes kBesideExemplar = kFrameHead + 1 + 20 + 4 + 8 + 4;

// Where the file has an exemplar.
struct HeldExemplar {
  std::uint64_t offset = 0;  // of the sample's bytes
  std::uint32_t bytes = 0;
  std::int32_t label = -1;
};

struct ExemplarFile {
  std::uint32_t number = 0;
  Bytes bytes = 0;  // up to the end of the last `kept` frame
  protocol::Descriptor file;
};

// A file can have these reservoirs.
bool can_be_kept(const order::ReservoirName& name);

// The head of a new file.
std::vector<std::byte> exemplar_file_head(std::uint64_t feed);

// Appends frames. What goes wrong first stays, and nothing is written after it.
class ExemplarWriter {
 public:
  // The file outlives it.
  explicit ExemplarWriter(const ExemplarFile& file) : file_(file), end_(file.bytes) {}

  HeldExemplar exemplar(const order::ReservoirName& name, std::uint32_t slot, std::uint64_t record,
                        std::int32_t label, std::span<const std::byte> bytes);
  void kept(std::uint64_t dropped_before, const std::vector<order::ReservoirName>& names);
  void fail(std::string problem);
  bool failed() const { return !problem_.empty(); }
  // Makes it durable. Empty, or what is wrong.
  [[nodiscard]] std::string finish();
  // Where the last frame ends.
  std::uint64_t end() const { return end_ + pending_.size(); }

 private:
  void put();
  void flush();

  const ExemplarFile& file_;
  std::uint64_t end_;
  std::vector<std::byte> body_;
  std::vector<std::byte> pending_;
  std::string problem_;
};

// Reads what a file has, as of its last `kept` frame.
class ExemplarReader {
 public:
  struct Slots {
    std::vector<std::uint32_t> records;
    std::vector<HeldExemplar> held;
  };

  // Throws FeedError, which names the path: it is of another feed or version, or is damaged as no
  // crash damages it. Sets file.bytes.
  ExemplarReader(ExemplarFile& file, std::uint64_t feed, const std::string& path);

  std::uint64_t dropped_before() const { return dropped_before_; }
  // As many of each as it has after the records before that one.
  std::map<order::ReservoirName, Slots>& reservoirs() { return reservoirs_; }

 private:
  struct Change {
    order::ReservoirName name;
    std::uint32_t slot = 0;
    std::uint32_t record = 0;
    HeldExemplar held;
  };
  // False: no service writes that.
  bool exemplar(std::span<const std::byte> body, std::uint64_t offset);
  bool kept(std::span<const std::byte> body);
  bool is_complete() const;

  std::vector<Change> changes_;  // since the last `kept` frame
  std::uint64_t dropped_before_ = 0;
  std::map<order::ReservoirName, Slots> reservoirs_;
};

}  // namespace batchflow::feeds
