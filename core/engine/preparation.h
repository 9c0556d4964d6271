// The making of blocks: a slot, reads, a worker, and what can go wrong with each.
//
// A making begins when dispatch has chosen it and a slot is free for it. It is made part by part.
// It waits for staging memory for the next part (core/engine/staging.h), then for the part's reads,
// then for a free worker of its node, then for that worker to finish. What fails is tried again
// within a bound. Samples that cannot be decoded from two reads of the store are replaced by the
// rule. What cannot be made is reported, and the jobs that need it are refused. A slot that a lost
// worker might still write stays taken until the worker is quiesced.
#pragma once

#include "core/engine/items.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Preparation {
 public:
  Preparation(EngineState& state, Reads& reads, Items& items)
      : s_(state), reads_(reads), items_(items) {}

  // ---- starting. A need is a block of the job's lanes, or a grant whose block is gone.
  struct Need {
    order::BlockRef ref;
    Grant* grant = nullptr;
    bool remake = false;
  };
  // Where the job's block can be made now, and how it is charged; nothing if it can be made
  // nowhere.
  struct Site {
    std::uint32_t part = 0;  // of the stream's nodes
    Charge charge = Charge::none;
  };
  // How many of the stream's samples need no read of the store, from 0 to 1.
  double cached(const Stream& stream) const { return items_.cached(stream); }
  std::optional<Site> site(const Stream& stream, const Job& job);
  // False: everything in the share is pinned for the moment.
  bool start(Job& job, Need need, Site site);

  // ---- what is reported.
  void making_ready(std::uint32_t making);
  void making_failed(std::uint32_t making, std::optional<Refusal> why);
  void prepared(const PreparationDone& event);
  void retry(std::uint32_t making, std::uint64_t serial);
  // Begins parts that waited for staging memory, where there is some now. True if any was begun.
  bool stage_waiting();
  // Fits staging memory to the streams and workers of nodes.
  void plan_staging();
  // Blocks of the stream may be late (second_worker.cpp).
  void look_for_late(std::uint32_t stream);

  // ---- workers and nodes.
  void joined(const WorkerJoined& event);
  void quiesced(const WorkerQuiesced& event);
  void lost(const WorkerLost& event);
  // Nobody needs what is made for the stream: what no worker has begun ends, and what one has begun
  // is cancelled. That ends when the worker reports that it writes no more.
  void abandon(std::uint32_t stream);
  // All makings on the node end; its blocks are gone.
  void lose_node(std::uint32_t node);

  // ---- upkeep before a step ends.
  // Gives up blocks that were made for a job that waited for them, once it has had what it waited
  // for.
  bool settle_current();
  // Releases the charge of a job, which leaves or starts over, on its blocks.
  void orphan(Job& job);
  // Shares shrink: blocks made ahead are kept only while there is room for that.
  void strip_ahead(std::span<const Place> places);

  // Jobs that cannot go on, and why; the engine refuses them.
  struct Failure {
    std::uint32_t stream;
    std::uint32_t job;  // kNone: all of the stream
    Refusal why;
    std::uint64_t needed;
    std::uint64_t available;
  };
  std::vector<Failure> failures;

 private:
  double supply(const Job& job, NodeId node) const;
  void strip_ahead(StreamNode& part);
  bool room_for(const StreamNode& part, const Job& job, bool may_look_ahead, Charge& as) const;
  void fill_block(Block& block, const Stream& stream, const Need& need, const StreamNode& part,
                  Memory::Taken taken);
  void take_held_worker(std::uint32_t node);
  void forget_worker(std::uint32_t worker);
  void assign(std::uint32_t node);
  void order_prepare(std::uint32_t making);
  void wait_for_staging(std::uint32_t making);
  void stage_waiting(std::uint32_t node);
  bool staging_fits(const Making& making) const;
  void begin_part(std::uint32_t making);
  bool begin_plain(std::uint32_t making, Bytes most);
  void end_part(std::uint32_t making);
  void go_on(std::uint32_t making);
  void stop_waiting(std::uint32_t making);
  void free_worker(Making& making);
  void watch(Stream& stream, std::uint32_t making);
  std::optional<Duration> late_after(const Stream& stream) const;
  bool is_preparing(const Stream::Begun& begun) const;
  bool start_second(Stream& stream, std::uint32_t making);
  void use_second(std::uint32_t second);
  void part_twins(Making& making);
  void finish(std::uint32_t making);
  void abort(std::uint32_t making);
  bool may_take(const Stream& stream, const Job& job, const Block& block);
  void drop(const Block& block);
  void return_slot(Block& block, std::uint32_t worker);
  bool are_of_block(const Making& making, std::span<const SampleId> failed);
  void corrupt(std::uint32_t making, std::span<const SampleId> failed);
  bool suspect(std::uint32_t making, SampleId sample);
  static void suspect(Making& making, const Ingredient& ingredient, bool from_store);
  bool condemn(Making& making, Making::Suspect& suspect);
  static bool has_doubts(const Making& making);
  void look_again(std::uint32_t making, Bytes most);
  void wake(const Block& block);

  EngineState& s_;
  Reads& reads_;
  Items& items_;
  std::vector<SampleId> ids_;       // scratch
  std::vector<order::Draw> draws_;  // scratch
  std::vector<order::Lanes::Candidate> candidates_;
  std::vector<std::uint32_t> resident_;  // scratch
};

}  // namespace batchflow::engine
