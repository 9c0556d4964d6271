// Which bytes a device copies next: copies wait by urgency, and go in pieces.
//
// A copy engine does one thing after another: 64 KiB that are given to it behind 200 MB wait for
// all of them. So large copies are cut into pieces, few pieces are in flight at a time, and a more
// urgent copy goes before the pieces that are left. It waits for at most `pieces_in_flight` pieces
// of each less urgent kind. Small pieces go together, since each costs the driver as much as a
// large one.
//
// What is in flight ends in the order in which it began.
//
// The queue copies nothing and has no thread: runtime/gpu/copies.h asks it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/gpu/device.h"

namespace batchflow::gpu {

enum class Urgency : std::uint8_t { urgent, usual, background };
inline constexpr std::size_t kUrgencies = 3;

struct Copy {
  std::vector<Piece> pieces;
  Urgency urgency = Urgency::usual;
  // What the copy reads and writes stays for as long as this does.
  std::shared_ptr<const void> keeper;
  // Called once, by the thread of the copies: with an empty text when all bytes are confirmed to be
  // there, otherwise with what went wrong. Nothing of the copy is under way by then.
  std::function<void(const std::string& problem)> done;
};

struct CopySettings {
  Bytes piece_bytes = Bytes{8} << 20;
  std::uint32_t pieces_in_flight = 2;  // of one urgency and all that are more urgent
  Bytes small_bytes = Bytes{1} << 20;  // pieces up to this size go together
  std::uint32_t together_most = 512;
};

// What a device is given at once.
struct Bundle {
  Urgency urgency = Urgency::usual;
  std::vector<Piece> pieces;
};

class CopyQueue {
 public:
  explicit CopyQueue(CopySettings settings) : settings_(settings) {}

  void add(Copy copy);
  // The next bundle, which is in flight from now on. None: as many are in flight as may be.
  std::optional<Bundle> next();
  // The newest bundle in flight did not begin. Its copies fail.
  void refuse(const std::string& problem);
  // The oldest bundle in flight is over.
  void confirm();
  // All copies fail, those in flight, too. REQUIRES: the device does nothing any more
  void fail_all(const std::string& problem);
  // Those that have not begun fail.
  void fail_waiting(const std::string& problem);

  struct Finished {
    Copy copy;
    std::string problem;
  };
  std::vector<Finished> take_finished() { return std::exchange(finished_, {}); }

  bool has_in_flight() const { return !in_flight_.empty(); }
  bool has_waiting() const;

 private:
  struct Entry {
    Copy copy;
    std::size_t piece = 0;  // the first that has not begun, and how much of it has
    Bytes offset = 0;
    std::uint32_t bundles = 0;  // in flight
    std::string problem;

    bool has_begun() const { return piece == copy.pieces.size(); }
  };
  using Entries = std::deque<std::shared_ptr<Entry>>;
  struct InFlight {
    Urgency urgency;
    Entries entries;
  };

  Entries& waiting(Urgency urgency) { return waiting_[static_cast<std::size_t>(urgency)]; }
  bool may_begin(Urgency urgency) const;
  Bundle make_bundle(Urgency urgency);
  bool add_part(Bundle& bundle, Bytes& bytes);
  void end_bundle(const Entries& entries);
  void stop(const std::shared_ptr<Entry>& entry, const std::string& problem);
  void finish(Entry& entry);

  const CopySettings settings_;
  std::array<Entries, kUrgencies> waiting_;
  std::deque<InFlight> in_flight_;
  std::vector<Finished> finished_;
};

}  // namespace batchflow::gpu
