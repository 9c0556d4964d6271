// Opens datasets: on threads of their own, within bounds if a job has named them, and stopped when
// no job waits for them any more.
//
// It lives on the service's thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/service/control/node_config.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/job_pipelines.h"
#include "runtime/service/datasets/joining_host.h"
#include "runtime/service/datasets/openers.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/jobs.h"

namespace batchflow::service {

class DatasetOpenings {
 public:
  // A job that waits for a dataset.
  struct Waiting {
    std::weak_ptr<Peer> connection;
    protocol::JoinRequest request;
    std::vector<protocol::Descriptor> descriptors;
  };
  // What came of a dataset that jobs waited for.
  struct Result {
    const NodeDataset& asked;
    ServedDataset* served;  // null: `problem` says why
    std::string problem;
    std::string closed;    // what other users cannot read in it, if a job has brought it
    bool was_for_trusted;  // it was opened for the service's own user, or root
  };
  using Tell = std::function<void(Waiting, const Result&)>;
  DatasetOpenings(const NodeConfig& config, Datasets& datasets, Inbox& inbox, const Jobs& jobs,
                  const JobPipelines& pipelines, const JoiningHost& host, Tell tell)
      : config_(config),
        datasets_(datasets),
        inbox_(inbox),
        jobs_(jobs),
        pipelines_(pipelines),
        host_(host),
        tell_(std::move(tell)),
        openers_(host.post) {}

  // Builds or finds the index, without holding up anything else; jobs that ask for the dataset
  // meanwhile wait.
  void open(const NodeDataset& dataset) { open(dataset, {}); }
  // The result of opening a dataset.
  struct Opened {
    NodeDataset dataset;
    std::vector<OpenedIndex> parts;  // the whole and its splits
    double took = 0;                 // seconds
  };
  // Opens datasets, without holding up anything else, and serves none of them. Calls `then` when
  // all are done.
  void open_unserved(const std::vector<NodeDataset>& wanted,
                     std::function<void(std::vector<Opened>)> then);
  // Serves what was opened so, instead of datasets with the same names.
  void serve(const std::vector<Opened>& all);
  // No job may join it or its splits any more. Jobs that read it go on.
  void remove(const NodeDataset& dataset);
  void keep(ServedDataset& dataset, engine::Keep keep);

  // Opens what a job has named. REQUIRES: opening_problem() is empty
  void open_brought(const NodeDataset& wanted,
                    const std::shared_ptr<const sources::DataRoot>& shown, Peer& connection);
  // The refusal if that may not be opened now; else empty.
  std::pair<std::string_view, std::string> opening_problem(const NodeDataset& wanted,
                                                           const Peer& connection);
  // Opens it again, if that name is of a dataset that could not be opened. False: it is not.
  bool try_again(const std::string& name);
  // The job waits for the dataset. REQUIRES: has(name)
  void wait(Peer& connection, const std::string& name, protocol::JoinRequest request,
            std::vector<protocol::Descriptor> descriptors);
  // The connection waits no more.
  void gone(const Peer& connection);

  // Datasets with an index in the making.
  bool has(const std::string& name) const { return opening_.contains(name); }
  std::vector<std::string> names() const;
  // The name of the service's own dataset at this path that is being opened.
  std::optional<std::string> configured_at(const std::filesystem::path& path) const;
  // Lets go of what jobs have brought and none has used for so long.
  void let_unused_go(Duration kept);

 private:
  // How many of the folders that jobs have named are opened at once: of all users, and of one.
  static constexpr std::size_t kOpeningMost = 16;
  static constexpr std::size_t kOpeningOfUser = 4;
  struct Opening {
    std::uint64_t number = 0;
    std::filesystem::path path;
    Requester requester;
    std::vector<Waiting> waiting;
  };
  void open(const NodeDataset& dataset, Requester requester);
  void begin_opening(std::uint64_t number, const NodeDataset& dataset, const Requester& requester,
                     std::function<void(Opened)> then);
  void await(std::uint64_t number, const NodeDataset& dataset, const Requester& requester);
  void opened(std::uint64_t number, const Opened& all);
  void opened(std::uint64_t number, const NodeDataset& asked, std::size_t part,
              const OpenedIndex& made, double took);
  ServedDataset* served_of(const NodeDataset& dataset, const OpenedIndex& made,
                           const Requester& requester, double took);
  ServedDataset& add(const NodeDataset& dataset, const OpenedIndex& made,
                     const Requester& requester, double took);
  void remove(ServedDataset& dataset);
  void set_apart_for_data(Bytes bytes);

  const NodeConfig& config_;
  Datasets& datasets_;
  Inbox& inbox_;
  const Jobs& jobs_;
  const JobPipelines& pipelines_;
  const JoiningHost& host_;
  const Tell tell_;
  std::map<std::string, Opening> opening_;  // by the dataset's name
  // Datasets of which nothing could be opened, by the names of their parts. The next job that asks
  // for one has it tried again.
  std::map<std::string, NodeDataset, std::less<>> failed_;
  std::uint64_t next_ = 0;
  std::map<uid_t, std::uint64_t> brought_samples_;  // ever
  Openers openers_;
};

}  // namespace batchflow::service
