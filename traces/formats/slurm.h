// The values that Slurm writes, in its own tools and in logs that were made from its database.
// Source: https://slurm.schedmd.com/tres.html, sacct(1), and Slurm's job_states.
#pragma once

#include <string_view>

#include "traces/job_trace.h"

namespace batchflow::traces {

// Trackable resources, by name (`cpu=8,gres/gpu=2,mem=32G,node=1`) or by number
// (`1=8,1002=2,2=...`, memory in MiB). 1001 and 1002 are the first two generic resources of a site,
// which are its GPUs. False when the text is not such a list.
bool read_tres(std::string_view text, JobRecord& job);

JobStatus slurm_status(unsigned state);

}  // namespace batchflow::traces
