// The sources of a scenario that grow: their producers, what happens to records on their way, and
// their logs, as docs/live.md has them.
//
// A record has a key, its number among all that are made. It is lost, or it comes to the log after
// its lag. There it is late, is left out for want of room, or is taken: then it gets its number in
// the log, and is durable when the sync that follows is over. All that is durable is reported to
// the engine, which says how the source goes on.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/base/quantile_sketch.h"
#include "core/engine/event.h"
#include "programs/input/scenario.h"
#include "programs/output/results.h"
#include "sim/world/arrivals.h"
#include "sim/world/kernel.h"
#include "sim/world/reports.h"
#include "sim/world/workload.h"

namespace batchflow::world {

class LiveSource {
 public:
  enum class Fate : std::uint8_t {
    waits,  // at its producer
    on_way,
    lost,
    late,
    thinned,
    taken,
  };

  // All outlive it.
  LiveSource(const input::DatasetModel& model, const Workload::Data& data, std::uint64_t seed,
             Kernel& kernel, Reports& reports);
  LiveSource(const LiveSource&) = delete;
  LiveSource& operator=(const LiveSource&) = delete;

  void begin();
  void go_on(const engine::SourcePaced& command);

  std::uint64_t end() const { return durable_; }
  // From how many of its last records a job may fill steps: those that take a quarter of the log.
  std::uint64_t window_most() const;
  Instant made_at(SampleId record) const { return made_at_[keys_[record.value]]; }
  std::uint32_t class_of(SampleId record) const { return class_of_key(keys_[record.value]); }

  // What became of each record that was made, by key; and the keys of those that were taken.
  const std::vector<Fate>& fates() const { return fates_; }
  const std::vector<std::uint32_t>& keys() const { return keys_; }
  output::SourceResult result() const;

 private:
  struct File {
    std::uint64_t first = 0;  // its first record
    Bytes bytes = 0;
  };

  void make_next();
  void send_waiting();
  void send(std::uint32_t key);
  void arrive(std::uint32_t key);
  bool is_over() const;
  void write(std::uint32_t key, Fate fate);
  void sync();
  void report();
  Bytes kept() const { return kept_; }
  std::uint32_t class_of_key(std::uint32_t key) const;
  std::uint64_t count(Fate fate) const { return counts_[static_cast<std::size_t>(fate)]; }
  void set_fate(std::uint32_t key, Fate fate);

  const input::DatasetModel& model_;
  const input::LiveModel& live_;
  const Workload::Data& data_;
  const std::uint64_t seed_;
  Kernel& kernel_;
  Reports& reports_;
  Arrivals arrivals_;
  bool all_made_ = false;
  std::vector<Instant> made_at_;       // by key
  std::vector<Fate> fates_;            // by key
  std::uint64_t counts_[6] = {};       // by fate
  std::deque<std::uint32_t> waiting_;  // at the producer: keys
  std::uint64_t waiting_most_ = 0;
  std::vector<std::uint32_t> keys_;  // of records, by their number in the log
  Instant newest_{};                 // when the newest record was made that has come
  std::deque<File> files_;
  Bytes kept_ = 0;
  Bytes kept_most_ = 0;
  std::uint64_t durable_ = 0;
  bool syncing_ = false;
  bool is_dirty_ = false;  // something was written that no sync has seen
  bool ended_ = false;     // and that is durable
  engine::SourcePaced paced_;
};

// What a job has read from its source.
struct LiveRecords {
  QuantileSketch lags;       // from where a record is made until a rank trains on it
  QuantileSketch fill_ages;  // of records that fill a step: how long ago they were made
  std::optional<std::uint64_t> first;
};

class LiveSources {
 public:
  // All outlive it.
  LiveSources(const input::Scenario& scenario, const Workload& workload, Kernel& kernel,
              Reports& reports);

  void begin();
  void go_on(const engine::SourcePaced& command) { source(command.dataset)->go_on(command); }
  // Null: the dataset does not grow.
  const LiveSource* find(DatasetId dataset) const;
  const LiveSource* find(const input::JobModel& job) const { return find(workload_.dataset(job)); }

  // A rank trains on these records, and on those that fill its batch.
  void trained_on(DatasetId dataset, std::span<const SampleId> records,
                  std::span<const SampleId> fills, LiveRecords& of_job) const;
  // From how many of its last records a job fills steps.
  std::uint64_t fills_from(const input::JobModel& job) const;
  // The classes and ages of these records, when the job has had `records`.
  output::BufferResult window(const input::JobModel& job, const LiveRecords& had,
                              std::uint64_t records) const;
  static output::LiveResult result(const LiveRecords& had);
  std::vector<output::SourceResult> results() const;

 private:
  LiveSource* source(DatasetId dataset);

  const Workload& workload_;
  const Kernel& kernel_;
  std::map<std::uint32_t, LiveSource> sources_;  // by dataset
};

}  // namespace batchflow::world
