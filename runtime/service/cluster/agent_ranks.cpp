#include "runtime/service/cluster/agent_ranks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/engine/engine_config.h"
#include "fmt/format.h"
#include "runtime/service/datasets/reading_rights.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {
namespace {

constexpr std::size_t kRecordsPerRead = 64;

}  // namespace

AgentRanks::LocalRank* AgentRanks::find(std::uint32_t number) const {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

// ----------------------------------------------------------------------------- from the rank ----

void AgentRanks::pass_on(Connection& connection, std::string_view frame,
                         const std::vector<protocol::Descriptor>& descriptors) {
  std::unique_ptr<LocalRank>& rank = ranks_[&connection];
  RankMessage message;
  if (!rank) {
    rank = std::make_unique<LocalRank>();
    rank->number = next_++;
    rank->connection = &connection;
    by_number_[rank->number] = rank.get();
    message.user = connection.user();
  }
  message.rank = rank->number;
  message.frame = frame;
  for (const auto& dataset : datasets_.all()) {
    if (!dataset->opened) continue;
    const bool shown = std::any_of(descriptors.begin(), descriptors.end(), [&](const auto& one) {
      return shows(one) && sources::is_same_file(one.get(), dataset->opened->shown());
    });
    if (shown) message.shown.push_back(dataset->id);
  }
  link_.write(encode(message));
}

bool AgentRanks::read_ring(Connection& connection) {
  const auto found = ranks_.find(&connection);
  if (found == ranks_.end() || !found->second->from_job) return true;
  LocalRank& rank = *found->second;
  rank.from_job->awake();
  const bool well = rank.from_job->read(kRecordsPerRead, [&](std::span<const std::byte> record) {
    return take_record(rank, record);
  });
  rank.from_job->free_read();
  write(rank);
  return well;
}

bool AgentRanks::take_record(LocalRank& rank, std::span<const std::byte> record) {
  std::string problem;
  if (!protocol::read_job_record(record, message_, problem)) return false;
  if (message_.record.kind == protocol::JobRecordKind::unmapped) {
    const std::uint64_t slab = message_.record.step;
    if (rank.slabs_gone.erase(slab) + rank.slabs.erase(slab) == 0) return false;
    backend_->retry_waiting();
    return true;
  }
  link_.write(remote::RemoteKind::record,
              rank_record({rank.number, RankWord::record, 0, 0}, record));
  return true;
}

bool AgentRanks::sleep(Connection& connection) {
  const auto found = ranks_.find(&connection);
  return found == ranks_.end() || !found->second->from_job ||
         found->second->from_job->fall_asleep();
}

void AgentRanks::gone(Connection& connection) {
  const auto found = ranks_.extract(&connection);
  if (!found) return;
  LocalRank& rank = *found.mapped();
  if (rank.files) rank.files.rings.revoked().store(1);
  by_number_.erase(rank.number);
  RankMessage message;
  message.rank = rank.number;
  link_.write(encode(message));
}

// ------------------------------------------------------------------------------- to the rank ----

// Answers why there are none; empty: the rank has them.
std::string AgentRanks::make_rings(LocalRank& rank, JobId job, Bytes bytes) {
  std::string problem;
  rank.job = job;
  rank.pace = paces_[job.value].lock();
  if (!rank.pace) {
    protocol::Pace made = protocol::Pace::make(problem);
    if (!made) return fmt::format("no memory for its pace: {}", problem);
    rank.pace = std::make_shared<protocol::Pace>(std::move(made));
    paces_[job.value] = rank.pace;
    std::erase_if(paces_, [](const auto& one) { return one.second.expired(); });
  }
  rank.charge = MemoryCharge(backend_->budget(), 2 * bytes);
  if (!rank.charge) return "no memory for its rings: the node's memory is used up (--memory)";
  rank.files = protocol::make_rings(bytes, problem);
  if (!rank.files) return fmt::format("no memory for its rings: {}", problem);
  rank.to_job = std::make_unique<protocol::RingWriter>(rank.files.rings.to_job());
  rank.from_job = std::make_unique<protocol::RingReader>(rank.files.rings.from_job());
  return {};
}

void AgentRanks::take(const RankMessage& message) {
  LocalRank* const rank = find(message.rank);
  if (!rank) return;  // it has ended meanwhile
  Connection& connection = *rank->connection;
  if (message.frame.empty()) return connection.end();
  if (!message.rings_of) return connection.send(message.frame, {});
  std::string problem;
  const auto answer = protocol::decode_join_answer(message.frame, problem);
  if (!answer) throw MessageError(problem);
  problem = make_rings(*rank, *message.rings_of, answer->ring_bytes);
  if (!problem.empty()) return refuse(connection, kNotYet, problem);
  const protocol::RingFiles& files = rank->files;
  connection.send(message.frame, {files.service_file.get(), files.job_file.get(),
                                  files.doorbell.get(), rank->pace->file().get()});
  connection.watch(files.doorbell);
}

bool AgentRanks::take(std::span<const std::byte> bytes) {
  const std::optional<RankRecordHead> head = rank_record_head(bytes);
  if (!head) return false;
  if (head->word == RankWord::raise) {
    const auto found = paces_.find(head->rank);
    const auto pace = found == paces_.end() ? nullptr : found->second.lock();
    if (pace) pace->raise(head->a);
    return true;
  }
  if (head->word == RankWord::held) {
    asked_held_[head->rank] = head->a;
    answer_held();
    return true;
  }
  if (head->word == RankWord::free) {
    backend_->released(ShareId(static_cast<std::uint32_t>(head->a)),
                       SlotId(static_cast<std::uint32_t>(head->b)));
    return true;
  }
  LocalRank* const rank = find(head->rank);
  if (!rank || !rank->to_job) return true;  // it has ended meanwhile
  const auto record = bytes.subspan(sizeof *head);
  if (record.size() < sizeof(protocol::ServiceRecordKind) || record.size() > protocol::kRecordMost)
    return false;
  std::vector<std::byte> own(record.begin(), record.end());
  protocol::ServiceRecordKind kind{};
  std::memcpy(&kind, own.data(), sizeof kind);
  if (kind == protocol::ServiceRecordKind::batch && !take_batch(*rank, own)) {
    // It goes on from its last batch when it comes back.
    refuse(*rank->connection, kNotYet, "its batch is lost; it is made again");
    return true;
  }
  // Credits bound all others. A program that reads its answers has fewer of these.
  if (kind == protocol::ServiceRecordKind::absent &&
      rank->unwritten.size() >= 2 * engine::kCreditsMost) {
    rank->connection->end();
    return true;
  }
  rank->unwritten.push_back(std::move(own));
  write(*rank);
  return true;
}

// The coordinator names share and slot. False: there is no such batch.
bool AgentRanks::take_batch(LocalRank& rank, std::vector<std::byte>& record) {
  protocol::BatchRecord batch;
  if (record.size() < sizeof batch) return false;
  std::memcpy(&batch, record.data(), sizeof batch);
  const ShareId share(static_cast<std::uint32_t>(batch.slab));
  const Slot* const slot =
      backend_->slots().find(share, SlotId(static_cast<std::uint32_t>(batch.offset)));
  const BlockSlots::Use* const use = backend_->slots().use_of(share);
  if (!slot || !use) return false;
  batch.slab = slot->slab->id();
  batch.offset = slot->offset;
  batch.slot_samples = use->samples;
  std::memcpy(record.data(), &batch, sizeof batch);
  delivered_samples_ += batch.samples;
  if (rank.slabs.emplace(batch.slab, slot->slab->charge()).second)
    rank.connection->send(protocol::encode(protocol::SlabMessage{batch.slab, slot->slab->bytes()}),
                          {slot->slab->descriptor()});
  return true;
}

// A record follows the slabs that it names.
void AgentRanks::write(LocalRank& rank) {
  bool wrote = false;
  while (!rank.unwritten.empty() && !rank.connection->has_unsent() &&
         rank.to_job->write(rank.unwritten.front())) {
    rank.unwritten.pop_front();
    wrote = true;
  }
  if (wrote && rank.to_job->publish()) rank.to_job->wake();
  has_rest_ = has_rest_ || !rank.unwritten.empty();
  if (wrote && !asked_held_.empty()) answer_held();
}

void AgentRanks::answer_held() {
  std::erase_if(asked_held_, [this](const auto& asked) {
    const bool all = std::all_of(by_number_.begin(), by_number_.end(), [&](const auto& one) {
      return one.second->job.value != asked.first || one.second->unwritten.empty();
    });
    if (all)
      link_.write(remote::RemoteKind::record,
                  rank_record({asked.first, RankWord::held, asked.second, 0}));
    return all;
  });
}

void AgentRanks::write_rest() {
  has_rest_ = false;
  for (const auto& [connection, rank] : ranks_) write(*rank);
}

void AgentRanks::slab_gone(std::uint64_t slab) {
  for (const auto& [connection, rank] : ranks_) {
    auto handed = rank->slabs.extract(slab);
    if (!handed) continue;
    rank->slabs_gone.insert(std::move(handed));
    rank->connection->send(protocol::encode(protocol::SlabMessage{slab, 0}), {});
  }
}

}  // namespace batchflow::service
