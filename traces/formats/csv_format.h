// Formats with one line a job and columns that a header names: a table says what each column means,
// and one reader reads them all.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "traces/job_trace_builder.h"

namespace batchflow::traces {

struct JobInput;

enum class Role : std::uint8_t {
  id,
  name,
  user,
  queue,
  submit,
  start,
  end,
  duration,   // seconds
  interval,   // seconds since the submission of the row before
  gpus,       // of the job
  gpu_milli,  // of each of its GPUs
  nodes,
  cpus,
  cpu_milli,
  memory_bytes,
  memory_mib,
  memory_gb_per_node,
  tres_allocated,  // Slurm's trackable resources: `cpu=8,gres/gpu=2,mem=32G` or `1=8,1002=2`
  tres_requested,  // counts where nothing was allocated
  status,
  slurm_state,  // a number of Slurm's job_states
  attempts
};

struct Column {
  std::string_view name;  // in small letters; a header may write it in capitals
  Role role;
  JobColumns::Unit unit = {};         // of times and durations that are numbers
  std::string_view time_format = {};  // as strptime has it; empty: what read_time() understands
};

struct CsvFormat {
  char delimiter = ',';
  std::span<const Column>
      columns;  // where several columns have one role, the first in the header counts
  std::span<const std::string_view> marks;  // columns that distinguish this format from the others
  TimeBase numbers = TimeBase::relative;    // what times that are numbers count from
  bool zero_is_no_time = false;
  bool zero_is_no_duration = false;  // of a job without a start, which never ran
  bool has_steps = false;            // rows with a dot in their id are parts of jobs
  // Words of statuses, and ours for them; other words are taken as they are.
  std::span<const std::pair<std::string, std::string>> states = {};
};

void read_csv_jobs(const JobInput& input, const CsvFormat& format, JobTraceBuilder& builder);

}  // namespace batchflow::traces
