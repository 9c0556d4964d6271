// A rank on an agent's node, at the coordinator. Jobs sees a peer like any other.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/service/cluster/node_link.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/jobs/peer.h"

namespace batchflow::service {

class NodeRank final : public Peer, public AgentEnd {
 public:
  NodeRank(NodeId node, std::uint32_t rank, std::shared_ptr<NodeLink> link, std::string from)
      : node_(node), rank_(rank), link_(std::move(link)), from_(std::move(from)) {}

  void set_user(uid_t user) { user_ = user; }
  void add_shown(const std::vector<DatasetId>& shown) {
    for (const DatasetId one : shown) shown_.insert(one.value);
  }

  void send(std::string frame, std::vector<int> /*descriptors*/) override {
    RankMessage message;
    message.rank = rank_;
    message.frame = std::move(frame);
    message.rings_of = std::exchange(admitted_to_, std::nullopt);
    link_->write(encode(message));
  }
  void end() override {
    RankMessage message;
    message.rank = rank_;
    link_->write(encode(message));
  }
  bool has_unsent() const override { return false; }
  uid_t user() const override { return user_; }
  pid_t process() const override { return getpid(); }  // which speaks for it
  const std::string& from() const override { return from_; }
  AgentEnd* agent() override { return this; }

  NodeId node() const override { return node_; }
  void admit(JobId job) override { admitted_to_ = job; }
  void write(std::span<const std::byte> record) override {
    link_->write(remote::RemoteKind::record, rank_record({rank_, RankWord::record, 0, 0}, record));
  }
  void ask_held(JobId job, std::uint64_t steps) override {
    link_->write(remote::RemoteKind::record, rank_record({job.value, RankWord::held, steps, 0}));
  }
  void raise(JobId job, std::uint64_t steps) override {
    link_->write(remote::RemoteKind::record, rank_record({job.value, RankWord::raise, steps, 0}));
  }
  void free(ShareId share, SlotId slot) override {
    link_->write(remote::RemoteKind::record,
                 rank_record({rank_, RankWord::free, share.value, slot.value}));
  }
  bool may_read(DatasetId dataset) const override { return shown_.contains(dataset.value); }

 private:
  const NodeId node_;
  const std::uint32_t rank_;
  const std::shared_ptr<NodeLink> link_;
  const std::string from_;
  uid_t user_ = static_cast<uid_t>(-1);
  std::set<std::uint32_t> shown_;
  std::optional<JobId> admitted_to_;
};

}  // namespace batchflow::service
