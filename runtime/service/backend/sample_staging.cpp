#include "runtime/service/backend/sample_staging.h"

#include <algorithm>

namespace batchflow::service {

// If the staging memory has no run of its length, the sample gets pages of its own: waiting for
// other samples could be for ever, since these may wait for this one.
bool SampleStaging::stage(StagedSample& one) {
  one.memory = one.room <= reader_.staging_bytes() ? reader_.stage(one.room) : nullptr;
  if (!one.memory) {
    ++unregistered_;
    one.own = OwnPages(budget_, std::max(one.room, storage::kSector));
    one.memory = one.own.memory();
  }
  if (!one.memory) return false;
  bytes_ += one.room;
  bytes_most_ = std::max(bytes_most_, bytes_);
  return true;
}

void SampleStaging::unstage(StagedSample& one) {
  if (!one.memory) return;
  if (!one.fetched) {
    bytes_ -= one.room;
    if (!one.own.memory()) reader_.unstage(one.memory);
    one.own = {};
  }
  one.memory = nullptr;
}

}  // namespace batchflow::service
