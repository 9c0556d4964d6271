// How far the figures of a replay depend on what was assumed: each assumption of the overlay is
// made lower and higher, and all others stay.
#pragma once

#include <string>
#include <vector>

#include "programs/input/overlay_model.h"
#include "sim/cluster_replay/replay_summary.h"

namespace batchflow::sim {

struct Assumption {
  std::string name;
  std::string usual;  // what the overlay says
  struct Changed {
    std::string text;
    input::OverlayModel overlay;
  };
  std::vector<Changed> changed;  // lower, then higher
};
// A share is halved, or moved half of the way to 1. Numbers and sizes are halved and doubled.
std::vector<Assumption> assumptions(const input::OverlayModel& overlay);

// `usual` holds the policies with the overlay as it is. `changed` holds them with each change, in
// the order of `assumptions`; a run that an interrupt kept from beginning is missing.
struct Sensitivity {
  std::vector<Assumption> assumptions;
  std::vector<ReplayGroup> usual;
  std::vector<std::vector<ReplayGroup>> changed;
};
std::string sensitivity_table(const Sensitivity& study);
std::string sensitivity_html(const Sensitivity& study);  // a section
std::string sensitivity_json(const Sensitivity& study);  // an object

}  // namespace batchflow::sim
