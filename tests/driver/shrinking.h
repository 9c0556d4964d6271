// A scaling policy that takes workers away again and again, whatever they are at: none that is
// registered does.
#pragma once

#include <algorithm>

#include "tests/driver/canaries.h"

namespace batchflow::test {

class Shrinks final : public ScalingPolicy {
 public:
  explicit Shrinks(const PolicyContext& context) : random_(context.random) {}
  std::uint32_t workers(const NodeView& view) override {
    const std::uint32_t most = std::max(1u, view.workers_most);
    return random_.below(3) == 0 ? most : 1 + static_cast<std::uint32_t>(random_.below(most));
  }
  std::uint32_t depth(const JobView& view) override { return std::min(view.window, 4u); }

 private:
  Random random_;
};

inline const PolicyEntry kShrinks{"shrinks", "", &make_canary<ScalingPolicy, Shrinks>};

}  // namespace batchflow::test
