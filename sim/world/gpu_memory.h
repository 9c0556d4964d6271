// Whether the batches of a job fit its GPUs, beside what training takes there.
#pragma once

#include <cstdint>
#include <string>

#include "programs/input/scenario.h"
#include "sim/world/job.h"

namespace batchflow::world {

// How many batches fit each GPU of the job; UINT32_MAX where no GPU has a limit.
std::uint32_t batches_on_gpu(const input::ClusterModel& cluster, const Job& job);
// Why the job cannot train on its GPUs; empty: it can.
std::string no_room_on_gpus(const input::ClusterModel& cluster, const Job& job);

}  // namespace batchflow::world
