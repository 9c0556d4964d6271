// How far the figures of a replay depend on what was assumed: each assumption of the overlay lower
// and higher than it says, everything else as it is.
#pragma once

#include <string>
#include <vector>

#include "configs/reader/overlay_model.h"
#include "sim/cluster_replay/replay_summary.h"

namespace batchflow::sim {

struct Assumption {
  std::string name;
  std::string usual;  // what the overlay says
  struct Changed {
    std::string text;
    OverlayModel overlay;
  };
  std::vector<Changed> changed;  // lower, then higher
};
// Shares are halved, and half of what is missing to all is added; numbers and sizes are halved and
// doubled.
std::vector<Assumption> assumptions(const OverlayModel& overlay);

// `usual` are the policies with the overlay as it is, `changed` with each change, in the order of
// `assumptions`; what an interrupt kept from beginning is not there.
struct Sensitivity {
  std::vector<Assumption> assumptions;
  std::vector<ReplayGroup> usual;
  std::vector<std::vector<ReplayGroup>> changed;
};
std::string sensitivity_table(const Sensitivity& study);
std::string sensitivity_html(const Sensitivity& study);  // a section
std::string sensitivity_json(const Sensitivity& study);  // an object

}  // namespace batchflow::sim
