// What a replay reports beyond its runs, as text and JSON; replay_html.h is the report with plots.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "programs/input/overlay_model.h"
#include "programs/output/results.h"
#include "sim/cluster_replay/assignment.h"
#include "sim/cluster_replay/fluid_bound.h"
#include "traces/job_trace.h"

namespace batchflow::sim {

// What the runs of a replay have in common.
struct Replayed {
  const traces::JobTrace& trace;
  const input::OverlayModel& overlay;
  std::string scheduler = {};
  bool scheduler_is_assumed = false;  // the log has no starts, and the user named no scheduler
  std::string cluster = {};
  std::size_t jobs = 0;                           // of the trace, that are replayed
  traces::TraceTime begins_ns = traces::kNoTime;  // when the first of them was submitted
  LeftOut left_out = {};
  std::string faults = {};  // about the losses of nodes from a file; empty: none are replayed
  std::map<std::uint64_t, FluidBound> bounds = {};  // by seed
};

// A line that counts the jobs that are replayed and those that are not.
std::string left_out_text(const traces::JobTrace& trace, const LeftOut& out, std::size_t jobs);

// The scheduler that assigns GPUs, where the log does not say it; else empty.
std::string scheduler_text(const Replayed& replayed);

std::string replay_table(std::span<const output::RunResult> runs, const Replayed& replayed);
// Members of the JSON beside `runs`; `more` are further members, an object.
std::string replay_json(std::span<const output::RunResult> runs, const Replayed& replayed,
                        const std::string& more = "{}");

// The simulated time in the calendar of the trace; in days where it has none.
std::string simulated_date(const Replayed& replayed, double simulated_s);

// A day or an instant, to the minute or finer, by the clock of the trace; none: it is neither.
std::optional<traces::TraceTime> date_of(const std::string& text);

// A time as a user writes it for --from and --to: a day or an instant by the clock of the trace, or
// a duration after the first job. kNoTime: the text is empty. Throws ConfigError.
traces::TraceTime window_time(const char* flag, const std::string& text,
                              const traces::JobTrace& trace);

}  // namespace batchflow::sim
