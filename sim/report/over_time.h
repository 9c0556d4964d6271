// The series of a run, read at any time: sums over time become rates within equal spans.
#pragma once

#include <functional>
#include <vector>

#include "programs/output/results.h"
#include "sim/report/chart.h"

namespace batchflow::sim {

// Spans of equal length from 0 to `until_s`; the x of a plot is the middle of a span.
struct Spans {
  Spans(double until_s, std::size_t count);
  std::vector<double> middles() const;
  double length_s;
  std::size_t count;
};

using Sum = std::function<double(const output::SeriesPoint&)>;

// At a time, between its two points; after the run, as at its end.
double at_time(const output::RunResult& run, const Sum& sum, double time_s);
// By how much the sum grew within each span, a second; no number where the run is over.
std::vector<double> rates(const output::RunResult& run, const Spans& spans, const Sum& sum);
// The value in the middle of each span.
std::vector<double> levels(const output::RunResult& run, const Spans& spans, const Sum& level);

// The parts of the GPUs' time: computing, the causes of waits, waiting for other ranks.
struct TimePart {
  const char* name;
  const char* color;
  double output::Waits::*wait;  // null: another part
};
extern const TimePart kTimeParts[9];
std::vector<Part> parts_of(double compute_s, const output::Waits& waited, double idle_s);
// The ranks' time in each span, in ranks, by kTimeParts. A stall under way is split like the stalls
// that end next.
std::vector<std::vector<double>> time_parts(const output::RunResult& run, const Spans& spans);

// A resource that can be busy, and what it has done.
struct Resource {
  const char* name;
  const char* color;
  double (*done)(const output::SeriesPoint&);
  double (*most)(const output::RunResult&);  // a second; 0: no limit
};
extern const Resource kResources[5];

}  // namespace batchflow::sim
