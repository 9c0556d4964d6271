#include "sim/world/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/log/event_codec.h"
#include "policies/plugin/failures.h"
#include "policies/registry.h"
#include "programs/config/engine_settings.h"
#include "programs/input/workload_summary.h"
#include "programs/output/output.h"
#include "programs/output/results.h"
#include "sim/world/fault_plan.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

namespace {

output::ClusterSizes sizes_of(const input::ClusterModel& cluster) {
  output::ClusterSizes sizes;
  sizes.nodes = cluster.nodes.size();
  bool all_cards = true;  // have a limit
  bool all_pcie = true;
  for (const input::NodeModel& node : cluster.nodes) {
    sizes.gpus += node.gpus;
    sizes.cores += node.cores;
    sizes.cache_bytes += node.cache;
    sizes.nvme_bytes += node.nvme;
    sizes.gpu_cache_bytes += node.gpu.cache * node.gpus;
    sizes.network_bytes_per_s += node.nic_bytes_per_s;
    sizes.pcie_bytes_per_s += node.pcie_bytes_per_s;
    all_cards = all_cards && node.nic_bytes_per_s > 0;
    all_pcie = all_pcie && node.pcie_bytes_per_s > 0;
  }
  if (!all_cards) sizes.network_bytes_per_s = 0;
  if (!all_pcie) sizes.pcie_bytes_per_s = 0;
  for (const input::Curve::Point& point : cluster.store.bytes_per_s.points) {
    sizes.store_bytes_per_s = std::max(sizes.store_bytes_per_s, point.y);
  }
  const double link = cluster.store_nic_bytes_per_s;
  if (link > 0 && (sizes.store_bytes_per_s == 0 || link < sizes.store_bytes_per_s)) {
    sizes.store_bytes_per_s = link;
  }
  return sizes;
}

}  // namespace

World::World(const input::Scenario& scenario, const engine::PolicyList& policies,
             const sim::SimulateOptions& options)
    : scenario_(scenario),
      options_(options),
      workload_(scenario),
      ids_(scenario.jobs.size()),
      tasks_(kernel_),
      platform_(kernel_, tasks_, counters_, scenario.cluster),
      timeline_(options.timeline.empty() ? std::nullopt
                                         : std::optional<Timeline>(options.timeline_events)),
      watch_(scenario, workload_, ids_, timeline_ ? &*timeline_ : nullptr),
      live_(scenario, workload_, kernel_, reports_),
      jobs_({kernel_, tasks_, platform_, scenario, workload_, reports_, counters_, watch_, ids_,
             live_}),
      backend_({kernel_, tasks_, platform_, scenario, workload_, reports_, counters_, watch_, ids_,
                live_},
               jobs_),
      engine_(scenario.engine, policies, workload_.catalogues(), explainer()),
      step_([this](Instant now, std::span<const engine::Event> events) {
        return engine_.step(now, events);
      }),
      journal_(options.journal,
               {scenario.seed, config::text_of(scenario.engine), BATCHFLOW_VERSION},
               workload_.catalogues(), scenario.engine.journal_bytes_max),
      batches_(options.batches, scenario, workload_, ids_) {
  if (scenario.faults.empty()) return;
  faults_.emplace(
      fault_plan(scenario, workload_), scenario.seed, workload_.catalogues(),
      [this](Instant now, std::span<const engine::Event> events) { return decide(now, events); },
      [this](faults::FaultInjector::Part part, std::uint32_t which, double factor) {
        set_speed(part, which, factor);
      });
}

void World::begin() {
  if (begun_) return;
  begun_ = true;
  backend_.bring_up();
  live_.begin();
  jobs_.begin();
  const input::OtherLoad& load = scenario_.cluster.store_load;
  for (std::size_t i = 0; i < load.parts.size(); ++i)
    kernel_.after(load.parts[i].at, [this, i] { change_store_load(i); });
  kernel_.each_instant([this] { instant(); });
  if (scenario_.ends_after.count() > 0) {
    kernel_.after(scenario_.ends_after, [this] { kernel_.stop(); });
  }
  kernel_.after(Duration(0), [] {});
}

bool World::run_until(Instant when) {
  begin();
  if (Instant(scenario_.warm_up) <= when) warm_up();
  return halt_at(when);
}

bool World::halt_at(Instant when) {
  kernel_.run_until(when);
  return !kernel_.stopped();
}

output::RunResult World::run() {
  const auto began = std::chrono::steady_clock::now();
  begin();
  warm_up();
  kernel_.run();
  journal_.close();
  batches_.close();
  recorder_.end(series_point());
  jobs_.cut();
  output::RunResult run = result();
  if (timeline_) write_timeline(run);
  run.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return run;
}

void World::warm_up() {
  const Instant until(scenario_.warm_up);
  if (scenario_.warm_up.count() == 0 || warm_up_ || kernel_.stopped()) return;
  if (!halt_at(until)) {
    if (stopped_) return;
    throw ConfigError(
        fmt::format("key 'warm_up': all jobs are done {:.3g} s after the start; write less, or 0s",
                    seconds(jobs_.last_end())));
  }
  warm_up_ = {until, counters_, engine_.counters()};
  const Jobs::UnderWay now = jobs_.under_way();
  warm_up_->counters.compute += now.compute;
  warm_up_->counters.stall += now.stall;
  warm_up_->counters.idle += now.idle;
}

void World::write_timeline(output::RunResult& run) const {
  output::write_file_atomically(options_.timeline, timeline_->json(run.series, run.scenario));
  if (timeline_->ended()) {
    run.remark = fmt::format("the timeline ends early, at {} events; --timeline-events takes more",
                             timeline_->events());
  }
}

void World::instant() {
  const Instant now = kernel_.now();
  if (recorder_.due(now)) recorder_.add(now, series_point());
  const bool fault_due = faults_ && faults_->due() <= now;
  if (reports_.empty() && !fault_due) return;
  // From here on there are results, and files.
  if (steps_ == 0 && !goes_on()) return kernel_.stop();
  const std::span<const engine::Event> events = reports_.take();
  backend_.carry_out(faults_ ? faults_->step(now, events) : decide(now, events));
  if (jobs_.all_over() || !goes_on()) return kernel_.stop();
  if (!reports_.empty()) kernel_.after(Duration(0), [] {});
  if (faults_ && faults_->due() < wakes_for_fault_) {
    wakes_for_fault_ = faults_->due();
    kernel_.at(wakes_for_fault_, [this] { wakes_for_fault_ = kNever; });
  }
}

std::span<const engine::Command> World::decide(Instant now, std::span<const engine::Event> events) {
  journal_.record_events(now, events);
  if (options_.explain) {
    for (const engine::Event& event : events) explain('<', log::describe(event));
  }
  const std::span<const engine::Command> commands = step_(now, events);
  jobs_.promised(engine_.promises());
  journal_.record_commands(commands);
  batches_.step(now, events, commands);
  digest_.add(commands);
  watch_.step(kernel_.now(), events, commands);
  if (options_.explain) {
    for (const engine::Command& command : commands) explain('>', log::describe(command));
  }
  ++steps_;
  return commands;
}

void World::change_store_load(std::size_t index) {
  const input::OtherLoad& load = scenario_.cluster.store_load;
  platform_.set_store_load(load.parts[index].part);
  // Others' load alone does not keep a run going in which nothing else is left to happen.
  const bool is_stuck = kernel_.pending() < load.parts.size() && reports_.empty();
  if (load.period.count() > 0 && !is_stuck)
    kernel_.after(load.period, [this, index] { change_store_load(index); });
}

void World::set_speed(faults::FaultInjector::Part part, std::uint32_t which, double factor) {
  switch (part) {
    case faults::FaultInjector::Part::node:
      return factor > 0 ? jobs_.node_up(NodeId(which)) : jobs_.node_down(NodeId(which));
    case faults::FaultInjector::Part::worker:
      return backend_.set_worker_speed(WorkerId(which), factor);
    case faults::FaultInjector::Part::hardware:
      return platform_.set_speed(which, factor);
  }
}

bool World::goes_on() {
  constexpr std::uint64_t kStepsBetween = 64;  // in a large cluster a step may take milliseconds
  if (!options_.goes_on || (steps_ > 0 && steps_ % kStepsBetween != 1)) return true;
  stopped_ = !options_.goes_on({jobs_.progress(), seconds(kernel_.now()), jobs_.over()});
  return !stopped_;
}

void World::explain(char mark, const std::string& text) const {
  options_.explain(fmt::format("{:.9f} {} {}", seconds(kernel_.now()), mark, text));
}

// Prints, between the events and the commands, which policy decided what, and why.
engine::Explain World::explainer() const {
  if (!options_.explain) return {};
  return [this](const engine::Decision& decision) { explain('?', engine::text_of(decision)); };
}

// -------------------------------------------------------------------------------- results ----

std::string World::failure() const {
  if (stopped_ || jobs_.all_over() || scenario_.ends_after.count() > 0) return "";
  return "nothing is left to happen, and jobs wait: " + engine_.describe();
}

output::Aggregate World::aggregate(const output::RunResult& run) const {
  const Counters counted = warm_up_ ? counters_.since(warm_up_->counters) : counters_;
  const engine::EngineCounters before = warm_up_ ? warm_up_->engine : engine::EngineCounters{};
  output::Aggregate sum;
  sum.samples = counted.samples_trained;
  sum.samples_requested = counted.samples_requested;
  sum.samples_read = counted.samples_read;
  sum.cached_bytes_most = watch_.cached_most();
  sum.storage_bytes = counted.storage_bytes;
  sum.storage_reads = counted.storage_reads;
  sum.store_requests = counted.store_requests + counted.requests_again;
  sum.requests_again = counted.requests_again;
  sum.requests_price = static_cast<double>(sum.store_requests) *
                       scenario_.cluster.store_requests.price_per_million * 1e-6;
  sum.store_written_bytes = counted.written_bytes;
  sum.store_restored_bytes = counted.restored_bytes;
  sum.nvme_bytes = counted.nvme_bytes;
  sum.nvme_written_bytes = counted.nvme_written_bytes;
  sum.gpu_read_bytes = counted.gpu_read_bytes;
  sum.gpu_written_bytes = counted.gpu_written_bytes;
  sum.network_bytes = counted.network_bytes;
  sum.pcie_bytes = counted.pcie_bytes;
  sum.preparations = counted.samples_prepared;
  sum.prepared_blocks = counted.blocks_prepared;
  sum.remade_blocks = engine_.counters().remakes - before.remakes;
  sum.repeats = counted.repeats;
  sum.preparation_s = seconds(counted.preparation);
  const double counted_s = run.makespan_s - run.counted_from_s;
  if (counted_s > 0) sum.samples_per_s = static_cast<double>(sum.samples) / counted_s;
  sum.cancelled_read_bytes = counted.cancelled_read_bytes;
  sum.cancelled_preparation_s = seconds(counted.cancelled_preparation);
  sum.failed_reads = engine_.counters().failed_reads - before.failed_reads;
  sum.replaced_samples = engine_.counters().corrupt_samples - before.corrupt_samples;
  sum.lost_samples = counted.samples_lost;
  sum.repeated_samples = counted.samples_repeated;
  const TotalTime ranks_time = counted.compute + counted.stall + counted.idle + counted.down;
  if (ranks_time.count() > 0) sum.stall_fraction = seconds(counted.stall) / seconds(ranks_time);
  sum.hit_ratio = output::hit_ratio(sum.samples_read, sum.samples_requested);
  sum.au = !warm_up_                ? output::mean_au(run.jobs)
           : ranks_time.count() > 0 ? seconds(counted.compute) / seconds(ranks_time)
                                    : 0;
  output::count_completions(run.jobs, sum, run.counted_from_s);
  output::count_records(run, sum);
  output::count_buffers(run.jobs, sum);
  return sum;
}

std::vector<output::FaultResult> World::fault_results(double end_s) const {
  std::vector<output::FaultResult> results;
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
    const input::FaultModel& model = scenario_.faults[i];
    const faults::FaultInjector::Struck& struck = faults_->struck()[i];
    output::FaultResult& result = results.emplace_back();
    result.kind = model.kind_name();
    result.target = model.name;
    result.struck = struck.struck;
    result.parts = struck.parts;
    if (!struck.struck) continue;
    result.from_s = seconds(struck.from);
    result.until_s = struck.until != kNever ? seconds(struck.until) : end_s;
  }
  return results;
}

output::SeriesPoint World::series_point() const {
  const Jobs::UnderWay now = jobs_.under_way();
  output::SeriesPoint point;
  point.time_s = seconds(kernel_.now());
  point.samples = counters_.samples_trained;
  point.samples_requested = counters_.samples_requested;
  point.samples_read = counters_.samples_read;
  point.storage_bytes = counters_.storage_bytes;
  point.nvme_bytes = counters_.nvme_bytes;
  point.network_bytes = counters_.network_bytes;
  point.pcie_bytes = counters_.pcie_bytes;
  point.preparations = counters_.samples_prepared;
  point.preparation_s = seconds(counters_.preparation);
  point.busy_s = seconds(watch_.busy(kernel_.now()));
  point.compute_s = seconds(counters_.compute + now.compute);
  point.stall_s = seconds(counters_.stall + now.stall);
  point.idle_s = seconds(counters_.idle + now.idle);
  point.waited = waits(watch_.waited());
  point.cached = watch_.cached();
  point.ranks = now.ranks;
  point.stalling = now.stalling;
  point.reading = watch_.reading();
  point.preparing = watch_.preparing();
  point.workers = watch_.workers();
  point.jobs = jobs_.points();
  return point;
}

output::RunResult World::result() {
  output::RunResult run;
  run.scenario = scenario_.name;
  run.seed = scenario_.seed;
  const engine::EngineConfig& engine = scenario_.engine;
  run.policies = {{"preset", engine.preset}};
  engine::visit_policies(engine.policies, [&](std::string_view name, const std::string& text) {
    run.policies.emplace_back(name, text);
  });
  config::visit_settings(config::text_of(engine),
                         [&](std::string_view key, std::string_view value) {
                           if (key != "preset" && !key.starts_with("policies."))
                             run.settings.emplace_back(key, value);
                         });
  run.workload = input::summary_of_workload(scenario_);
  run.digest = fmt::format("{:016x}", digest_.value());
  run.interrupted = stopped_;
  run.failure = failure();
  const Instant end = jobs_.all_over() ? jobs_.last_end() : kernel_.now();
  run.makespan_s = seconds(end);
  if (warm_up_) run.counted_from_s = seconds(warm_up_->ended);
  run.steps = steps_;
  const engine::EngineCounters counters = engine_.counters();
  run.stale_completions = counters.stale_completions;
  run.protocol_errors = counters.protocol_errors;
  run.refused_proposals = counters.refused_proposals;
  run.followed_requests = counters.followed_requests;
  run.followed_hits = counters.followed_hits;
  run.followed_bound_hits = counters.followed_bound_hits;
  run.jobs = jobs_.take_results();
  run.sources = live_.results();
  run.faults = fault_results(run.makespan_s);
  run.preparation_steps = backend_.step_results();
  run.aggregate = aggregate(run);
  run.cluster = sizes_of(scenario_.cluster);
  run.series = recorder_.points();
  return run;
}

}  // namespace batchflow::world

namespace batchflow::sim {

bool can_simulate() {
  return true;
}

output::RunResult simulate(const input::Scenario& scenario, const SimulateOptions& options) {
  output::RunResult result = world::World(scenario, policies::policy_list(), options).run();
  plugin::check_failures();
  return result;
}

}  // namespace batchflow::sim
