// One read of the backend: its samples, and where their bytes are once they are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "runtime/service/backend/busy_time.h"
#include "runtime/service/backend/peers.h"
#include "runtime/service/backend/sample_staging.h"

namespace batchflow::service {

struct Reading {
  engine::Request request;
  DatasetId dataset;
  PipelineId pipeline;
  ShareId keep = ShareId::none();
  std::uint8_t bundle_shift = 0;         // bundles are read if it is not 0
  bool staged = true;                    // until it is released
  bool from_spill = false;               // read from the spill file
  bool from_log = false;                 // of a feed on another node
  bool to_spill = false;                 // to be kept in the spill file
  bool written = false;                  // to the spill file, if it is to be there
  bool cancelled = false;                // the engine wants it no more
  NodeId keep_at = NodeId::none();       // another node, which is to keep it
  bool keep_on_drive = false;            // of that node
  std::shared_ptr<std::byte[]> fetched;  // what another node has sent of it
  std::uint32_t left = 0;                // reads, then writes
  BusyTime* timed = nullptr;             // while it is read or fetched
  std::vector<StagedSample> samples;     // the stretches of a bundle are neighbours

  // Null: it is no sample of this read.
  const StagedSample* find(SampleId sample) const {
    const std::size_t count = samples.size();
    for (std::size_t tried = 0; tried < count; ++tried) {
      const std::size_t at = (found_last_ + tried) % count;
      if (samples[at].sample != sample) continue;
      found_last_ = at;
      return &samples[at];
    }
    return nullptr;
  }
  StagedSample* find(SampleId sample) {
    return const_cast<StagedSample*>(std::as_const(*this).find(sample));
  }
  // Calls `visit` with the first sample of each item, and with the item's parts, one after the
  // other.
  template <class Visit>
  void each_item(Visit visit) const {
    std::vector<std::span<const std::byte>> parts;
    for (std::size_t row = 0; row < samples.size(); row += parts.size()) {
      const SampleId first = samples[row].sample;
      parts.clear();
      bool whole = true;
      for (std::size_t at = row; at < samples.size() && samples[at].sample == first; ++at) {
        const StagedSample& one = samples[at];
        // Behind the end of a file that was cut, no part is where it should be.
        parts.emplace_back(one.memory + one.lead, whole ? one.bytes : 0);
        whole = whole && one.bytes >= one.extent.bytes;
      }
      visit(first, parts);
    }
  }
  // Takes what another node has sent of it, or notes that the node has sent nothing.
  void take(const std::optional<FetchedItems>& items);
  // For the node that is to keep it. What it refers to stays as long as this read.
  KeptItems kept_items() const;

 private:
  mutable std::size_t found_last_ = 0;  // blocks ask for the samples in the same order
};

}  // namespace batchflow::service
