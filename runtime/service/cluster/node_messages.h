// The messages between an agent and its coordinator, beside commands, events and records.
//
// A text frame is a JSON object with a `type`. A payload frame is a list of commands to the agent,
// or of events from it (core/log/event_codec.h). A record frame begins with the number of a rank
// and says what the rank's ring has brought, or is to bring. All of one direction come in order.
//
//   agent        agent {AgentGreeting}                   once a token was shown
//   coordinator  welcome {node, cluster, term, version, page} | refused {why, message}
//   coordinator  limits {of_all, of_some}               of users, now and when they change
//   coordinator  peer {node, address}                   empty: it is gone
//   coordinator  dataset {DatasetMessage}               the agent opens the same, under this id
//   agent        opened {dataset, problem}              empty: it is the same
//   coordinator  pipeline {PipelineMessage}
//   agent        set_up {pipeline, problem}              if it has steps of users, or cannot be
//                                                        compiled; empty: it is set up
//   coordinator  pipeline_gone {pipeline}                no job uses it any more
//   agent        rank {RankMessage}                      a frame of a local rank, or its end
//   coordinator  rank {RankMessage}
//   agent        counters {NodeCounters}                 every second
//   agent        unreachable {node, problem}             it cannot reach that node's backend
//   agent        leaving {}                              it hands over what it keeps, to end then
//   coordinator  let_go {}                               it may end
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/cluster/node_counters.h"
#include "runtime/service/cluster/terms.h"
#include "runtime/service/control/node_config.h"
#include "runtime/service/service_version.h"

namespace batchflow::service {

// A note about another node with this version. Empty: it is that of this program.
std::string other_version_note(const std::string& version);

struct AgentGreeting {
  std::uint32_t protocol = kNodeProtocol;
  std::string version;
  std::string name;
  std::string state;        // names the agent's state folder, which one process at a time has
  std::uint32_t cores = 0;  // that may prepare
  Bytes memory = 0;         // that the engine may divide
  std::string address;      // where its peers reach it: tcp://HOST:PORT; an empty host is the one
                            // that the coordinator sees
  TermName term;            // the newest that it knows
};

struct DatasetMessage {
  DatasetId id;
  NodeDataset asked;
  std::size_t part = 0;
  std::string name;
  Digest version = 0;  // 0: it was let go, and only its id is taken
  Digest listing = 0;
  // Of a feed, its settings (feeds::to_json): the coordinator has its log, and the agent opens
  // nothing. Empty: it is none.
  std::string feed;
};

struct PipelineMessage {
  PipelineId id;
  DatasetId dataset;
  std::string name;
  std::string text;  // empty: it was let go, and only its id is taken
  std::string file;  // where the text stands, if a file holds it
  Digest hash = 0;
  // A job of this user has brought functions with it, which run as this user alone.
  std::optional<std::uint64_t> user;
};

struct RankMessage {
  std::uint32_t rank = 0;  // counts the connections of the agent
  std::string frame;       // empty: the connection ends
  // From the agent, with the rank's first frame: the user that its socket has shown, and the
  // datasets that it has shown the right to read.
  std::optional<std::uint64_t> user;
  std::vector<DatasetId> shown;
  // From the coordinator, with the frame that admits: the rank gets rings.
  std::optional<JobId> rings_of;
};

std::string encode(const AgentGreeting& message);
std::string encode(const DatasetMessage& message);
std::string encode(const PipelineMessage& message);
std::string encode(const RankMessage& message);
std::string encode(const NodeCounters& counters);
// `page`: of the coordinator, for people; empty: it has none.
std::string encode_welcome(NodeId node, const TermName& term, const std::string& page);
std::string encode(const Quotas& quotas);
std::string encode_peer(NodeId node, const std::string& address);  // empty: it is gone
std::string encode_unreachable(NodeId node, const std::string& problem);
std::string encode_leaving();
std::string encode_let_go();
std::string encode_opened(DatasetId dataset, const std::string& problem);
std::string encode_set_up(PipelineId pipeline, const std::string& problem);
std::string encode_pipeline_gone(PipelineId pipeline);

// A message that was read. Its fields are checked where they are taken: each throws MessageError
// for what is not there, or is something else.
struct MessageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
class NodeMessage {
 public:
  explicit NodeMessage(std::string_view text);
  ~NodeMessage();
  const std::string& type() const { return type_; }
  AgentGreeting greeting() const;
  DatasetMessage dataset() const;
  PipelineMessage pipeline() const;
  PipelineId pipeline_id() const;
  RankMessage rank() const;
  NodeCounters counters() const;
  Quotas quotas() const;  // only those for a node's own sockets
  NodeId node() const;
  TermName term() const;
  std::string version() const;  // empty: it does not say
  std::string page() const;     // likewise
  std::string text(const char* key) const;
  std::uint64_t number(const char* key) const;

 private:
  struct Fields;
  std::unique_ptr<Fields> fields_;
  std::string type_;
};

// Where other nodes reach a node that listens so, at this host and port. If it listens at all of
// its machine's addresses, no host is named.
std::string node_address(const remote::RemoteOptions& tcp, const std::string& host, int port);
// The address, with this host where it names none: tcp://:9838.
std::string with_host(const std::string& address, const std::string& host);

// What a record frame says of a rank.
enum class RankWord : std::uint32_t {
  record = 1,  // both ways: a record of a ring
  raise = 2,   // to the agent: the pace of the job `rank`, to `a` steps
  free = 3,    // to the agent: the slot `b` of the share `a` is free
  held = 4,    // to the agent: it is to answer the same when its ranks of the job `rank` have all
               // that was written, which are the steps below `a`
};
struct RankRecordHead {
  std::uint32_t rank = 0;
  RankWord word = RankWord::record;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};
std::vector<std::byte> rank_record(const RankRecordHead& head,
                                   std::span<const std::byte> record = {});
// Nothing: `bytes` are no record frame. What follows the head is the record.
std::optional<RankRecordHead> rank_record_head(std::span<const std::byte> bytes);

}  // namespace batchflow::service
