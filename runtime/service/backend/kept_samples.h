// The samples that the backend keeps in memory, as stored or decoded: in which shares they are, and
// what they take.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/item_store.h"

namespace batchflow::service {

class KeptSamples {
 public:
  // Counts since the start.
  struct Counters {
    std::uint64_t decoded_hits = 0;  // samples prepared from their decoded form
    std::uint64_t encoded_hits = 0;  // from their stored form, out of the cache
    std::uint64_t not_kept = 0;      // items that were to be kept, and found no memory
  };
  // Shares in which samples of a dataset are kept: as stored (prefix 0), or as a prefix of
  // pipelines leaves them.
  using Shares = std::map<std::pair<std::uint32_t, Digest>, std::vector<ShareId>>;

  KeptSamples(const BackendContext& context, ItemStore& items) : context_(context), items_(items) {}

  // `share` keeps samples of the dataset from here on.
  void open(DatasetId dataset, Digest prefix, ShareId share);
  void open_decoded(DatasetId dataset, Digest prefix, ShareId share);
  std::vector<ShareId> shares_of(DatasetId dataset, Digest prefix) const;
  // Puts all samples aside for the next engine.
  void put_aside();
  // What is there of the dataset from before this engine, each form for itself.
  struct Before {
    Digest prefix = 0;
    Bytes bytes = 0;  // of decoded samples: what each takes, on average
    std::uint8_t bundle_shift = 0;
    std::vector<SampleId> samples;
  };
  std::vector<Before> kept_before(DatasetId dataset) const;
  // What is there in this form is in this share from now on.
  void adopt(DatasetId dataset, Digest prefix, ShareId share);
  const Shares& shares() const { return shares_; }

  // `make_room` gives back what else is free, and is called before an item is put in parts.
  void on_need(std::function<void(Bytes)> make_room) { make_room_ = std::move(make_room); }
  // The parts follow one another in the item. By the service's own thread.
  void put(ShareId share, ItemId item, std::span<const std::span<const std::byte>> parts);
  void put(ShareId share, ItemId item, ItemStore::Item copied, Bytes bytes);
  void drop(ShareId share, ItemId item) { items_.drop(share, item); }
  // Drops decoded samples that took this much, for a batch that the engine has granted memory.
  // Decoded samples may take far more than the engine counts until their sizes are reported to it.
  // The engine notices when it misses one. False: nothing was dropped.
  bool drop_decoded(Bytes bytes);
  // Reports to the engine what decoded samples take, where that has changed.
  void measure_decoded();

  // The sample, or its bundle, was read to be kept; the first block that uses it hits nothing.
  void note_fresh(DatasetId dataset, SampleId sample, std::uint8_t bundle_shift);
  // A block is prepared from the kept sample.
  void count_use(DatasetId dataset, SampleId sample, Form form);
  // The same for this many samples in bundles.
  void count_uses(DatasetId dataset, std::uint64_t samples);

  ItemStore& store() { return items_; }  // for workers, which look for samples and make copies
  const ItemStore& store() const { return items_; }
  const Counters& counters() const { return counters_; }

 private:
  struct DecodedShare {
    DatasetId dataset;
    Bytes counted = 0;  // by the engine for a sample, by the last report; 0: none
  };
  ItemStore::Aside aside(DatasetId dataset, Digest prefix) const;
  static std::uint64_t key(DatasetId dataset, SampleId sample) {
    return std::uint64_t{dataset.value} << 32 | sample.value;
  }

  const BackendContext& context_;
  std::function<void(Bytes)> make_room_ = [](Bytes) {};
  Counters counters_;
  ItemStore& items_;
  Shares shares_;
  std::map<std::uint32_t, DecodedShare> decoded_;         // by share
  std::unordered_set<std::uint64_t> fresh_;               // samples read and not used yet
  std::map<std::uint32_t, std::uint64_t> fresh_bundles_;  // how many, by dataset
};

}  // namespace batchflow::service
