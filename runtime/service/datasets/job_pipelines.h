// The pipelines of jobs: found by name or brought by a job, compiled for a dataset when its first
// job comes, and let go when no job uses them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/protocol/messages.h"
#include "runtime/service/control/node_config.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/joining_host.h"
#include "runtime/service/datasets/pipeline_opener.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/jobs.h"

namespace batchflow::service {

class JobPipelines {
 public:
  JobPipelines(const NodeConfig& config, Datasets& datasets, Inbox& inbox, const Jobs& jobs,
               const JoiningHost& host)
      : config_(config),
        datasets_(datasets),
        inbox_(inbox),
        jobs_(jobs),
        host_(host),
        opener_(host.post) {}

  // Whether the job brings its steps instead of a name.
  static bool is_brought(const protocol::JoinRequest& request) {
    return request.pipeline.starts_with('{');
  }
  // The pipeline that the job asks for. Null: it is being set up under `name`, see wait(). Throws
  // an error that says why there is none.
  ServedPipeline* find_for(Peer& connection, const protocol::JoinRequest& request,
                           ServedDataset& dataset, std::string& name);
  // The pipeline of that name, compiled for the dataset. An empty name: the pipeline of jobs that
  // name none. Throws ConfigError, also while its plugins are being set up.
  ServedPipeline& pipeline_for(std::string name, ServedDataset& dataset, Order order);
  // Calls `then` when it has been set up. False: the connection waits for one already.
  bool wait(const std::string& name, DatasetId dataset, const Peer& connection,
            std::function<void()> then) {
    return opener_.wait(name, dataset, &connection, std::move(then));
  }
  // The connection waits no more.
  void gone(const Peer& connection) { opener_.forget(&connection); }
  // Why it could not be set up the last time. Null: it could, or was not tried.
  const std::string* refusal(const std::string& name, DatasetId dataset) const;
  // Whether one is being set up for the dataset.
  bool is_at(DatasetId dataset) const { return opener_.is_at(dataset); }
  // Lets go of what jobs have brought and none has used for so long.
  void let_unused_go(Duration kept);

 private:
  using Made = std::function<void(std::unique_ptr<prepare::Pipeline>)>;
  // Null: it is being set up.
  ServedPipeline* find(const std::string& name, ServedDataset& dataset);
  // Null: its functions are being set up, under `name`.
  ServedPipeline* brought_pipeline(const std::string& text, ServedDataset& dataset,
                                   Peer& connection, std::string& name);
  ServedPipeline& add_brought(uid_t user, const std::string& key, DatasetId dataset,
                              std::unique_ptr<prepare::Pipeline> made, PipelineText text);
  ServedPipeline& add_pipeline(const std::string& name, DatasetId dataset,
                               std::unique_ptr<prepare::Pipeline> compiled, PipelineText text);
  void set_up(const std::string& name, ServedDataset& dataset, config::ConfigNode written,
              Made made);
  std::unique_ptr<prepare::Pipeline> compile(const config::ConfigNode& root,
                                             const ServedDataset& dataset) const;
  void set_apart(Bytes bytes);

  const NodeConfig& config_;
  Datasets& datasets_;
  Inbox& inbox_;
  const Jobs& jobs_;
  const JoiningHost& host_;
  std::map<uid_t, std::map<std::string, ServedPipeline*>> brought_;       // by dataset and text
  std::map<std::pair<std::string, std::uint32_t>, std::string> refused_;  // why, when last set up
  PipelineOpener opener_;
};

}  // namespace batchflow::service
