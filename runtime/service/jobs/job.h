// A job of this node and the ends of its ranks, as the service knows them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "core/order/permutation.h"
#include "core/order/position.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring.h"
#include "runtime/protocol/ring_files.h"
#include "runtime/service/backend/slot_memory.h"
#include "runtime/service/backend/stalls.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/jobs/ideal_steps.h"
#include "runtime/service/jobs/job_status.h"
#include "runtime/service/jobs/peer.h"

namespace batchflow::service {

struct ServedJob;

// A batch that a rank holds.
struct HeldSlot {
  ShareId share;
  SlotId slot;
  bool in_place;  // in its block; else a gathered batch
};
// One rank's batch of a step, until the others of the step have come.
struct StepPart {
  protocol::BatchRecord record;
  std::vector<order::Slice> slices;
  std::vector<std::uint64_t> indices;  // of chosen samples
  std::size_t reserved = 0;            // bytes of the ring
};
struct TrainingStep {
  std::vector<StepPart> parts;  // by rank
  std::uint32_t come = 0;
};
struct RankEnd {
  Peer* peer = nullptr;
  ServedJob* job = nullptr;
  Rank rank = 0;
  protocol::JoinRequest request;
  protocol::RingFiles files;
  std::string ticket;        // told to no other rank
  bool is_admitted = false;  // it has its rings
  MemoryCharge ring_charge;
  std::unique_ptr<protocol::RingWriter> to_job;
  std::unique_ptr<protocol::RingReader> from_job;
  std::map<std::uint64_t, HeldSlot> held;  // by step
  // Records of new weights of a mixture, or of exemplars, that are not written yet.
  std::deque<std::vector<std::byte>> changes;
  std::uint64_t delivered = 0;  // steps
  std::size_t unwritten = 0;    // bytes of its parts of steps that are not whole
  std::uint64_t consumed = 0;
  // Of a keyed job: how many keys it has asked for, how many of these are of samples that there
  // are, and how many of those it may wait for at a time.
  std::uint64_t keys = 0;
  std::uint64_t keys_there = 0;
  std::uint32_t credits = 0;
  // Slabs that it was handed and has not reported as unmapped; until then they count.
  std::map<std::uint64_t, std::shared_ptr<const SlabCharge>> slabs;
  std::map<std::uint64_t, std::shared_ptr<const SlabCharge>> slabs_gone;
  std::uint64_t first_step = 0;
  StallBook::Wait wait;
  Duration waited_here{0};  // for the last batch it was delivered
  bool finished = false;    // it was told that no batch follows
  bool left = false;        // it asks for nothing more

  // For a job that has lost the agent of another rank: ends this rank once it has consumed as many
  // steps as that rank may have.
  void end_if_far_enough();
};
struct ServedJob {
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
  // Of a buffer that the engine fills: the records that tell a rank what is in it.
  std::vector<std::vector<std::byte>> buffer_records;
  protocol::Pace pace;
  std::map<std::uint64_t, TrainingStep> steps;  // not written yet
  std::uint64_t written = 0;                    // steps below
  // Of ranks on several nodes: how far each node has what was written, and the pace that follows.
  std::map<std::uint32_t, std::uint64_t> held_at;
  std::uint64_t paced = 0;
  std::optional<std::uint64_t> ends_after;  // steps; nothing more is written
  std::uint64_t steps_left = 0;             // when it began; 0: it did not say
  Instant since{};
  // While the first is false, so are the others. A job that is over was refused before it ran, or
  // ended while it ran because too many of its samples are corrupt. A drain lets go of jobs in any
  // state.
  bool is_announced = false;  // to the engine
  bool running = false;       // the engine has admitted it
  bool over = false;          // its name is free for another
  bool is_let_go = false;     // to its ranks it is as if the service had died
  std::uint32_t credits = 0;  // of each rank: the batches it may hold or wait for
  Bytes batch_bytes = 0;      // of all batches its ranks may hold at once
  // The samples that it reads, each source of a mixture apart, and how many may be corrupt.
  struct CorruptBound {
    SampleRange range;
    std::uint64_t most = 0;
  };
  std::vector<CorruptBound> corrupt_bounds;
  JobStatus sums;
  IdealSteps ideal;

  // It has records as they come, and does not name them.
  bool is_live() const { return request.order == Order::live && !request.order_options.keyed; }
  // The ranges of samples that it reads: the sources of its mixture, or the dataset.
  std::vector<SampleRange> ranges() const;
  // Whether all ranks want no more.
  bool has_left() const;
  std::uint64_t steps_per_epoch() const;
  std::uint64_t epoch_samples() const;
  // The number by which the engine knows the buffer that the job asks for.
  std::uint64_t buffer_number() const;
  // Whether all its ranks allow ideal steps.
  bool allows_ideal() const;
  // Whether it was at its end: it comes back from a checkpoint there, or lost its service there.
  bool has_had_all() const;
  // As the engine hears of it, but for its ranks, credits, weight and position.
  engine::JobJoined joined() const;
  // What the rank hears of it, but for what the engine has decided.
  protocol::JoinAnswer admission(const RankEnd& end) const;
  RankEnd* rank(Rank number) const { return number < ranks.size() ? ranks[number] : nullptr; }
};

}  // namespace batchflow::service
