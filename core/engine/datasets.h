// What is known of datasets and pipelines, and which datasets an operator keeps.
#pragma once

#include "core/engine/items.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Datasets {
 public:
  Datasets(EngineState& state, Items& items)
      : s_(state), datasets_(state.datasets.of(this)), items_(items) {}

  void known(const CatalogueKnown& event);
  void known(const PipelineKnown& event);
  void kept(const DatasetKept& event);
  // The decoded samples of a share have another size than it counts with.
  void measured(const DecodedMeasured& event);

 private:
  EngineState& s_;
  IndexedVector<Dataset, DatasetIndex>& datasets_;
  Items& items_;
};

}  // namespace batchflow::engine
