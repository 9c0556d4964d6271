// One direction of a node's link: the bytes that come to it from other nodes, or go to them. It is
// measured from what the engine has ordered and what came of that.
#pragma once

#include <cstdint>

#include "core/base/rates.h"
#include "core/base/types.h"
#include "core/engine/indices.h"

namespace batchflow::engine {

// What one request has on the way between two nodes.
struct OnWay {
  Bytes bytes = 0;  // 0: nothing
  Instant since{};
  NodeIndex from = NodeIndex::none();
  NodeIndex to = NodeIndex::none();
};

class Link {
 public:
  // Without anything for so long, it is not known how fast the link is.
  static constexpr Duration kKnownFor = std::chrono::minutes(1);

  void begin(Bytes bytes) { on_way_ += bytes; }
  void end(Bytes bytes) { on_way_ -= bytes; }
  // Bytes that were on the way since then have come now.
  void carried(Instant since, Instant now, Bytes bytes);

  Bytes on_way() const { return on_way_; }
  // How fast bytes went of late: those of each request by how long it took, and the mean of all
  // bytes. So a request that waits for the slow link of another node changes it by its bytes alone.
  // Requests side by side share the link, and each is slower than the link is. 0: not known.
  std::uint64_t bytes_per_s(Instant now) const;

 private:
  Bytes on_way_ = 0;
  FadingSum bytes_{std::chrono::seconds(10)};
  FadingSum speeds_{std::chrono::seconds(10)};  // of each byte
  Instant last_ = kNever;
};

}  // namespace batchflow::engine
