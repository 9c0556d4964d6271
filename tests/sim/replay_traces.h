// Job logs and overlays written in a test, for the tests of replays.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "programs/input/overlay_model.h"
#include "programs/input/yaml.h"
#include "sim/cluster_replay/replay_scenario.h"
#include "traces/job_synth.h"

namespace batchflow::test {

inline input::OverlayModel overlay_of(const std::string& yaml) {
  return input::read_overlay(input::parse_yaml(yaml, "overlay.yaml"));
}

// An overlay of one class with `head` before it.
inline input::OverlayModel one_class(const std::string& head, const std::string& dataset) {
  return overlay_of(head + "classes: [{name: only, samples_per_s: 100, dataset: " + dataset +
                    "}]\n");
}

inline traces::JobTrace made_trace(std::uint64_t jobs, std::uint64_t days, std::uint64_t gpus,
                                   std::uint64_t seed = 1) {
  return traces::synthesize_jobs(traces::usual_job_model(), {jobs, days, gpus, seed, {}});
}

// A cluster, an engine and a seed, as a replay needs them.
inline input::Scenario base_of(std::uint64_t seed, const std::string& more = "") {
  config::ConfigNode tree = input::parse_yaml(
      "cluster: {nodes: [{name: n, count: 4, cores: 8, gpus: 8, memory: 64gb, cache: 50%}],\n"
      "  store: {bytes_per_s: 2gb}}\n" +
          more,
      "base.yaml");
  input::apply_override(tree, "seed=" + std::to_string(seed));
  return input::read_cluster_and_engine(tree);
}

// The record of a job that is replayed. REQUIRES: all ids differ
inline const traces::JobRecord& record_of(const traces::JobTrace& trace, const std::string& id) {
  for (const traces::JobRecord& record : trace.jobs) {
    if (trace.text(record.id) == id) return record;
  }
  FAIL("no job ", id);
  return trace.jobs.front();
}

}  // namespace batchflow::test
