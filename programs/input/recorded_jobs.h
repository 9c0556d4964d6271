// The jobs of a journal: what they asked for, how far they came, and what their ranks waited for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "programs/input/journal_workload.h"
#include "programs/input/recorded_configuration.h"
#include "programs/input/timed_work.h"

namespace batchflow::input {

class RecordedJobs {
 public:
  // Samples count for the configuration of the time when they are trained on. A sentence goes to
  // `notes` about all that the scenario has otherwise than the run had.
  RecordedJobs(RecordedConfiguration& configuration, std::set<std::string>& notes)
      : configuration_(configuration), notes_(notes) {}

  bool any() const { return !jobs_.empty(); }
  // `dataset` and `pipeline` are those of the workload.
  void joined(const engine::JobJoined& event, std::size_t dataset, std::size_t pipeline,
              Instant now);
  void reported(const engine::ExemplarsReported& event);
  void resized(const engine::JobResized& event);
  void left(const engine::JobLeft& event, Instant now);
  void consumed(const engine::BatchConsumed& event, Instant now);
  void handed_over(const engine::Deliver& command);
  void delivered(const engine::DeliveryDone& event, Instant now);
  void refused(const engine::Refuse& command);
  void ended(const engine::EpochEnded& command);

  void finish(RecordedRun& run);

 private:
  struct RankTrack {
    Instant free_since{};  // when it came, or was done with its last batch
    Instant last{};
    std::uint64_t steps = 0;
    double stall_s = 0;
  };
  struct JobTrack {
    ObservedJob job;
    Instant joined{};
    std::uint32_t epochs_asked = 0;
    std::uint64_t steps_asked = 0;
    std::uint32_t epochs_ended = 0;
    std::uint32_t last_epoch = 0;
    bool left = false;
    std::vector<RankTrack> ranks;
    Sums steps;

    std::uint64_t steps_done() const;
  };
  struct Batch {
    Instant at;
    std::uint64_t samples = 0;
  };
  using BatchKey = std::tuple<std::uint32_t, Rank, std::uint64_t>;

  JobTrack* find(JobId job);

  RecordedConfiguration& configuration_;
  std::set<std::string>& notes_;
  std::optional<Instant> began_;
  Instant ends_{};
  std::uint64_t samples_ = 0;  // that were trained on
  std::map<std::uint64_t, std::size_t> users_;
  std::map<std::uint32_t, JobTrack> jobs_;
  std::map<std::uint64_t, std::pair<BatchKey, std::uint64_t>> delivering_;  // samples, by request
  std::map<BatchKey, Batch> delivered_;
};

}  // namespace batchflow::input
