// One read of the backend: its samples, and where their bytes are once they are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "runtime/service/backend/own_pages.h"

namespace batchflow::service {

struct StagedSample {
  SampleId sample;
  std::byte* memory = nullptr;  // null: it is released
  OwnPages own;                 // where the engine of reads had none
  Bytes room = 0;
  Bytes lead = 0;
  Bytes bytes = 0;
  bool failed = false;
  bool spilled = false;      // is read from the spill file
  bool heals = false;        // should have been there: is written anew
  Digest sum = 0;            // that it must have then
  std::uint32_t record = 0;  // of the spill file, while it is written
};

struct Reading {
  engine::Request request;
  DatasetId dataset;
  PipelineId pipeline;
  ShareId keep = ShareId::none();
  bool staged = true;  // until it is released
  bool from_spill = false;
  bool to_spill = false;
  bool written = false;  // to the spill file, as far as it is to be
  bool cancelled = false;
  std::uint32_t left = 0;  // reads, then writes
  std::vector<StagedSample> samples;

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

 private:
  mutable std::size_t found_last_ = 0;  // blocks ask for the samples in the same order
};

}  // namespace batchflow::service
