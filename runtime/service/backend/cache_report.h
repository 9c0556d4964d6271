// What the caches hold, share by share: for people who ask, never for decisions.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/types.h"

namespace batchflow::service {

struct CacheShare {
  ShareId share;
  Form form = Form::encoded;
  Tier tier = Tier::dram;
  std::string dataset;
  std::string pipeline;     // of prepared blocks; others are of all that begin alike
  std::uint64_t items = 0;  // samples, or blocks and gathered batches
  std::uint64_t room = 0;   // for so many blocks, in memory that is there; 0: not counted so
  Bytes bytes = 0;
};

}  // namespace batchflow::service
