// From a request to join to a job: the dataset that it names is found or opened, its user has shown
// the right to read it, and the pipeline is compiled.
//
// It lives on the service's thread.
#pragma once

#include <string>
#include <vector>

#include "runtime/service/control/node_config.h"
#include "runtime/service/datasets/dataset_openings.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/job_pipelines.h"
#include "runtime/service/datasets/joining_host.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/jobs.h"

namespace batchflow::service {

class Joining {
 public:
  Joining(const NodeConfig& config, Datasets& datasets, Inbox& inbox, Jobs& jobs, JoiningHost host);

  DatasetOpenings& openings() { return openings_; }
  JobPipelines& pipelines() { return pipelines_; }
  // Answers now, or when the dataset is open.
  void join(Peer& connection, protocol::JoinRequest request,
            std::vector<protocol::Descriptor> descriptors);
  // Lets go of what jobs have brought and none has used for long: call it now and then.
  void let_unused_go();
  // The connection waits no more.
  void gone(const Peer& connection);

 private:
  // Joins, if the user may read what is open by now.
  void enter(Peer& connection, const protocol::JoinRequest& request,
             const std::vector<protocol::Descriptor>& descriptors, ServedDataset& dataset);
  void opened(DatasetOpenings::Waiting one, const DatasetOpenings::Result& result);
  void join(Peer& connection, const protocol::JoinRequest& request, ServedDataset& dataset);
  void join(Peer& connection, const protocol::JoinRequest& request, ServedDataset& dataset,
            ServedPipeline& pipeline);
  std::string names() const;

  const NodeConfig& config_;
  Datasets& datasets_;
  Jobs& jobs_;
  const JoiningHost host_;
  JobPipelines pipelines_;
  DatasetOpenings openings_;
};

}  // namespace batchflow::service
