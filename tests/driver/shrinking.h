// A scaling policy that takes workers away again and again, whatever they are at: no registered
// policy does.
#pragma once

#include <algorithm>

#include "tests/driver/canaries.h"

namespace batchflow::test {

class Shrinks final : public engine::ScalingPolicy {
 public:
  explicit Shrinks(const engine::PolicyContext& context) : random_(context.random) {}
  std::uint32_t workers(const engine::NodeView& view) override {
    const std::uint32_t most = std::max(1u, view.workers_most);
    return random_.below(3) == 0 ? most : 1 + static_cast<std::uint32_t>(random_.below(most));
  }
  std::uint32_t depth(const engine::JobView& view) override { return std::min(view.window, 4u); }

 private:
  Random random_;
};

inline const engine::PolicyEntry kShrinks{"shrinks", "",
                                          &make_canary<engine::ScalingPolicy, Shrinks>};

}  // namespace batchflow::test
