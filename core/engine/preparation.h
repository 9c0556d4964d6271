// The making of blocks: a slot, reads, a worker, and what can go wrong with each.
//
// A making begins when dispatch has chosen it and a slot is free for it. The block is made part by
// part. The making waits for staging memory for the next part (core/engine/staging.h), then for the
// part's reads, then for a free worker of its node, then for that worker to finish. What fails is
// tried again within a bound. Samples that cannot be decoded from two reads of the store are
// replaced by the rule. What cannot be made is reported, and the jobs that need it are refused. A
// slot that a lost worker might still write stays taken until the worker is quiesced.
#pragma once

#include "core/engine/block_parts.h"
#include "core/engine/block_selection.h"
#include "core/engine/charges.h"
#include "core/engine/items.h"
#include "core/engine/kept_items.h"
#include "core/engine/second_workers.h"
#include "core/engine/state.h"
#include "core/engine/suspects.h"
#include "core/engine/workers.h"

namespace batchflow::engine {

class Preparation {
 public:
  Preparation(EngineState& state, Reads& reads, Items& items, const KeptItems& kept_items,
              Charges& charges, Workers& workers, Suspects& suspects, BlockParts& parts,
              SecondWorkers& seconds, BlockSelection& selection)
      : s_(state),
        reads_(reads),
        items_(items),
        kept_items_(kept_items),
        charges_(charges),
        workers_(workers),
        suspects_(suspects),
        parts_(parts),
        second_workers_(seconds),
        selection_(selection) {}

  // ---- starting. A need is a block of the job's lanes, or a grant of a block that is gone.
  struct Need {
    order::BlockRef ref;
    Grant* grant = nullptr;
    bool remake = false;
  };
  // False: everything in the share is pinned for the moment.
  bool start(Job& job, Need need, Charges::Site site);

  // ---- what is reported.
  void making_ready(MakingIndex making);
  void making_failed(MakingIndex making, std::optional<Refusal> why);
  void prepared(const PreparationDone& event);
  void retry(MakingIndex making, std::uint64_t serial);
  // Blocks of the stream may be late.
  void look_for_late(StreamId stream) {
    second_workers_.look_for_late(stream, [this](MakingIndex making) { send_preparation(making); });
  }

  // ---- workers and nodes.
  void joined(const WorkerJoined& event);
  void quiesced(const WorkerQuiesced& event);
  void lost(const WorkerLost& event);
  // No job needs what is made for the stream. Makings that no worker has begun end. Those that a
  // worker has begun are cancelled, and end when the worker reports that it writes no more.
  void abandon(StreamId stream);
  // All makings on the node end; its blocks are gone.
  void lose_node(NodeIndex node);

  // The job leaves or starts over: what is under way for it goes on without it.
  void forget_job(Job& job);

  // Streams with jobs that cannot go on; the engine refuses these jobs.
  std::vector<StreamFailure> failures;

 private:
  void fill_block(Block& block, const Stream& stream, const Need& need, const StreamNode& part,
                  Memory::Taken taken);
  void learn_costs(Stream& stream, const Making& making, double took);
  void assign(NodeIndex node);
  const std::vector<Ingredient>& beside_bundles(const Making& making);
  void send_preparation(MakingIndex making);
  void go_on(MakingIndex making);
  void free_worker(Making& making);
  void finish(MakingIndex making);
  void abort(MakingIndex making);
  void return_slot(Block& block, WorkerIndex worker);
  void corrupt(MakingIndex making, std::span<const SampleId> failed);
  void resume_waiting(const Block& block);

  EngineState& s_;
  Reads& reads_;
  Items& items_;
  const KeptItems& kept_items_;
  Charges& charges_;
  Workers& workers_;
  Suspects& suspects_;
  BlockParts& parts_;
  SecondWorkers& second_workers_;
  BlockSelection& selection_;
  std::vector<Ingredient> beside_bundles_;  // scratch
};

}  // namespace batchflow::engine
