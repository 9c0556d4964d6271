// From a request to join to a job: the dataset that it names is found or opened, its user has shown
// the right to read it, and the pipeline is compiled.
//
// It lives on the service's thread; indices are built on threads of their own. Datasets are
// opened in joining_opening.cpp; pipelines are found and compiled in joining_pipelines.cpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/service/connection.h"
#include "runtime/service/control/node_config.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/openers.h"
#include "runtime/service/datasets/pipeline_opener.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/jobs.h"
#include "runtime/service/log/service_log.h"

namespace batchflow::service {

// Whether the user who shows a file or folder has opened it for reading.
bool shows(const protocol::Descriptor& one);
// Whether the user is the service's own user, or root.
bool is_trusted(const Peer& connection);
// Refuses a folder that has something which other users cannot read; says nothing else of it.
void refuse_closed(Peer& connection, const std::filesystem::path& root, const std::string& closed);

// What Joining needs of the service around it.
struct JoiningHost {
  Say say;
  Post post;
  std::function<Instant()> now;
  // Sets this much memory apart for each worker's processes of steps. Throws ConfigError.
  std::function<void(Bytes)> set_apart;
  // Gives back the memory of steps that are given up.
  std::function<void(Bytes)> give_back;
  // The same for the tables of datasets that jobs bring. Throws ConfigError.
  std::function<void(Bytes)> set_apart_for_data;
  std::function<void(Bytes)> give_back_of_data;
  memory::ScratchLimits scratch;  // of what pipelines make
  // What the agents of other nodes do about it: they open it, too, and `then` is called when all
  // have, or with why one cannot. Null: there are no agents.
  std::function<void(const ServedDataset&)> dataset_added = nullptr;
  std::function<void(const ServedPipeline&)> pipeline_added = nullptr;
  std::function<bool(DatasetId, std::function<void(const std::string& problem)> then)>
      waits_for_agents = nullptr;
  // Whether something uses it now other than a job of a user.
  std::function<bool(DatasetId)> reads;
  std::function<bool(PipelineId)> uses;
};

class Joining {
 public:
  Joining(const NodeConfig& config, Datasets& datasets, Inbox& inbox, Jobs& jobs, JoiningHost host);

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
  // Answers now, or when the dataset is open.
  void join(Peer& connection, protocol::JoinRequest request,
            std::vector<protocol::Descriptor> descriptors);
  // No job may join it or its splits any more. Jobs that read it go on.
  void remove(const NodeDataset& dataset);
  void keep(ServedDataset& dataset, engine::Keep keep);
  // The pipeline of that name, compiled for the dataset. An empty name: the pipeline of jobs that
  // name none. Throws ConfigError, also while its plugins are being set up.
  ServedPipeline& pipeline_for(std::string name, ServedDataset& dataset, Order order);
  // Lets go of what jobs have brought and none has used for long: call it now and then.
  void let_unused_go();
  // The connection waits no more.
  void gone(const Peer& connection);
  // Datasets with an index in the making.
  std::vector<std::string> opening() const;

 private:
  // The most pipelines, and the most folders, that one user's jobs have brought and that are not
  // let go.
  static constexpr std::size_t kBroughtMost = 256;
  // How many of the folders that jobs have named are opened at once: of all users, and of one.
  static constexpr std::size_t kOpeningMost = 16;
  static constexpr std::size_t kOpeningOfUser = 4;
  struct Waiting {
    std::weak_ptr<Peer> connection;
    protocol::JoinRequest request;
    std::vector<protocol::Descriptor> descriptors;
  };
  struct Opening {
    std::uint64_t number = 0;
    std::filesystem::path path;
    Requester by;
    std::vector<Waiting> waiting;
  };
  void open(const NodeDataset& dataset, Requester by);
  void open_brought(const NodeDataset& wanted,
                    const std::shared_ptr<const sources::DataRoot>& shown, Peer& connection);
  // The refusal if that may not be opened now; else empty.
  std::pair<std::string_view, std::string> opening_problem(const NodeDataset& wanted,
                                                           const Peer& connection);
  void begin_opening(std::uint64_t number, const NodeDataset& dataset, const Requester& by,
                     std::function<void(Opened)> then);
  void await(std::uint64_t number, const NodeDataset& dataset, const Requester& by);
  void opened(std::uint64_t number, const Opened& all);
  void opened(std::uint64_t number, const NodeDataset& asked, std::size_t part,
              const OpenedIndex& made, double took);
  ServedDataset* served_of(const NodeDataset& dataset, const OpenedIndex& made, const Requester& by,
                           double took);
  void remove(ServedDataset& dataset);
  bool is_idle(Instant& used, bool is_removed, bool is_used, Duration kept) const;
  void let_pipelines_go(Duration kept);
  void let_folders_go(Duration kept);
  void set_apart(Bytes bytes);
  ServedDataset& add(const NodeDataset& dataset, const OpenedIndex& made, const Requester& by,
                     double took);
  void set_apart_for_data(Bytes bytes);
  void wait(Peer& connection, const std::string& name, protocol::JoinRequest request,
            std::vector<protocol::Descriptor> descriptors);
  // Joins, if the user may read what is open by now.
  void enter(Peer& connection, const protocol::JoinRequest& request,
             const std::vector<protocol::Descriptor>& descriptors, ServedDataset& dataset);
  void join(Peer& connection, const protocol::JoinRequest& request, ServedDataset& dataset);
  // Null: it is being set up, see opener_.
  ServedPipeline* find_pipeline(const std::string& name, ServedDataset& dataset);
  ServedPipeline& add_pipeline(const std::string& name, DatasetId dataset,
                               std::unique_ptr<prepare::Pipeline> compiled, std::string text = {});
  using Made = std::function<void(std::unique_ptr<prepare::Pipeline>)>;
  void set_up(const std::string& name, ServedDataset& dataset, config::ConfigNode written,
              Made made);
  std::string names() const;
  // Null: its functions are being set up, under `name`.
  ServedPipeline* brought_pipeline(const std::string& text, ServedDataset& dataset,
                                   const Peer& connection, std::string& name);
  ServedPipeline& add_brought(uid_t user, const std::string& key, DatasetId dataset,
                              std::unique_ptr<prepare::Pipeline> made, std::string text = {});
  std::unique_ptr<prepare::Pipeline> compile(const config::ConfigNode& root,
                                             const ServedDataset& dataset) const;

  const NodeConfig& config_;
  Datasets& datasets_;
  Inbox& inbox_;
  Jobs& jobs_;
  JoiningHost host_;
  std::map<std::string, Opening> opening_;  // by the dataset's name
  // Datasets of which nothing could be opened, by the names of their parts. The next job that asks
  // for one has it tried again.
  std::map<std::string, NodeDataset, std::less<>> failed_;
  std::uint64_t next_ = 0;
  std::map<uid_t, std::map<std::string, ServedPipeline*>> brought_;       // by dataset and text
  std::map<uid_t, std::uint64_t> brought_samples_;                        // ever
  std::map<std::pair<std::string, std::uint32_t>, std::string> refused_;  // why, when last set up
  PipelineOpener opener_;
  Openers openers_;
};

}  // namespace batchflow::service
