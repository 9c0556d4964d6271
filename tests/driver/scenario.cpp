#include "tests/driver/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/random.h"

namespace batchflow::test {

Scenario small_scenario() {
  Scenario scenario;
  // Blocks of 8: 8 samples of 64 bytes.
  scenario.config.block_bytes = 512;
  scenario.config.item_slot_bytes = 64;
  scenario.config.policies.allocation = "proportional";
  scenario.nodes = {{NodeId(1), 2, 8 * 512, 0, {}}};
  scenario.datasets = {{DatasetId(1), 101, 64, 100, {}}};
  engine::PipelineInfo pipeline;
  pipeline.hash = 201;
  pipeline.has_random = true;
  pipeline.prepared_bytes = 64;
  scenario.pipelines = {{PipelineId(1), pipeline}};
  return scenario;
}

Scenario roomy_scenario(std::vector<JobPlan> jobs) {
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 64 * 512;
  scenario.jobs = std::move(jobs);
  return scenario;
}

Bytes DatasetPlan::bytes_of(SampleId sample) const {
  if (bytes_most <= bytes) return bytes;
  return bytes + hash(11, version, sample.value) % (bytes_most - bytes + 1);
}

Bytes DatasetPlan::largest_bytes() const {
  if (bytes_most <= bytes) return bytes;
  Bytes largest = 0;
  for (std::uint64_t i = 0; i < samples; ++i) largest = std::max(largest, bytes_of(SampleId(i)));
  return largest;
}

Bytes DatasetPlan::bundle_bytes(SampleId first) const {
  Bytes sum = 0;
  for (std::uint64_t i = 0; i < std::uint64_t{1} << bundle_shift && first.value + i < samples; ++i)
    sum += bytes_of(SampleId(first.value + i));
  return sum;
}

engine::Catalogue DatasetPlan::catalogue() const {
  engine::Catalogue::Parts parts;
  parts.name = "d";
  parts.version = version;
  parts.samples = samples;
  parts.uniform_bytes = bytes;
  parts.bundle_shift = bundle_shift;
  if (bytes_most > bytes) {
    for (std::uint64_t i = 0; i < samples; ++i) parts.bytes.push_back(bytes_of(SampleId(i)));
    for (SampleId first(0); bundle_shift > 0 && first.value < samples;
         first.value += 1ull << bundle_shift)
      parts.bundle_bytes.push_back(bundle_bytes(first));
  }
  std::string problem;
  return engine::Catalogue::from(std::move(parts), problem).value();
}

std::string Scenario::text() const {
  std::string text = fmt::format(
      "seed {}: block {} B, item slot {} B, credits {}, helpers {}, policies {} [{} {} {} {}] {} "
      "{} "
      "{}{}{}\n",
      seed, config.block_bytes, config.item_slot_bytes, config.credits, config.helper_nodes,
      config.policies.allocation, config.policies.eviction[0], config.policies.eviction[1],
      config.policies.eviction[2], config.policies.eviction[3], config.policies.selection,
      config.policies.dispatch, config.policies.scaling,
      config.share_streams ? "" : ", a stream a job",
      config.workers_held_during_reads ? ", workers held" : "");
  for (const NodePlan& node : nodes) {
    text += fmt::format("  node {}: {} cores, {} B, nvme {} B, gpus [{}] B, at {} us\n",
                        node.id.value, node.cores, node.dram, node.nvme, fmt::join(node.gpus, " "),
                        node.joins.count() / 1000);
  }
  for (const DatasetPlan& one : datasets) {
    text += fmt::format("  dataset {}: {} samples of {}..{} B, bundles of {}, {} corrupt\n",
                        one.id.value, one.samples, one.bytes, one.bytes_most,
                        1u << one.bundle_shift, one.corrupt.size());
    for (const DatasetPlan::Arrival& arrival : one.arrivals)
      text += fmt::format("    {} records at {} us\n", arrival.end, arrival.when.count() / 1000);
  }
  for (const PipelinePlan& one : pipelines) {
    text += fmt::format("  pipeline {}: prepared {} B, decoded {} B\n", one.id.value,
                        one.info.prepared_bytes, one.info.decoded_bytes);
  }
  for (const JobPlan& job : jobs) {
    text += fmt::format(
        "  job: user {} dataset {} pipeline {} order {}{}{} seed {} b {} (m {}) {}epochs {}{} "
        "steps "
        "{} "
        "credits {} ranks",
        job.user, job.dataset.value, job.pipeline.value, static_cast<int>(job.order),
        job.node_local ? " node-local" : "", job.runs ? " runs" : "",
        job.has_shuffle_seed ? job.shuffle_seed : 0, job.batch_samples, job.rehearsed,
        job.drop_last ? "drop_last " : "", job.epochs, job.epochs_told ? "" : " (untold)",
        job.steps, job.credits);
    for (const NodeId node : job.ranks) text += fmt::format(" {}", node.value);
    if (!job.buffer_policy.empty())
      text += fmt::format(" buffer of {} by {}", job.buffer_exemplars, job.buffer_policy);
    if (!job.weights_policy.empty()) text += fmt::format(" weights by {}", job.weights_policy);
    text += fmt::format(" at {} us, compute {} us, hold {} us\n", job.joins.count() / 1000,
                        job.compute.count() / 1000, job.hold.count() / 1000);
  }
  text +=
      fmt::format("  failures r{} p{} t{} d{} s{} until {} us\n", failures.read, failures.prepare,
                  failures.transfer, failures.deliver, failures.stale_reports, heal.count() / 1000);
  constexpr const char* kKinds[] = {"worker lost",
                                    "node lost",
                                    "rank lost",
                                    "job resized",
                                    "job leaves",
                                    "coordinator lost",
                                    "capacity",
                                    "policy",
                                    "rank stops",
                                    "nonsense",
                                    "rank abandoned",
                                    "node quiesced",
                                    "configuration",
                                    "drive",
                                    "kept",
                                    "measured",
                                    "gpu"};
  for (const Fault& fault : faults) {
    text += fmt::format("  {} us: {} {} later {} us, b {} ranks", fault.when.count() / 1000,
                        kKinds[static_cast<int>(fault.kind)], fault.number,
                        fault.later.count() / 1000, fault.batch_samples);
    for (const NodeId node : fault.ranks) text += fmt::format(" {}", node.value);
    text += fmt::format(" bytes {} {}\n", fault.bytes, fault.text);
  }
  return text;
}

}  // namespace batchflow::test
