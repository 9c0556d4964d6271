// Two nodes with one worker, on the first, and a job of one rank there. The second has kept samples
// since before the engine began, if a test says so. Tests carry out its commands by hand.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "policies/registry.h"

namespace batchflow::test {

class TwoNodes {
 public:
  static constexpr std::uint64_t kSamples = 100;
  static constexpr Bytes kSampleBytes = 1000;
  static constexpr std::uint32_t kBlockSamples = 8;
  static constexpr Digest kPrefix = 5;  // of the job's pipeline
  static constexpr DatasetId kDataset{1};
  static constexpr NodeId kFirst{1}, kSecond{2};

  TwoNodes() : engine_(config(), policies::policy_list(), fill()) {
    for (std::uint64_t i = 0; i < kSamples; ++i) all_.emplace_back(i);
    events_ = {engine::CatalogueKnown{kDataset, 7}, engine::PipelineKnown{kPipeline, 9}};
    for (const NodeId node : {kFirst, kSecond}) {
      events_.push_back(engine::NodeJoined{node, 1});
      events_.push_back(engine::CapacityChanged{{node, Tier::dram, 0}, 1'000'000});
      events_.push_back(engine::CapacityChanged{{node, Tier::nvme, 0}, 1'000'000});
    }
    events_.push_back(engine::WorkerJoined{WorkerId(0), kFirst});
  }

  // All samples are there, as they are stored or, with a prefix, decoded.
  void keep(Place at, Digest prefix) {
    const Bytes bytes = prefix == 0 ? 0 : kSampleBytes;
    events_.push_back(engine::SamplesKept{at, kDataset, prefix, bytes, 0, all_});
  }
  void join(engine::JobJoined job) {
    job.dataset = kDataset;
    job.pipeline = kPipeline;
    job.batch_samples = kBlockSamples;
    job.ranks = ranks_;
    events_.push_back(job);
  }
  // What has happened since the step before. The commands are there until the next step.
  std::span<const engine::Command> step() {
    now_ += Duration(1'000'000);
    const auto events = std::exchange(events_, {});
    const auto commands = engine_.step(now_, events);
    engine_.check_consistency();
    for (const engine::Command& command : commands) {
      if (const auto* admit = std::get_if<engine::Admit>(&command))
        add(engine::BatchWanted{admit->job, 0, admit->credits});
    }
    return commands;
  }
  void add(const engine::Event& event) { events_.push_back(event); }
  engine::EngineCounters counters() const { return engine_.counters(); }

 private:
  static constexpr PipelineId kPipeline{1};

  static engine::EngineConfig config() {
    engine::EngineConfig config;
    config.block_bytes = kBlockSamples * kSampleBytes;
    config.item_slot_bytes = kSampleBytes;
    return config;
  }
  const engine::Catalogues& fill() {
    catalogues_.add(kDataset, engine::Catalogue::uniform("two", 7, kSamples, kSampleBytes));
    engine::PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.prefix_hash = kPrefix;
    pipeline.has_random = true;
    pipeline.decoded_bytes = pipeline.prepared_bytes = kSampleBytes;
    catalogues_.add(kPipeline, pipeline);
    return catalogues_;
  }

  const std::vector<NodeId> ranks_{kFirst};
  std::vector<SampleId> all_;
  engine::Catalogues catalogues_;
  engine::Engine engine_;
  std::vector<engine::Event> events_;
  Instant now_{};
};

}  // namespace batchflow::test
