// The feeds of the service: each has a log, a socket for producers, and a dataset that grows.
//
// The engine says how they go on. This only brings what is durable to the engine, and what the
// engine says to the feed. It lives on the service's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/engine/event.h"
#include "runtime/feeds/feed_server.h"
#include "runtime/feeds/kafka_source.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/post.h"

namespace batchflow::service {

class Feeds {
 public:
  explicit Feeds(Inbox& inbox) : inbox_(inbox) {}

  // Begins to take records, if the dataset is a feed. Throws feeds::FeedError.
  void added(const ServedDataset& dataset, const Post& post, const Say& say);
  void paced(const engine::SourcePaced& command);
  // All end: nothing is taken any more.
  void end() { servers_.clear(); }

  // The record that comes next in the feed, for a job that begins with it; 0: it is no feed. The
  // engine then knows of those before it, too.
  std::uint64_t next_record(DatasetId dataset);
  // Why no job can begin with that record, or by its state go on with it; empty: it can, and the
  // engine knows of the records before it.
  std::string begin_problem(DatasetId dataset, std::uint64_t record, bool goes_on);
  // From how many of its last records a job may fill steps, at least 1.
  std::uint64_t window_most(DatasetId dataset) const;
  // Why a job cannot rehearse from that reservoir; empty: it can.
  std::string exemplars_problem(DatasetId dataset, const order::ReservoirName& reservoir) const;
  // Why a job cannot have a step that waits for so many records; empty: it can. If half of the log
  // has no room for them, the last ones wait for room, and the step waits for them. Records of any
  // bytes may be small, so there a step is refused only if the whole log never has room for it.
  std::string step_problem(DatasetId dataset, std::uint64_t records) const;
  // Whether the record is there, or the dataset is no feed. The engine then knows it, too.
  bool has(DatasetId dataset, std::uint64_t record);
  bool has_producers() const;
  // Empty: there is no feed of that name. Any thread may call it.
  std::string folder_of(const std::string& name) const;
  // None: it is no feed.
  std::optional<feeds::FeedStatus> status(DatasetId dataset) const;

 private:
  struct Served {
    std::shared_ptr<feeds::FeedLog> log;
    std::unique_ptr<feeds::FeedServer> server;
    std::uint64_t reported = 0;                 // records
    std::string kafka_problem;                  // what holds its topic up; empty: nothing
    std::unique_ptr<feeds::KafkaSource> kafka;  // null: it has no topic
  };
  void report(DatasetId dataset);
  void kafka_changed(DatasetId dataset, const std::string& problem, const Say& say);

  Inbox& inbox_;
  std::map<std::uint32_t, Served> servers_;  // by dataset
  mutable std::mutex folders_mutex_;
  std::map<std::string, std::string> folders_;  // by name; under its mutex
};

}  // namespace batchflow::service
