// From a request to join to a job: the data set it names is found or opened, its user has shown
// that he may read it, and the pipeline is compiled.
//
// Lives on the service's thread; indices are built on threads of their own.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/service/connection.h"
#include "runtime/service/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs.h"
#include "runtime/service/node_config.h"

namespace batchflow {

class Joining {
 public:
  using Say = std::function<void(const std::string& line)>;
  // Runs a function on the service's thread, and has the engine stepped after it.
  using Post = std::function<void(std::function<void()>)>;
  using Now = std::function<Instant()>;

  Joining(const NodeConfig& config, Datasets& datasets, Inbox& inbox, Jobs& jobs, Post post,
          Say say, Now now);
  ~Joining();  // waits for what is being opened

  // Builds or finds the index beside everything else; who asks for the dataset meanwhile waits.
  void open(const NodeDataset& dataset);
  // Answers now, or when the dataset is open.
  void join(Connection& session, JoinRequest request, const std::vector<Descriptor>& descriptors);
  // It waits no more.
  void gone(const Connection& session);
  // Datasets whose index is being made.
  std::vector<std::string> opening() const;

 private:
  struct Waiting {
    std::weak_ptr<Connection> session;
    JoinRequest request;
  };
  void opened(const NodeDataset& dataset, const std::shared_ptr<SampleIndex>& index,
              std::string problem, double took);
  void join(Connection& session, const JoinRequest& request, ServedDataset& dataset);
  std::string names() const;
  ServedPipeline& pipeline_for(const std::string& name, ServedDataset& dataset);
  std::string pipeline_file(const std::string& name) const;

  const NodeConfig& config_;
  Datasets& datasets_;
  Inbox& inbox_;
  Jobs& jobs_;
  Post post_;
  Say say_;
  Now now_;
  std::map<std::string, std::vector<Waiting>> opening_;
  std::vector<std::thread> openers_;
  std::atomic<bool> stopping_{false};
};

}  // namespace batchflow
