// The weights of mixtures, which may change while their jobs run: as a rank asks, or as the policy
// of the job's losses says (core/engine/loss_weights.h). A change is promised before any rank hears
// of it (docs/order.md, section 9).
#pragma once

#include "core/engine/state.h"

namespace batchflow::engine {

class MixtureWeights {
 public:
  explicit MixtureWeights(EngineState& state) : s_(state) {}

  // Whether the job may have the policy that it names for its weights.
  static bool may_follow(const EngineState& s, const JobJoined& event);
  // The job's weights follow that policy from where it is committed. REQUIRES: may_follow(event)
  void follow(Job& job, const JobJoined& event);

  void changed(Job& job, const MixtureChanged& event);
  // The policy may want other weights by now.
  void losses_reported(Job& job, const LossesReported& event);

 private:
  EngineState& s_;
};

}  // namespace batchflow::engine
