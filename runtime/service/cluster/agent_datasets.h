// The datasets and pipelines of a coordinator, as an agent's node opens them. They are numbered as
// the coordinator numbers them.
//
// It lives on the service's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/service/backend/backend_context.h"
#include "runtime/service/cluster/node_link.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/control/node_config.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/openers.h"
#include "runtime/service/datasets/pipeline_opener.h"
#include "runtime/service/log/service_log.h"

namespace batchflow::service {

class AgentDatasets {
 public:
  struct Host {
    ServiceLog& log;
    NodeLink& link;
    Post post;
    // Processes of steps take memory of the cache, or have given it back.
    std::function<void(const NodeConfig& config)> memory_changed;
    std::function<bool(PipelineId)> uses;   // whether something uses it now
    std::function<void(DatasetId)> opened;  // before the coordinator hears of it
  };
  AgentDatasets(const NodeConfig& config, Host host);
  ~AgentDatasets();

  Datasets& all() { return datasets_; }
  // Opens the dataset on a thread, and answers the coordinator what came of it.
  void open(const DatasetMessage& wanted);
  // Compiles the pipeline, at the latest when its dataset is open. If it has steps of users, their
  // processes begin meanwhile, and the coordinator is answered what came of it.
  void add(const PipelineMessage& wanted);
  // No job uses the pipeline any more.
  void remove(PipelineId pipeline);
  // Lets go of removed pipelines that nothing uses any more: call it now and then.
  void let_go();

 private:
  void compile(const PipelineMessage& wanted);
  void set_up(const PipelineMessage& wanted, config::ConfigNode written);
  void have(const PipelineMessage& wanted, std::unique_ptr<prepare::Pipeline> made);
  void open_feed(const DatasetMessage& wanted);
  void opened(const DatasetMessage& wanted, const std::vector<OpenedIndex>& parts);
  void answer_opened(DatasetId dataset, const std::string& problem);
  void answer_set_up(const PipelineMessage& wanted, const std::string& problem);

  NodeConfig config_;  // its steps_bytes is what the steps here take
  const Host host_;
  const std::shared_ptr<std::atomic<bool>> ending_ = std::make_shared<std::atomic<bool>>(false);
  Datasets datasets_;
  std::vector<PipelineMessage> early_;  // their datasets are being opened
  std::vector<PipelineId> removed_;
  std::uint64_t next_opening_ = 0;
  Openers openers_;
  PipelineOpener pipelines_;
};

}  // namespace batchflow::service
