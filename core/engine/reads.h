// Reads in flight: one read serves all that want the same samples, and is retried within a bound.
//
// A read goes into a share or into staging memory. In a share its items are resident and pinned
// from the command on, and loading until it is done. A making that wants a sample which is loading
// or staged on its node waits for that read instead of commanding another: N jobs on a cold dataset
// read it once. What is loading on another node is read from there when it has come. The making
// that commanded a read holds all of it; others hold the samples that they want. Each sample is
// released when nothing holds it. Until it is done, a read takes staging memory wherever it goes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/engine/shown_samples.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Reads {
 public:
  // Called when a making or a batch has nothing left to wait for, or cannot be made. `why` is the
  // reason; without a reason a node is gone or a copy is bad, and the making must be begun anew.
  struct Listener {
    virtual void making_ready(MakingIndex making) = 0;
    virtual void making_failed(MakingIndex making, std::optional<Refusal> why) = 0;
    virtual void listed_ready(BatchIndex batch) = 0;
    // Without a reason what the read was to bring is to be looked up again.
    virtual void listed_failed(BatchIndex batch, ReadIndex read, std::optional<Refusal> why) = 0;

   protected:
    ~Listener() = default;
  };

  Reads(EngineState& state, Listener& listener)
      : s_(state),
        batches_(state.batches.writable_for(this)),
        reads_(state.reads.writable_for(this)),
        listener_(listener) {}

  struct Spec {
    DatasetId dataset;
    Place from;
    Place to;
    Form form = Form::encoded;
    ShareId keep = ShareId::none();
    ShareId source = ShareId::none();    // the share that items are read from; none: a store
    bool source_pinned = false;          // for this read, by its caller
    NodeIndex node = NodeIndex::none();  // where it goes
    WorkerId held = WorkerId::none();
    order::Lineage lineage;
    bool alone = false;   // no other making may use it: a second look at a bad sample
    bool listed = false;  // for a batch of a listed order
    Bytes each = 0;       // a sample's staging memory; 0: as the catalogue says
    Bytes all = 0;        // of all of the lineage
    // A read that brings what this one reads from `source`: this one begins when that is done.
    ReadIndex after = ReadIndex::none();
  };
  // `samples` empty: all of the lineage. What is to be kept is resident already, and pinned once
  // for the read until it is done.
  ReadIndex open(const Spec& spec, std::span<const SampleId> samples);

  Listener& listener() { return listener_; }

  // The samples that these reads show to others.
  const ShownSamples& shown() const { return shown_; }

  // What brings an item that is resident already: a read, or a making that decodes it. Neither: it
  // is there. A read that has come to nothing brings its items in vain: they are about to leave.
  struct Provider {
    ReadIndex read = ReadIndex::none();
    MakingIndex making = MakingIndex::none();
    bool in_vain = false;
    bool is_none() const { return read.is_none() && making.is_none(); }
  };
  Provider provider(ShareId share, ItemId item) const;
  void begin_decoding(ShareId share, ItemId item, MakingIndex making);
  void end_decoding(ShareId share, ItemId item);
  // Whether this read, which nothing waits for, is still under way.
  bool is_under_way(ReadIndex read, RequestId id) const {
    return reads_.live(read) && reads_[read].request.id == id && !reads_[read].done;
  }
  // How many items reads are bringing into the share.
  std::uint32_t coming_to(ShareId share) const {
    const std::uint32_t items = coming_to_.find(share.value);
    return items == kNone ? 0 : items;
  }

  // The making waits for the read, unless it is done.
  void wait_for(ReadIndex read, MakingIndex making);
  void wait_for_listed(ReadIndex read, BatchIndex batch);
  // The making has commanded the read, and holds its staging memory.
  void own(ReadIndex read, MakingIndex making);
  void own_listed(ReadIndex read, BatchIndex batch);
  // The making waits for a sample that others have commanded, and holds this sample.
  void hold(ShownIndex shown, MakingIndex making);
  void hold_listed(ShownIndex shown, BatchIndex batch);
  // The second making holds what the first one does, all of which is there.
  void hold_likewise(const Making& first, MakingIndex second);
  // What the making, or the batch, holds is no longer needed.
  void leave(Making& making, MakingIndex index);
  void leave_listed(Batch& batch, BatchIndex index);

  void done(const ReadDone& event);
  void retry(ReadIndex read, std::uint64_t serial);
  // All reads to or from the node are void; makings that wait for one are told.
  void lose_node(NodeIndex node, NodeId id);

 private:
  void send_read(OpenRead& read);
  void begin_followers(ReadIndex index);
  void end_followers(ReadIndex index, std::optional<Refusal> why);
  void end(OpenRead& read);
  void count(OpenRead& read, const Spec& spec);
  void uncount(OpenRead& read, Bytes bytes);
  void uncount_lost(ReadIndex index, NodeIndex node);
  void set_apart(OpenRead& read);
  void give_back_apart(OpenRead& read);
  bool has_holder_here(const OpenRead& read) const;
  void let_go(ReadHolds& held, ReadIndex read);
  Bytes bytes_of(const OpenRead& read, SampleId sample) const;
  Bytes carried_bytes(const OpenRead& read, std::span<const SampleId> samples) const;
  bool add(ReadHolds& held, ReadIndex read, std::uint32_t waiter, bool all);
  void hold(ReadHolds& held, ShownIndex shown);
  void leave(ReadHolds& held, std::uint32_t waiter);
  void release_samples(ReadIndex read, std::span<const ShownIndex> shown);
  void release_unheld(ReadIndex read);
  void fail(ReadIndex index, std::span<const SampleId> failed);
  bool are_of(const OpenRead& read, std::span<const SampleId> failed);
  void give_up_copies(ReadIndex read);
  void end_without_result(ReadIndex index, std::optional<Refusal> why);
  void unpin(OpenRead& read);
  void forget_items(const OpenRead& read);
  void close_if_unused(ReadIndex index);

  EngineState& s_;
  IndexedPool<Batch, BatchIndex>& batches_;
  IndexedPool<OpenRead, ReadIndex>& reads_;
  Listener& listener_;
  ShownSamples shown_;
  FlatMap coming_;     // by share and item: a read, or a making with the highest bit set
  FlatMap coming_to_;  // how many of them reads bring, by share
  std::vector<std::uint32_t> notified_;  // scratch
  std::vector<ShownIndex> unheld_;       // scratch
  std::vector<SampleId> gone_;           // scratch
  std::vector<SampleId> asked_;          // scratch
  std::vector<order::Draw> draws_;       // scratch
};

}  // namespace batchflow::engine
