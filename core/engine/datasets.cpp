#include "core/engine/datasets.h"

namespace batchflow::engine {

void Datasets::known(const CatalogueKnown& event) {
  const Catalogue* catalogue = s_.catalogues.find(event.dataset, event.version);
  const DatasetIndex known = s_.dataset_of.find(event.dataset);
  if (!catalogue) return s_.protocol_error();
  if (!known.is_none()) {
    // A new version is another dataset, and needs an id of its own.
    if (datasets_[known].catalogue != catalogue) s_.protocol_error();
    return;
  }
  const DatasetIndex index = datasets_.add();
  s_.dataset_of.set(event.dataset, index);
  datasets_[index].id = event.dataset;
  datasets_[index].catalogue = catalogue;
}

void Datasets::known(const PipelineKnown& event) {
  const PipelineInfo* pipeline = s_.catalogues.find(event.pipeline, event.hash);
  if (!pipeline) return s_.protocol_error();
  s_.pipelines[event.pipeline.value] = pipeline;
}

void Datasets::kept(const DatasetKept& event) {
  const DatasetIndex known = s_.dataset_of.find(event.dataset);
  if (known.is_none()) return s_.protocol_error();
  Dataset& dataset = datasets_[known];
  dataset.kept_always = event.keep == Keep::always;
  item_shares_.settle(dataset);
  if (event.keep == Keep::dropped) item_shares_.drop_idle(dataset);
}

void Datasets::measured(const DecodedMeasured& event) {
  if (!s_.memory.live(event.share)) return s_.stale();
  const ShareSpec& spec = s_.memory[event.share].spec;
  if (spec.use != ShareUse::decoded || spec.dataset != event.dataset) return s_.stale();
  if (!s_.memory.resize_slots(event.share, event.bytes)) s_.protocol_error();
}

}  // namespace batchflow::engine
