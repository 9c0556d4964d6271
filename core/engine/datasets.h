// What is known of datasets and pipelines, and which datasets an operator keeps.
#pragma once

#include "core/engine/item_shares.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Datasets {
 public:
  Datasets(EngineState& state, ItemShares& item_shares)
      : s_(state), datasets_(state.datasets.writable_for(this)), item_shares_(item_shares) {}

  void known(const CatalogueKnown& event);
  void known(const PipelineKnown& event);
  void kept(const DatasetKept& event);
  // The decoded samples of a share have another size than it counts with.
  void measured(const DecodedMeasured& event);

 private:
  EngineState& s_;
  IndexedVector<Dataset, DatasetIndex>& datasets_;
  ItemShares& item_shares_;
};

}  // namespace batchflow::engine
