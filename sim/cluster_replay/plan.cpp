#include "sim/cluster_replay/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/input/yaml.h"

namespace batchflow::sim {

namespace {

input::Scenario base_of(const ReplayOptions& options, const Variant& variant, std::uint64_t seed) {
  config::ConfigNode tree;
  const auto set = [&](const std::string& assignment) {
    input::apply_override(tree, assignment);
    input::resolve_names(tree);
  };
  set("cluster=" + options.cluster);
  set("scheduler=" + (options.scheduler.empty() ? "recorded" : options.scheduler));
  apply_variant(variant, tree);
  for (const std::string& text : options.overrides) set(text);
  input::apply_override(tree, fmt::format("seed={}", seed));
  if (!options.skip.empty()) input::apply_override(tree, "warm_up=" + options.skip);
  input::Scenario base = input::read_cluster_and_engine(tree);
  check_policies(policies::policy_list(), base.engine.policies, tree);
  base.name = options.log.trace;
  return base;
}

}  // namespace

input::OverlayModel overlay_of(const ReplayOptions& options) {
  config::ConfigNode tree = input::load_overlay(options.overlay);
  for (const std::string& text : options.overlay_overrides) input::apply_override(tree, text);
  return input::read_overlay(tree);
}

ReplayOptions with_scheduler(ReplayOptions options, const traces::JobTrace& trace) {
  if (!options.scheduler.empty()) return options;
  const bool has_starts = std::any_of(trace.jobs.begin(), trace.jobs.end(),
                                      [](const traces::JobRecord& job) { return job.has_start(); });
  options.scheduler = has_starts ? "recorded" : "fifo";
  options.scheduler_is_assumed = !has_starts;
  return options;
}

void check(const ReplayOptions& options) {
  for (const Variant& variant : parse_variants(policies::policy_list(), options.policies)) {
    base_of(options, variant, options.seed);
  }
}

ReplayPlan::ReplayPlan(const ReplayOptions& options, const traces::JobTrace& trace)
    : options_(options),
      trace_(trace),
      window_{window_time("--from", options.from, trace), window_time("--to", options.to, trace),
              options.scale_gpus},
      variants_(parse_variants(policies::policy_list(), options.policies)) {
  if (window_.from != traces::kNoTime && window_.to != traces::kNoTime &&
      window_.from >= window_.to) {
    throw ConfigError(
        fmt::format("--from {} is not before --to {}; exchange them, or leave one out",
                    options.from, options.to));
  }
}

std::vector<PlannedRun> ReplayPlan::runs(const input::OverlayModel& overlay) const {
  std::vector<PlannedRun> planned;
  for (const Variant& variant : variants_) {
    for (std::uint64_t i = 0; i < options_.seeds; ++i) {
      planned.push_back({variant.label, base_of(options_, variant, options_.seed + i),
                         [this, overlay](input::Scenario basis) {
                           LeftOut out;
                           input::FaultTraceCounts faults;
                           return scenario(std::move(basis), overlay, out, faults);
                         }});
    }
  }
  return planned;
}

input::Scenario ReplayPlan::scenario(input::Scenario base, const input::OverlayModel& overlay,
                                     LeftOut& out, input::FaultTraceCounts& faults) const {
  input::Scenario replay =
      replay_scenario(std::move(base), trace_, overlay, options_.grain, window_, out);
  if (options_.faults.empty()) return replay;
  const auto date = [&](std::string_view text) -> std::optional<Duration> {
    const auto time = date_of(std::string(text));
    if (!time || trace_.time_base == traces::TimeBase::relative) return std::nullopt;
    return Duration(*time - out.begins_ns);
  };
  faults = input::add_fault_trace(replay, options_.faults, date);
  return replay;
}

Replayed ReplayPlan::replayed(const input::OverlayModel& overlay) const {
  Replayed replayed{trace_, overlay, options_.scheduler, options_.scheduler_is_assumed};
  for (std::uint64_t i = 0; i < options_.seeds; ++i) {
    const std::uint64_t seed = options_.seed + i;
    replayed.left_out = {};
    input::FaultTraceCounts faults;
    const input::Scenario replay =
        scenario(base_of(options_, variants_.front(), seed), overlay, replayed.left_out, faults);
    replayed.faults = input::text_of(faults, replay);
    replayed.cluster = replay.cluster.name;
    replayed.jobs = replay.jobs.size();
    replayed.begins_ns = replayed.left_out.begins_ns;
    replayed.bounds[seed] = fluid_bound(replay);
  }
  return replayed;
}

}  // namespace batchflow::sim
