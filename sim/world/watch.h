// Observes the events and commands of a run, and finds what people ask about it: why ranks wait,
// what is kept where, how much is under way, and a timeline of it all.
//
// Why a rank waited is found from the batch that ended the wait, backwards through the stages of
// its last part: delivery, gathering, preparation, the wait for a worker after its bytes had come,
// the read. The time that remains was before its first command; as far as all workers were busy in
// that time, the rank waited for workers.
//
// It decides nothing: a run is the same with it and without it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/event.h"
#include "programs/input/scenario.h"
#include "sim/world/busy_workers.h"
#include "sim/world/job_ids.h"
#include "sim/world/residency.h"
#include "sim/world/sim_time.h"
#include "sim/world/timeline.h"
#include "sim/world/workload.h"

namespace batchflow::world {

enum class Cause : std::uint8_t { storage, drive, network, cores, preparation, delivery, other };
using Waited = std::array<TotalTime, 7>;  // by cause

// In seconds, as the mean over `ranks`.
output::Waits waits(const Waited& waited, double ranks = 1);

class Watch {
 public:
  Watch(const input::Scenario& scenario, const Workload& workload, const JobIds& ids,
        Timeline* timeline);

  // The events and commands of a step of the engine.
  void step(Instant now, std::span<const engine::Event> events,
            std::span<const engine::Command> commands);
  // For a read that is over: its last bytes were on links, not in the store.
  void came_by_links(RequestId read) { by_links_.push_back(read); }
  // For the preparation of a stream, which is just over: what it waited for last.
  void waited_for(RequestId preparation, Cause cause) {
    const auto found = running_.find(preparation.value);
    if (found != running_.end()) found->second.cause = cause;
  }

  // Where a preparation on the node keeps what goes into this share of decoded samples.
  Place decoded_at(ShareId share, NodeId node) const {
    const auto found = decoded_at_.find(share.value);
    const bool here = found != decoded_at_.end() && found->second.node == node;
    return here ? found->second : Place{node, Tier::dram, 0};
  }

  // What a rank did until now, since `from`; by jobs, without a gap.
  enum class Doing : std::uint8_t { stall, compute, idle };
  void spent(JobId job, Rank rank, std::uint64_t step, Doing doing, Instant from, Instant now);

  const Waited& waited() const { return waited_; }                             // of all jobs
  const Waited& waited(std::uint32_t job) const { return jobs_[job].waited; }  // by its index
  output::CachedBytes cached() const { return residency_.sum(); }
  Bytes cached_most() const { return residency_.most(); }
  std::uint64_t reading() const { return reading_; }
  std::uint64_t preparing() const { return preparing_; }
  std::uint64_t workers() const { return workers_.count(); }
  // Of all workers, until now: they prepare, or a read holds them.
  TotalTime busy(Instant now) const { return workers_.busy(now); }

 private:
  // Something that took time, and the track it is on.
  struct Span {
    Instant from{};
    Instant to{};
    Track track = 0;
  };
  struct Sourced : Span {
    Cause cause = Cause::other;
  };
  // What the content of a slot went through.
  struct BlockProgress {
    std::optional<Sourced> read;
    std::optional<Sourced> prepared;
    std::optional<Sourced> gathered;
    Duration full_before{0};  // of its group, when the first read was sent
    std::uint64_t stream = 0;
  };
  struct Running {
    enum class Kind : std::uint8_t { read, prepare, gather, deliver };
    Kind kind;
    Span span;
    bool lane = false;  // `span` has a lane, to be given back
    Cause cause = Cause::other;
    std::uint64_t number = 0;  // of the step or block
    order::BlockName block{};
    std::uint64_t block_key = 0;
    WorkerId worker = WorkerId::none();
    Place place{};
    ShareId share = ShareId::none();
    SlotId slot = SlotId::none();
    ShareId items_share = ShareId::none();  // into which items go
    Place items_place{};                    // of a preparation: where that is
    Form form = Form::encoded;
    Bytes bytes = 0;        // into the slot, or of items
    Bytes items_bytes = 0;  // of a preparation: decoded items
    BlockProgress progress{};
  };
  struct Batch {
    std::uint64_t step;
    BlockProgress progress;
    Span delivered;
  };
  struct RankSeen {
    std::optional<Duration> full_before;  // of its group, when it began to wait
    std::vector<Batch> batches;           // sent, and not trained on
  };
  struct JobSeen {
    std::vector<NodeId> nodes;
    std::vector<RankSeen> ranks;
    std::optional<std::uint64_t> stream;
    Waited waited{};
  };

  // All other events are ignored.
  void on(const engine::JobJoined& event) { set_ranks(event.job, event.ranks); }
  void on(const engine::JobResized& event) { set_ranks(event.job, event.ranks); }
  void on(const engine::JobLeft& event) { seen(event.job).ranks.clear(); }
  void on(const engine::WorkerJoined& event) { workers_.joined(event.worker, event.node, now_); }
  void on(const engine::WorkerQuiesced& event) { workers_.gone(event.worker, now_); }
  void on(const engine::WorkerLost& event) { workers_.gone(event.worker, now_); }
  void on(const engine::NodeLost& event);
  void on(const engine::ReadDone& event) { over(event.request.id, event.outcome); }
  void on(const engine::PreparationDone& event) { over(event.request.id, event.outcome); }
  void on(const engine::TransferDone& event) { over(event.request.id, event.outcome); }
  void on(const engine::DeliveryDone& event) { over(event.request.id, event.outcome); }
  void on(const engine::Read& command);
  void on(const engine::Prepare& command);
  void on(const engine::Transfer& command);
  void on(const engine::Deliver& command);
  void on(const engine::Drop& command);
  void on(const engine::Adopt& command) { decoded_at_[command.share.value] = command.place; }
  void on(const engine::Cancel& command) { over(command.request.id, engine::Outcome::failed); }
  void on(const engine::Release& command) { staged_.erase(command.request.id.value); }
  template <class Other>
  void on(const Other&) {}

  JobSeen& seen(JobId job) { return jobs_[ids_.index_of(job)]; }
  void set_ranks(JobId job, std::span<const NodeId> ranks);
  void over(RequestId request, engine::Outcome outcome);
  void read_done(RequestId id, Running& read);
  void prepared(Running& preparation);
  void gathered(Running& copy);
  Waited why(const JobSeen& job, Rank rank, const Batch* batch, Instant from, Instant now) const;
  void draw(Timeline::What what, const Span& span, std::uint64_t number,
            order::BlockName block = {});
  void draw_flow(const Batch& batch, Track rank, Instant trained);
  Track lane(const std::string& process, const char* kind);
  const std::string& name_of(NodeId node) const;
  Track track_of(JobId job, Rank rank);

  const input::Scenario& scenario_;
  const Workload& workload_;
  const JobIds& ids_;
  Timeline* timeline_;
  Instant now_{};
  Residency residency_;
  BusyWorkers workers_;
  std::vector<JobSeen> jobs_;
  Waited waited_{};
  std::uint64_t reading_ = 0;
  std::uint64_t preparing_ = 0;
  std::vector<RequestId> by_links_;
  // All of these are looked up and never walked.
  std::unordered_map<std::uint64_t, Running> running_;  // by request
  std::unordered_map<std::uint64_t, BlockProgress>
      coming_;                                         // by block that is read and not prepared
  std::unordered_map<std::uint64_t, Sourced> staged_;  // by request of the read
  std::unordered_map<std::uint64_t, BlockProgress> slots_;  // by share and slot
  // By share: the size of an item, encoded (0: the catalogue's) or decoded, or of a prepared item.
  std::unordered_map<std::uint32_t, Bytes> item_bytes_;
  std::unordered_map<std::uint32_t, DatasetId> dataset_of_;  // of shares of encoded items
  std::unordered_map<std::uint32_t, Place> decoded_at_;      // shares of decoded items
};

}  // namespace batchflow::world
