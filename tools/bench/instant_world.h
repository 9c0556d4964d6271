// An engine with one dataset, and a backend that carries out all at once: what is left is the cost
// of deciding.
#pragma once

#include "core/engine/engine.h"
#include "policies/registry.h"
#include "tools/bench/instant_backend.h"

namespace batchflow::bench {

inline constexpr DatasetId kDataset{1};
inline constexpr PipelineId kPipeline{1};
inline constexpr NodeId kNode{1};

struct World {
  World(std::uint64_t samples, std::uint32_t block_samples, std::uint32_t jobs, Bytes dram,
        std::uint32_t batch, Bytes sample_bytes = 1000,
        const engine::PolicyTexts& policies = engine::EngineConfig().policies,
        const engine::PolicyList& list = policies::policy_list())
      : engine(config(block_samples * sample_bytes, policies), list,
               fill(catalogues, samples, sample_bytes)),
        backend(engine, kDataset, 7, kPipeline, 9) {
    backend.node(kNode, 16, dram);
    for (std::uint32_t i = 0; i < jobs; ++i) {
      backend.join({JobId(i), Order::relaxed, batch}, kNode);
    }
  }

  static engine::EngineConfig config(Bytes block, const engine::PolicyTexts& policies) {
    engine::EngineConfig config;
    config.policies = policies;
    config.block_bytes = block;
    return config;
  }
  static const engine::Catalogues& fill(engine::Catalogues& catalogues, std::uint64_t samples,
                                        Bytes bytes) {
    catalogues.add(kDataset, engine::Catalogue::uniform("bench", 7, samples, bytes));
    engine::PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.has_random = true;
    pipeline.prepared_bytes = bytes;
    catalogues.add(kPipeline, pipeline);
    return catalogues;
  }

  engine::Catalogues catalogues;
  engine::Engine engine;
  InstantBackend backend;
};

}  // namespace batchflow::bench
