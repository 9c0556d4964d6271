// What the reads and preparations of a journal took.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/engine/catalogue.h"
#include "core/engine/event.h"
#include "programs/input/journal_workload.h"
#include "programs/input/timed_work.h"

namespace batchflow::input {

class RecordedWork {
 public:
  // What was read and prepared is counted in `figures`.
  explicit RecordedWork(RecordedFigures& figures) : figures_(figures) {}

  // `catalogue` is that of the dataset that is read; null: it is not known.
  void began(const engine::Read& read, const engine::Catalogue* catalogue, Instant now);
  void began(const engine::Prepare& prepare, Instant now);
  void ended(const engine::ReadDone& done, Instant now);
  void ended(const engine::PreparationDone& done, Instant now);
  void cancelled(const engine::Cancel& cancel);

  // How the store answered.
  std::optional<ObservedStore> store() const { return estimate_store(reads_); }
  // Finds the core time of samples. `nodes` has the workers of each node, by its id. `has_help` is
  // that of core_seconds().
  void find_core_times(const std::map<std::uint32_t, ObservedNode>& nodes, bool has_help);
  // Scales the costs that were expected of the pipeline to what was measured, if anything was.
  // REQUIRES: find_core_times()
  void measure(std::uint32_t id, ObservedPipeline& pipeline) const;

 private:
  struct Preparation {
    TimedWork work;
    double decoded = 0;  // samples of it that were kept decoded
    std::uint32_t pipeline = 0;
    std::uint32_t node = 0;
    double core_s = 0;  // of one sample
  };
  using RequestKey = std::pair<std::uint64_t, std::uint32_t>;

  RecordedFigures& figures_;
  std::map<RequestKey, TimedWork> reading_;
  std::map<RequestKey, Preparation> preparing_;
  std::vector<TimedWork> reads_;
  std::vector<Preparation> preparations_;
};

}  // namespace batchflow::input
