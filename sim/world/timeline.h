// What every machine did, and when, for a viewer of traces: Chrome's trace format, which Perfetto
// opens.
//
// All that takes time is a slice on a track where nothing else goes on at that time: of a rank, a
// worker, or a lane. What overlaps (reads, copies) takes the lowest free lane. Arrows lead a batch
// from the read of its last block through preparation, gathering and delivery to the step that
// trained on it. The number of events is bounded: at the bound, recording ends with a mark and the
// run goes on.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "programs/output/results.h"

namespace batchflow::world {

using Track = std::uint32_t;

class Timeline {
 public:
  enum class What : std::uint8_t { read, prepare, gather, deliver, train, stall, idle };

  explicit Timeline(std::uint64_t events_most) : events_most_(events_most) {}

  Track track(const std::string& process, const std::string& thread);
  // A track of the process named `kind 1`, `kind 2`...; it is taken until it is freed.
  Track take_lane(const std::string& process, const std::string& kind);
  void free_lane(Track track);

  struct Slice {
    What what;
    Track track;
    Instant from;
    Instant to;
    std::uint64_t number = 0;     // of the step
    order::BlockName block = {};  // of reads and preparations
  };
  void add(const Slice& slice);
  // The path of a batch: a point within a slice on each track. All of it is recorded, or none.
  using Point = std::pair<Track, Instant>;
  void add_flow(std::span<const Point> points);

  std::uint64_t events() const { return slices_.size() + flow_points_.size(); }
  bool ended() const { return ended_; }
  // With the series of kept bytes and of ranks that wait.
  std::string json(std::span<const output::SeriesPoint> series, const std::string& scenario) const;

 private:
  struct FlowPoint {
    std::uint64_t flow;
    Point at;
    char phase;  // s, t, f
  };
  struct Lanes {
    std::vector<Track> tracks;
    std::vector<bool> taken;
  };
  bool room_for(std::size_t more, Instant when);

  std::uint64_t events_most_;
  bool ended_ = false;  // it is full
  Instant ended_at_{};
  std::uint64_t flows_ = 0;
  std::vector<std::pair<std::string, std::string>> tracks_;  // process, thread
  std::map<std::pair<std::string, std::string>, Track> track_of_;
  std::map<std::pair<std::string, std::string>, Lanes> lanes_;
  std::vector<std::pair<Lanes*, std::size_t>>
      lane_of_;  // by track; null for a track that is no lane
  std::vector<Slice> slices_;
  std::vector<FlowPoint> flow_points_;
};

}  // namespace batchflow::world
