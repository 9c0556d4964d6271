// The datasets and pipelines of a coordinator, as an agent's node opens them. They are numbered as
// the coordinator numbers them.
//
// It lives on the service's thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/service/backend/backend_context.h"
#include "runtime/service/cluster/node_link.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/control/node_config.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/openers.h"
#include "runtime/service/log/service_log.h"

namespace batchflow::service {

class AgentDatasets {
 public:
  AgentDatasets(const NodeConfig& config, ServiceLog& log, NodeLink& link, Post post)
      : config_(config), log_(log), link_(link), openers_(std::move(post)) {}

  Datasets& all() { return datasets_; }
  // Opens the dataset on a thread, and answers the coordinator what came of it.
  void open(const DatasetMessage& wanted);
  // Compiles the pipeline, at the latest when its dataset is open.
  void add(const PipelineMessage& wanted);

 private:
  void opened(const DatasetMessage& wanted, const std::vector<OpenedIndex>& parts);
  void answer_opened(DatasetId dataset, const std::string& problem);

  const NodeConfig& config_;
  ServiceLog& log_;
  NodeLink& link_;
  Datasets datasets_;
  std::vector<PipelineMessage> early_;  // their datasets are being opened
  std::uint64_t next_opening_ = 0;
  Openers openers_;
};

}  // namespace batchflow::service
