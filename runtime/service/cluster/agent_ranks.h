// The ranks of jobs on an agent's node: their connections and rings, and the slabs that they map.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/messages.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/cluster/node_link.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/connection.h"
#include "runtime/service/datasets/datasets.h"

namespace batchflow::service {

// Backend tells it of slabs that are gone; commands about jobs never come to an agent's backend.
class AgentRanks final : public JobCommands {
 public:
  AgentRanks(Datasets& datasets, NodeLink& link) : datasets_(datasets), link_(link) {}
  void set_backend(Backend& backend) { backend_ = &backend; }

  // A frame of a local rank, but for its greeting.
  void pass_on(Connection& connection, std::string_view frame,
               const std::vector<protocol::Descriptor>& descriptors);
  // Reads what the rank has written into its ring. False: it has written nonsense.
  bool read_ring(Connection& connection);
  bool sleep(Connection& connection);
  void gone(Connection& connection);
  // What the coordinator says to, and of, ranks. False: it makes no sense.
  void take(const RankMessage& message);
  bool take(std::span<const std::byte> record);
  // Whether something had no room in a rank's ring.
  bool has_rest() const { return has_rest_; }
  // Writes of that what has room now.
  void write_rest();
  std::uint64_t delivered_samples() const { return delivered_samples_; }

  void admitted(const engine::Admit&) override {}
  void refused(const engine::Refuse&) override {}
  bool deliver(const engine::Deliver&, const Slot*, std::uint32_t) override { return false; }
  void epoch_ended(const engine::EpochEnded&) override {}
  void mixture_set(const engine::MixtureSet&) override {}
  void exemplars_set(const engine::ExemplarsSet&) override {}
  void source_paced(const engine::SourcePaced&) override {}
  void slab_gone(std::uint64_t slab) override;

 private:
  struct LocalRank {
    std::uint32_t number = 0;
    JobId job = JobId::none();
    Connection* connection = nullptr;
    std::shared_ptr<protocol::Pace> pace;
    MemoryCharge charge;
    protocol::RingFiles files;
    std::unique_ptr<protocol::RingWriter> to_job;
    std::unique_ptr<protocol::RingReader> from_job;
    std::deque<std::vector<std::byte>> unwritten;
    std::map<std::uint64_t, std::shared_ptr<const SlabCharge>> slabs, slabs_gone;
  };

  LocalRank* find(std::uint32_t number) const;
  std::string make_rings(LocalRank& rank, JobId job, Bytes bytes);
  bool take_record(LocalRank& rank, std::span<const std::byte> record);
  bool take_batch(LocalRank& rank, std::vector<std::byte>& record);
  void write(LocalRank& rank);
  void answer_held();

  Datasets& datasets_;
  NodeLink& link_;
  Backend* backend_ = nullptr;
  std::uint32_t next_ = 0;
  std::uint64_t delivered_samples_ = 0;
  bool has_rest_ = false;  // a ring had no room for something
  std::map<const Connection*, std::unique_ptr<LocalRank>> ranks_;
  std::map<std::uint32_t, LocalRank*> by_number_;
  std::map<std::uint32_t, std::weak_ptr<protocol::Pace>> paces_;  // by job
  std::map<std::uint32_t, std::uint64_t> asked_held_;             // steps, by job
  protocol::JobMessage message_;                                  // being read
};

}  // namespace batchflow::service
