// The memory of all nodes as commands make it: what is in every slot, share and staging buffer.
//
// It believes nothing but commands. Bytes are tokens: the token of a sample in a prepared block
// names the pipeline, the sample that gave the bytes and the key its random steps were drawn with,
// so equal tokens are equal bytes. Whatever a command does that real memory would not forgive
// throws a Violation: a slot written while it is read, a batch that is not what its slices
// say, a read from where nothing is, more in a place than it holds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/engine/event.h"
#include "core/order/order.h"
#include "core/order/weighted.h"
#include "tests/driver/scenario.h"

namespace batchflow::test {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void violated(const std::string& what);

std::uint64_t token(const order::Lineage& lineage, const order::Draw& visited, SampleId used);

class Machine {
 public:
  explicit Machine(const Scenario& scenario);

  void set_capacity(Place place, Bytes bytes);
  // Each item of a share of decoded samples takes so many bytes.
  void measure_decoded(ShareId share, Bytes bytes);
  std::vector<std::pair<DatasetId, ShareId>> decoded_shares() const;
  void lose_node(NodeId node);
  void clear();  // everything, on all nodes
  // Samples are chosen anew for the blocks of this seed: their job came back.
  void forget_drawn(std::uint64_t seed);

  void read(const engine::Read& command);
  // `failed`: of a read that failed in part.
  void read_over(RequestId request, bool well, std::vector<SampleId> failed = {});
  // What a read under way brings.
  const std::vector<SampleId>& reads(RequestId request) const;
  void release(const engine::Release& command);

  // Answers the samples that it prepares.
  std::vector<SampleId> prepare(const engine::Prepare& command);
  // `corrupt`: the samples of the command that had bad bytes; they are left out.
  void prepare_over(RequestId request, bool well, const std::vector<SampleId>& corrupt);
  // The worker may go on writing to what the command named, until it is quiet.
  void prepare_cancelled(RequestId request, bool still_writing);
  void quiet(RequestId request);

  void transfer(const engine::Transfer& command);
  void transfer_over(RequestId request, bool well);

  // The batch's memory is read from here on until `let_go`. The tokens it holds must be `expected`.
  void deliver(const engine::Deliver& command, const std::vector<std::uint64_t>& expected);
  void let_go(RequestId delivery);
  // The same for a batch of samples as they are stored.
  void deliver_stored(const engine::Deliver& command, DatasetId dataset);

  void drop(const engine::Drop& command);
  // The share of decoded samples is at that place.
  void adopt(const engine::Adopt& command);

  // The samples of a block, and for a weighted one which visit of each it is. What a weighted block
  // holds is learnt from the first command that made it; every other must agree.
  const std::vector<order::Draw>& contents(const order::Lineage& lineage);

  // Nothing is in use any more: no staging memory may be left, and no slot be held.
  void check_idle() const;
  Bytes used(Place place) const;
  // Of all places: the most that reads took at any time, of what was kept and what was not.
  Bytes staged_most() const { return staged_most_; }
  // Calls visit(node, bytes) for each read under way that is for a batch of a listed order.
  template <class Visit>
  void each_listed_read(Visit visit) const {
    for (const auto& [request, staging] : stagings_) {
      if (staging.running && staging.listed) visit(staging.node, bytes_of(staging));
    }
  }

  std::uint64_t samples_read_from_store = 0;
  Instant now{};

 private:
  using SlotKey = std::pair<std::uint32_t, std::uint32_t>;
  struct Slot {
    Place place;
    Bytes bytes = 0;
    bool block = false;
    bool whole = false;
    std::uint64_t prepare = UINT64_MAX;  // the request that fills a block
    order::Lineage lineage;
    std::vector<std::uint64_t> tokens;  // 0: not written
    std::vector<bool> pending;          // a transfer is writing it
    std::uint32_t readers = 0;
    std::uint32_t holders = 0;
    bool writing = false;
  };
  using ItemKey = std::pair<std::uint32_t, std::uint32_t>;
  struct Item {
    Place place;
    Form form;
    DatasetId dataset;
    Bytes bytes = 0;
    std::uint64_t filler = UINT64_MAX;  // the request that brings it
    bool there = false;
    std::uint32_t readers = 0;
  };
  struct Staging {
    NodeId node;
    DatasetId dataset;
    Form form = Form::encoded;
    std::vector<SampleId> samples;
    std::vector<SampleId> missing;  // of an attempt that failed in part
    bool there = false;
    bool staged = false;
    Place at;
    Bytes decoded = 0;     // of a sample, in that form
    bool bundles = false;  // each of the samples begins one
    Bytes held = 0;        // of the place, by what is there or on its way
    Place from;
    std::vector<ItemKey> kept;
    std::vector<ItemKey> sources;  // items of a peer or device it is read from
    bool running = false;
    bool listed = false;  // for a batch of a listed order
  };
  struct Preparation {
    SlotKey slot;
    NodeId node;
    std::vector<ItemKey> sources;
    std::vector<ItemKey> decoded;
    std::vector<std::pair<std::uint32_t, std::uint64_t>> tokens;  // index, token
    std::vector<std::pair<std::uint32_t, SampleId>> used;         // index, sample
    std::vector<std::pair<std::uint64_t, SampleId>> staged;       // read, sample
  };
  struct Copy {
    SlotKey from, to;
    std::uint32_t first, count, offset;
  };

  const DatasetPlan& dataset(DatasetId id) const;
  const engine::PipelineInfo& pipeline(PipelineId id) const;
  void add(Place place, Bytes bytes);
  void remove(Place place, Bytes bytes);
  Slot& slot(SlotKey key, const char* what);
  void enter_item(ItemKey key, const Item& item);
  void erase_item(ItemKey key);
  Slot& claim(SlotKey key, Place place, Bytes bytes);
  void learn(const engine::Prepare& command);
  ItemKey find_item(Place place, Form form, DatasetId dataset, Digest prefix,
                    SampleId sample) const;
  Place place_of_decoded(ShareId share, NodeId node) const;
  Bytes bytes_of(const Staging& staging) const;
  void hold(Staging& staging, Bytes bytes);
  Bytes decoded_bytes(const engine::Read& command) const;
  Bytes kept_decoded_bytes(const engine::Read& command) const;
  void check_unused(std::uint64_t read, const std::vector<SampleId>& samples) const;
  bool in_staging(RequestId request, NodeId node, SampleId sample, Form form) const;
  void end_preparation(std::uint64_t id, Preparation& preparation);

  const Scenario& scenario_;
  order::Expander expander_;
  std::map<Place, Bytes> capacity_;
  struct Limit {
    Bytes bytes = 0;
    Instant until{};
  };
  std::map<Place, Limit> limit_;  // of a place that was larger before
  std::map<Place, Bytes> used_;
  Bytes staged_ = 0;
  Bytes staged_most_ = 0;
  std::map<SlotKey, Slot> slots_;
  std::map<ItemKey, Item> items_;
  // Which share is what, as commands have told: (form, dataset, prefix, place) to share.
  struct ShareName {
    Place place;
    Form form;
    DatasetId dataset;
    Digest prefix;
    auto operator<=>(const ShareName&) const = default;
  };
  std::map<ShareName, std::uint32_t> shares_;
  std::map<std::uint32_t, Bytes> decoded_bytes_;  // as measured, by share
  using BlockKey = std::array<std::uint64_t, 10>;
  static BlockKey key_of(const order::Lineage& lineage);
  std::map<BlockKey, std::vector<order::Draw>> weighted_;
  std::vector<order::Draw> contents_;  // scratch
  std::vector<SampleId> ids_;          // scratch
  std::map<std::uint64_t, Staging> stagings_;
  std::map<std::uint64_t, Preparation> preparations_;  // all that there ever were
  std::set<std::uint64_t> running_preparations_;
  std::map<std::uint64_t, Copy> copies_;
  std::map<std::uint64_t, SlotKey> deliveries_;
  std::map<std::uint64_t, std::vector<ItemKey>> listed_;  // deliveries of stored samples
  // What they hold of staging memory: read, sample.
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, SampleId>>> borrowed_;
};

}  // namespace batchflow::test
