// What a backend asks of the backends of other nodes: parts of their blocks, samples that they
// keep, and to keep further samples.
//
// A call returns at once. Its `done` is called later, on the service's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/types.h"

namespace batchflow::service {

// What has come from a node. Its memory is not cleared first: that would cost as much as a copy.
struct Payload {
  std::shared_ptr<std::byte[]> memory;
  std::size_t bytes = 0;
};

// Samples [from, to) of the block in a slot.
struct WantedSlice {
  ShareId share;
  SlotId slot;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};
struct FetchedSlice {
  PipelineId pipeline;
  std::uint64_t audience = 0;
  Payload slot;  // laid out for these samples alone
};

// Samples, or bundles by their first samples, in the form that the prefix names (0: as stored).
struct WantedItems {
  DatasetId dataset;
  Digest prefix = 0;
  std::uint8_t bundle_shift = 0;
  std::vector<SampleId> samples;
  bool records = false;  // of a feed, from its log
};
struct FetchedItems {
  static constexpr std::uint64_t kMissing = UINT64_MAX;
  std::vector<std::uint64_t> sizes;   // of each; kMissing: it is not there
  Payload payload;                    // one after the other
  std::vector<std::int32_t> classes;  // of each, -1: none; of records of a feed alone
};

struct KeptItems {
  DatasetId dataset;
  ShareId share;
  bool on_drive = false;  // in the spill file of the node, else in its memory
  std::uint8_t bundle_shift = 0;
  std::vector<SampleId> samples;
  std::vector<std::uint64_t> sizes;               // of each
  std::vector<std::span<const std::byte>> parts;  // one after the other; they stay until `done`
};

class Peers {
 public:
  // `done` gets nothing if the node is not reached, or has not got it.
  virtual void fetch(NodeId from, const WantedSlice& wanted,
                     std::function<void(std::optional<FetchedSlice>)> done) = 0;
  virtual void fetch(NodeId from, WantedItems wanted,
                     std::function<void(std::optional<FetchedItems>)> done) = 0;
  // `done` is called whether or not the node keeps them.
  virtual void keep(NodeId at, KeptItems items, std::function<void()> done) = 0;

 protected:
  ~Peers() = default;
};

}  // namespace batchflow::service
