// The jobs of this node: their ranks, each a connection with two rings, and what they hold.
//
// A job is (user, name, dataset). It begins when all its ranks have come, and the engine gets one
// event for all of them. Its batches go out through the rings; its wishes, acknowledgements and
// releases come back through them. What a rank says is checked against what it was given: a job
// that lies hurts only itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config_value.h"
#include "core/engine/engine_config.h"
#include "core/engine/event.h"
#include "core/engine/promise.h"
#include "core/order/permutation.h"
#include "core/order/position.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring.h"
#include "runtime/protocol/ring_files.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/stalls.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/returning.h"
#include "runtime/service/jobs/users.h"

namespace batchflow::service {

// What a rank's agent does for it, in the order in which it is asked for.
class AgentEnd {
 public:
  virtual NodeId node() const = 0;
  // The next frame for the rank admits it to the job: the agent adds rings, and the job's pace.
  virtual void admit(JobId job) = 0;
  // Writes into the rank's ring. A batch's record names the share and the slot of its batch in
  // place of a slab and an offset.
  virtual void write(std::span<const std::byte> record) = 0;
  // Asks the agent to say when all its ranks of the job have what was written (Jobs::held).
  virtual void ask_held(JobId job, std::uint64_t steps) = 0;
  // Raises the pace of the rank's job.
  virtual void raise(JobId job, std::uint64_t steps) = 0;
  // The rank has released a gathered batch.
  virtual void free(ShareId share, SlotId slot) = 0;
  // Whether the rank has shown that its user may read the dataset.
  virtual bool may_read(DatasetId dataset) const = 0;

 protected:
  ~AgentEnd() = default;
};

// The other end of a rank's socket.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  virtual void send(std::string frame, std::vector<int> descriptors) = 0;  // kept by the caller
  virtual void end() = 0;  // after what has been sent
  virtual bool has_unsent() const = 0;
  virtual uid_t user() const = 0;
  virtual pid_t process() const = 0;
  virtual const std::string& from() const = 0;  // another machine; empty: this one
  // Of a rank on another node: its agent has its rings and the memory of its batches. Null: they
  // are here.
  virtual AgentEnd* agent() { return nullptr; }

 protected:
  ~Peer() = default;
};

// Tells the peer why it gets nothing, and ends it.
void refuse(Peer& peer, std::string_view why, std::string_view message);

// What all jobs have waited for batches and computed so far, those that have left included.
struct WaitTotals {
  double wait_s = 0;
  double compute_s = 0;
};

class Jobs final : public JobCommands {
 public:
  struct Options {
    std::uint32_t credits = engine::EngineConfig().credits;  // a rank
    bool share_streams = true;
    Bytes ring_bytes = Bytes{256} << 10;
    Duration wait_for_ranks = std::chrono::seconds(300);
    // As a ratio of the dataset's samples: for jobs that say nothing, and the most a job may ask
    // for.
    Ratio corrupt_ratio_max{Ratio::kWhole / 1000};
    Ratio corrupt_ratio_allowed{Ratio::kWhole / 1000};
  };
  // `users` says how many jobs each user may have, and what they may hold.
  Jobs(const Options& options, const Users& users, Inbox& inbox, StallBook& stalls);
  ~Jobs();

  // For jobs that come from now on.
  void set_options(const Options& options) { options_ = options; }
  void share_streams(bool share) { options_.share_streams = share; }
  // Sets the jobs of the previous service that may return.
  void set_returning(Returning& returning) {
    returning_ = &returning;
    next_job_ = returning.next_job();
  }
  // Empty: there is no such job.
  std::string name_of(JobId job) const;
  // The backend gets back the slots of gathered batches.
  void set_backend(Backend& backend) { backend_ = &backend; }
  // What the engine has promised in a step: where jobs begin. Call it before the step's commands
  // are carried out.
  void promised(std::span<const engine::Promise> promises);

  // A peer asks to join. Its dataset and pipeline are open, and its user may read them.
  void join(Peer& peer, const protocol::JoinRequest& request, ServedDataset& dataset,
            ServedPipeline& pipeline, Instant now);
  // The peer will ask for nothing more. It ends when it has released what it holds.
  void leave(Peer& peer);
  // The peer's socket has ended.
  void gone(Peer& peer);
  // The peer's agent is lost, and the rank looks for another: the other ranks of its job go as far
  // as it may have gone, and then look for the service, too. Call it before gone().
  void away(const Peer& peer);
  // All ranks of the job on the node have the batches of the steps below `steps`.
  void held(NodeId node, JobId job, std::uint64_t steps);
  // Reads what the peer has written into its ring. False: it has written nonsense.
  bool read_ring(Peer& peer);
  // Call this before waiting for the rank's doorbell: from then on the rank rings when it has
  // written. False: there is more to read.
  bool sleep(Peer& peer);
  const protocol::Descriptor* doorbell(Peer& peer) const;
  // Refuses jobs that have waited too long for their other ranks.
  void check_waiting(Instant now);
  // Ends the jobs of that name, also those that wait for their ranks; answers how many.
  std::size_t kill(std::string_view name);
  // No job begins any more. Each that runs is let go where its epoch ends: its ranks look for the
  // next service, and go on there.
  void drain();
  bool any_is_of(DatasetId dataset) const;
  bool any_is_of(PipelineId pipeline) const;
  // Only jobs that want more count. Others have left, and hold some of what they had.
  bool any_reads(DatasetId dataset) const;
  bool none_reads() const;
  // The name of a sample or class of the peer's dataset; empty if there is none.
  std::string name(Peer& peer, bool of_class, std::uint64_t key) const;
  // The sums that `of` asks for, over the samples of its range that the peer's dataset has.
  protocol::SamplesSum sum(Peer& peer, protocol::SamplesSum of) const;
  // Which other ranks of its job the peer waits for, as text; empty: none.
  std::string waits_for_ranks(Peer& peer) const;

  void admitted(const engine::Admit& command) override;
  void refused(const engine::Refuse& command) override;
  bool deliver(const engine::Deliver& command, const Slot* slot,
               std::uint32_t slot_samples) override;
  void epoch_ended(const engine::EpochEnded& command) override;
  void slab_gone(std::uint64_t slab) override;
  // A rank's agent has read this in its ring. False: it is nonsense.
  bool take_record(Peer& peer, std::span<const std::byte> record);

  // What people ask about a job.
  struct Status {
    JobId id;
    std::string name;
    uid_t user = 0;
    std::string dataset;
    std::string pipeline;
    Order order = Order::relaxed;
    std::uint32_t batch_samples = 0;
    std::uint32_t world_size = 1;
    std::uint32_t ranks_here = 0;
    std::uint32_t remote_ranks = 0;  // of these, on other machines:
    std::set<std::string> from;
    bool running = false;
    bool left = false;  // it wants no more, and holds some of what it had
    std::uint32_t epoch = 0;
    std::uint64_t steps = 0;    // consumed, by the fastest rank
    std::uint64_t samples = 0;  // delivered
    std::uint64_t copied = 0;   // batches that were gathered
    std::uint64_t repeats = 0;
    Duration waited{0};  // for batches, all ranks together: stalls
    WaitHistogram waits_for_batches;
    Duration computed{0};
    // The same waits as this service measured them, by stage, with those that still go on.
    StageTimes stalls;
    std::uint32_t waiting = 0;  // ranks that wait for a batch now
    Duration waits{0};          // how long the longest of these has waited
    Stage waits_for = Stage::room;
    Duration waits_to_begin{0};  // for its ranks, or for the engine's admission
    std::uint32_t held = 0;      // batches
    Bytes batch_bytes = 0;       // that it may hold
    // What it asked for when it joined, and how far it is to its end: for what-ifs.
    std::optional<std::uint64_t> shuffle_seed;
    bool drop_last = false;
    protocol::OrderOptions order_options;
    std::uint32_t credits = 0;
    double weight = 1;
    double latency_target_s = 0;
    std::uint64_t exemplars = 0;    // that it rehearses from
    std::uint64_t steps_to_go = 0;  // of a rank; 0: nobody knows
    PipelineId pipeline_id;
    Digest pipeline_hash = 0;
    std::uint64_t consumed = 0;     // batches, of all ranks
    double compute_squares_s2 = 0;  // the squares of the times in `computed`, added up
  };
  std::vector<Status> status(Instant now) const;
  // Of all jobs since the start: by stage, and how long each wait was.
  StageTimes stalls() const;
  const WaitHistogram& waits() const { return waits_; }
  const WaitTotals& wait_totals() const { return wait_totals_; }
  // Called after each engine step: from now on ranks may read what was delivered, and those that
  // sleep are woken once.
  void wake();

 private:
  struct Held {
    ShareId share;
    SlotId slot;
    bool in_place;
  };
  // One rank's batch of a step, until the others of the step have come.
  struct Part {
    protocol::BatchRecord record;
    std::vector<order::Slice> slices;
    std::vector<std::uint64_t> indices;  // of chosen samples
    std::size_t reserved = 0;            // bytes of the ring
  };
  struct TrainingStep {
    std::vector<Part> parts;  // by rank
    std::uint32_t come = 0;
  };
  struct Job;
  struct RankEnd {
    Peer* peer = nullptr;
    Job* job = nullptr;
    Rank rank = 0;
    protocol::JoinRequest request;
    protocol::RingFiles files;
    std::string ticket;  // told to no other rank
    bool is_admitted = false;
    MemoryCharge ring_charge;
    std::unique_ptr<protocol::RingWriter> to_job;
    std::unique_ptr<protocol::RingReader> from_job;
    std::map<std::uint64_t, Held> held;  // by step
    std::uint64_t delivered = 0;         // steps
    std::size_t unwritten = 0;           // bytes of its parts of steps that are not whole
    std::uint64_t consumed = 0;
    // Slabs that it was handed and has not reported as unmapped; until then they count.
    std::map<std::uint64_t, std::shared_ptr<const SlabCharge>> slabs;
    std::map<std::uint64_t, std::shared_ptr<const SlabCharge>> slabs_gone;
    std::uint64_t first_step = 0;
    StallBook::Wait wait;
    Duration waited_here{0};  // for the last batch it was delivered
    bool finished = false;
    bool left = false;
  };
  struct Job {
    JobId id;
    std::string name;
    uid_t user = 0;
    ServedDataset* dataset = nullptr;
    ServedPipeline* pipeline = nullptr;
    protocol::JoinRequest request;  // of its first rank
    std::vector<RankEnd*> ranks;
    std::optional<order::Position> position;  // where it begins
    // Where a policy chooses its samples: the order of the epoch that was delivered last.
    std::optional<std::pair<std::uint32_t, order::Permutation>> chosen_from;
    Digest exemplars = 0;            // of those that its first rank came with
    std::size_t buffer_samples = 0;  // that rank 0 has reported, as far as they have come
    protocol::Pace pace;
    std::map<std::uint64_t, TrainingStep> steps;  // not written yet
    std::uint64_t written = 0;                    // steps below
    // Of ranks on several nodes: how far each node has what was written, and the pace that follows.
    std::map<std::uint32_t, std::uint64_t> held_at;
    std::uint64_t paced = 0;
    std::optional<std::uint64_t> ends_after;  // steps; nothing more is written
    std::uint64_t steps_left = 0;             // when it began; 0: it did not say
    Instant since{};
    bool is_announced = false;  // to the engine
    bool running = false;
    bool over = false;
    bool is_let_go = false;  // by a drain: to its ranks it is as if the service had died
    bool has_left() const;
    Bytes batch_bytes = 0;           // of all batches its ranks may hold at once
    std::uint64_t corrupt_most = 0;  // samples
    Status sums;
  };

  RankEnd* find_end(const Peer& peer) const;
  Job* find_job(JobId id) const;
  bool begin(Job& job);
  void finish_if_left(Job& job);
  void forget(Job& job);
  void let_go(Job& job);
  bool take_record(RankEnd& end, std::span<const std::byte> record);
  bool take_exemplars(const RankEnd& end);
  void add_exemplars(Job& job);
  static std::uint64_t steps_per_epoch(const Job& job);
  static std::uint64_t epoch_samples(const Job& job);
  static bool has_had_all(const Job& job);
  std::string refusal_message(const Job& job, const engine::Refuse& command) const;
  std::uint64_t corrupt_most(const Job& job) const;
  void end_by_corrupt_samples();
  void finish(RankEnd& end, protocol::ServiceRecordKind how);
  void begin_wait(RankEnd& end);
  void end_wait(RankEnd& end);
  void add_stall(Job& job, const StageTimes& ended);
  void write(RankEnd& end, std::span<const std::byte> record);
  static bool has_room_for(RankEnd& end, std::size_t bytes);
  bool make_rings(RankEnd& end);
  void release(RankEnd& end, const Held& held);
  static void raise(Job& job);
  static void ask_held(Job& job);
  static void settle_pace(Job& job);
  void end_if_far_enough(RankEnd& end);
  bool send_back_those_behind(Job& job);
  void write_steps(Job& job);
  void write_step(Job& job, TrainingStep& step);
  static std::vector<std::uint64_t> chosen_indices(Job& job, const engine::Deliver& command);
  void encode_indices(std::vector<std::uint64_t>& indices);

  Bytes batch_bytes(const protocol::JoinRequest& request, ServedPipeline& pipeline) const;
  std::string quota_problem(uid_t user, Bytes bytes) const;
  double weight(uid_t user, double asked) const;

  Options options_;
  const Users& users_;
  bool draining_ = false;
  Inbox& inbox_;
  StallBook& stalls_;
  WaitHistogram waits_;
  WaitTotals wait_totals_;
  Backend* backend_ = nullptr;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::map<const Peer*, std::unique_ptr<RankEnd>> ends_;
  std::vector<RankEnd*> written_;       // to, since the last wake()
  std::vector<Job*> delivered_;         // whole steps, since then
  std::vector<Job*> raised_;            // their pace is to be raised
  std::vector<order::Slice> slices_;    // of a step
  std::vector<std::uint64_t> indices_;  // of its chosen samples
  std::vector<std::byte> index_bytes_;  // the same as they are written
  std::map<std::uint32_t, Job*> by_id_;
  std::uint32_t next_job_ = 0;
  bool has_new_job_ = false;        // admitted since the last wake()
  std::uint64_t corrupt_seen_ = 0;  // by the backend, at the last wake()
  Returning* returning_ = nullptr;
  // Part of the names of unnamed jobs. It differs at each start, because unnamed jobs of this
  // service may come back to the next one.
  const std::uint32_t start_;
  std::uint64_t unnamed_ = 0;
  std::vector<std::byte> record_;  // being written
  protocol::JobMessage message_;   // being read
};

}  // namespace batchflow::service
