// The parts of a world that its jobs and its backend work with. All of them outlive both.
#pragma once

#include "programs/input/scenario.h"

namespace batchflow::world {

class JobIds;
class Kernel;
class LiveSources;
class Platform;
class Reports;
class Tasks;
class Watch;
class Workload;
struct Counters;

struct Parts {
  Kernel& kernel;
  Tasks& tasks;
  Platform& platform;
  const input::Scenario& scenario;
  const Workload& workload;
  Reports& reports;
  Counters& counters;
  Watch& watch;
  JobIds& ids;
  LiveSources& live;
};

}  // namespace batchflow::world
