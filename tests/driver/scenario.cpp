#include "tests/driver/scenario.h"

#include <fmt/format.h>

namespace batchflow::test {

Scenario small_scenario() {
  Scenario scenario;
  // Blocks of 8: 8 samples of 64 bytes.
  scenario.config.block_bytes = 512;
  scenario.config.item_slot_bytes = 64;
  scenario.config.policies.allocation = "proportional";
  scenario.nodes = {{NodeId(1), 2, 8 * 512, 0, {}}};
  scenario.datasets = {{DatasetId(1), 101, 64, 100, {}}};
  PipelineInfo pipeline;
  pipeline.hash = 201;
  pipeline.has_random = true;
  pipeline.prepared_bytes = 64;
  scenario.pipelines = {{PipelineId(1), pipeline}};
  return scenario;
}

}  // namespace batchflow::test
