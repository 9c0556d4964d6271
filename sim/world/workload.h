// The datasets and pipelines of a scenario in the units of the engine: catalogues to begin with,
// ids to name them by, and the sizes and costs that the backend reckons with.
#pragma once

#include <vector>

#include "configs/reader/scenario.h"
#include "core/catalogue.h"
#include "core/event.h"

namespace batchflow::sim {

class Workload {
 public:
  explicit Workload(const Scenario& scenario);

  const Catalogues& catalogues() const { return catalogues_; }
  DatasetId dataset(const JobModel& job) const;
  PipelineId pipeline(const JobModel& job) const;

  struct Data {
    DatasetId id;
    Digest version;
    const Catalogue* catalogue;
  };
  // A pipeline as it is applied to one dataset.
  struct Preparation {
    PipelineId id;
    int dataset;
    int pipeline;
    PipelineInfo info;
    Spread spread;
  };
  const std::vector<Data>& datasets() const { return datasets_; }
  const std::vector<Preparation>& preparations() const { return preparations_; }
  const Data& data(DatasetId id) const { return datasets_[id.value - 1]; }
  const Preparation& preparation(PipelineId id) const { return preparations_[id.value - 1]; }
  // Items an order to read is for, and their bytes.
  static std::uint64_t items_of(const Read& order);
  Bytes bytes_of(const Read& order) const;
  std::uint64_t samples(std::uint64_t items) const { return items * samples_per_item_; }

 private:
  std::uint64_t samples_per_item_;
  Catalogues catalogues_;
  std::vector<Data> datasets_;
  std::vector<Preparation> preparations_;
};

}  // namespace batchflow::sim
