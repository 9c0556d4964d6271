// From a request to join to a job: the data set it names is found or opened, its user has shown
// that he may read it, and the pipeline is compiled.
//
// Lives on the service's thread; indices are built on threads of their own.
// What is about pipelines stands in joining_pipelines.cpp.
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
#include "runtime/service/dataset_splits.h"
#include "runtime/service/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs.h"
#include "runtime/service/node_config.h"
#include "runtime/service/pipeline_opener.h"
#include "runtime/service/service_log.h"

namespace batchflow {

// What it needs of the service around it.
struct JoiningHost {
  Say say;
  // Runs a function on the service's thread, and has the engine stepped after it.
  std::function<void(std::function<void()>)> post;
  std::function<Instant()> now;
  // Sets so much memory apart for each worker's processes of steps. Throws ConfigError.
  std::function<void(Bytes)> set_apart;
  // The same in turn, of steps that are given up.
  std::function<void(Bytes)> give_back;
  // Now, without a job of anybody's.
  std::function<bool(DatasetId)> reads;
  std::function<bool(PipelineId)> uses;
};

class Joining {
 public:
  Joining(const NodeConfig& config, Datasets& datasets, Inbox& inbox, Jobs& jobs, JoiningHost host);
  ~Joining();  // waits for what is being opened

  // Builds or finds the index beside everything else; who asks for the dataset meanwhile waits.
  // `by`: whose job has brought it, where one has.
  void open(const NodeDataset& dataset, uid_t by = 0);
  // Answers now, or when the dataset is open.
  void join(Connection& session, JoinRequest request, std::vector<Descriptor> descriptors);
  // Nobody may join it or its splits any more. Jobs that read it go on.
  void remove(const NodeDataset& dataset);
  void keep(ServedDataset& dataset, Keep keep);
  // The pipeline of that name, compiled for the dataset; empty: the one jobs get that name none.
  // Throws ConfigError, also while steps of it that are plugins are being set up.
  ServedPipeline& pipeline_for(std::string name, ServedDataset& dataset, Order order);
  // Of what jobs have brought, that which none has used for long: call now and then.
  void let_go();
  // It waits no more.
  void gone(const Connection& session);
  // Datasets whose index is being made.
  std::vector<std::string> opening() const;

 private:
  // Pipelines that one user's jobs have brought, and folders, that are not let go yet.
  static constexpr std::size_t kBroughtMost = 256;
  struct Waiting {
    std::weak_ptr<Connection> session;
    JoinRequest request;
    std::vector<Descriptor> descriptors;
  };
  struct Opening {
    std::uint64_t number = 0;
    std::filesystem::path path;
    uid_t by = 0;
    std::vector<Waiting> waiting;
  };
  void opened(std::uint64_t number, const NodeDataset& dataset, const std::vector<OpenedIndex>& all,
              double took);
  void opened(std::uint64_t number, const NodeDataset& dataset, const OpenedIndex& made,
              double took);
  void remove(ServedDataset& dataset);
  bool is_idle(Instant& used, bool is_removed, bool is_used, Duration kept) const;
  void let_pipelines_go(Duration kept);
  void let_folders_go(Duration kept);
  void set_apart(Bytes bytes);
  ServedDataset& add(const NodeDataset& dataset, std::shared_ptr<SampleIndex> index,
                     Catalogue&& catalogue, uid_t by, double took);
  void wait(Connection& session, const std::string& name, JoinRequest request,
            std::vector<Descriptor> descriptors);
  // If its user may read what is open by now.
  void enter(Connection& session, const JoinRequest& request,
             const std::vector<Descriptor>& descriptors, ServedDataset& dataset);
  void join(Connection& session, const JoinRequest& request, ServedDataset& dataset);
  // Null: it is being set up, see opener_.
  ServedPipeline* find_pipeline(const std::string& name, ServedDataset& dataset);
  ServedPipeline& add_pipeline(const std::string& name, DatasetId dataset,
                               std::unique_ptr<Pipeline> compiled);
  using Made = std::function<void(std::unique_ptr<Pipeline>)>;
  void set_up(const std::string& name, ServedDataset& dataset, ConfigNode written, Made made);
  std::string names() const;
  // Null: functions of it are being set up, as `name`.
  ServedPipeline* brought_pipeline(const std::string& text, ServedDataset& dataset,
                                   const Connection& session, std::string& name);
  ServedPipeline& add_brought(DatasetId dataset, std::unique_ptr<Pipeline> made);
  static std::unique_ptr<Pipeline> compile(const ConfigNode& root, const ServedDataset& dataset);

  const NodeConfig& config_;
  Datasets& datasets_;
  Inbox& inbox_;
  Jobs& jobs_;
  JoiningHost host_;
  std::map<std::string, Opening> opening_;        // by the dataset's name
  std::map<std::uint64_t, std::thread> openers_;  // by number
  // Of which nothing could be opened, by the names of their parts: who asks next has it tried
  // again.
  std::map<std::string, NodeDataset, std::less<>> failed_;
  std::uint64_t next_ = 0;
  std::map<uid_t, std::map<std::string, ServedPipeline*>> brought_;  // by dataset and text
  std::map<uid_t, std::uint64_t> brought_samples_;                   // ever
  std::atomic<bool> stopping_{false};
  std::map<std::pair<std::string, std::uint32_t>, std::string> refused_;  // why, when last set up
  PipelineOpener opener_;
};

}  // namespace batchflow
