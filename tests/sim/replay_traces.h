// Job logs and overlays written in a test, for the tests of replays.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "configs/reader/overlay_model.h"
#include "configs/reader/yaml.h"
#include "sim/cluster_replay/replay_scenario.h"
#include "traces/job_synth.h"

namespace batchflow::sim::test {

inline OverlayModel overlay_of(const std::string& yaml) {
  return read_overlay(parse_yaml(yaml, "overlay.yaml"));
}

// An overlay of one class with `head` before it.
inline OverlayModel one_class(const std::string& head, const std::string& dataset) {
  return overlay_of(head + "classes: [{name: only, samples_per_s: 100, dataset: " + dataset +
                    "}]\n");
}

inline JobTrace made_trace(std::uint64_t jobs, std::uint64_t days, std::uint64_t gpus,
                           std::uint64_t seed = 1) {
  return synthesize_jobs(usual_job_model(), {jobs, days, gpus, seed, {}});
}

// A cluster, an engine and a seed, as a replay needs them.
inline Scenario base_of(std::uint64_t seed, const std::string& more = "") {
  ConfigNode tree = parse_yaml(
      "cluster: {nodes: [{name: n, count: 4, cores: 8, gpus: 8, memory: 64gb, cache: 50%}],\n"
      "  store: {bytes_per_s: 2gb}}\n" +
          more,
      "base.yaml");
  apply_override(tree, "seed=" + std::to_string(seed));
  return read_cluster_and_engine(tree);
}

// The record of a job that is replayed. REQUIRES: all ids differ
inline const JobRecord& record_of(const JobTrace& trace, const std::string& id) {
  for (const JobRecord& record : trace.jobs) {
    if (trace.text(record.id) == id) return record;
  }
  FAIL("no job ", id);
  return trace.jobs.front();
}

}  // namespace batchflow::sim::test
