// A sample in a buffer that the engine fills (core/engine/buffers.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/types.h"

namespace batchflow::engine {

inline constexpr std::uint32_t kNoClass = UINT32_MAX;
inline constexpr std::size_t kFeaturesMost = 512;  // of a sample

struct Exemplar {
  SampleId sample;
  std::uint32_t label = kNoClass;  // its class
  bool is_scored = false;
  float score = 0;          // the last one that was reported
  std::uint64_t since = 0;  // how many samples the buffer had been shown when this one came
  friend bool operator==(const Exemplar&, const Exemplar&) = default;
};

}  // namespace batchflow::engine
