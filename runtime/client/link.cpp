#include "runtime/client/link.h"

#include <algorithm>
#include <utility>

#include "runtime/client/held_batches.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::client {

namespace {
constexpr auto kFrequent = std::chrono::milliseconds(2);  // between releases of a fast job
constexpr std::uint32_t kDeferredPart = 4;                // of a rank's credits
}  // namespace

Link::Link(protocol::Channel channel, protocol::Rings rings, protocol::Descriptor doorbell,
           std::unique_ptr<protocol::Companion> proxy)
    : proxy_(std::move(proxy)),
      channel_(std::move(channel)),
      rings_(std::move(rings)),
      doorbell_(std::move(doorbell)),
      writer_(rings_.from_job()),
      generation_(process_generation()) {}

Link::~Link() {
  if (proxy_ && generation_ != process_generation()) proxy_->abandon();
}

// The ring has room for all records that credits allow, which was checked when the job was
// admitted. Where there is no room, the service does not read, or writes wrong counts.
void Link::send(std::span<const protocol::JobRecord> records) {
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  if (write(records)) publish();
}

bool Link::write(std::span<const protocol::JobRecord> records) {
  for (const protocol::JobRecord& record : records) {
    if (BF_FAILPOINT("client.ring.full") || !writer_.write(protocol::bytes_of(record))) {
      lose();
      return false;
    }
  }
  return true;
}

void Link::publish() {
  deferred_ = 0;
  published_at_ = Clock::now();
  if (writer_.publish()) protocol::ring_doorbell(doorbell_);
}

// A job that takes many batches a second sends several releases at a time: to wake the service
// costs as much as the batch. The service has enough to do with the other credits meanwhile.
void Link::publish_release() {
  if (deferred_ < deferred_most_ && Clock::now() - published_at_ < kFrequent) {
    ++deferred_;
  } else {
    publish();
  }
}

void Link::request_batches(std::uint32_t credits) {
  const protocol::JobRecord records[] = {{protocol::JobRecordKind::wanted, credits, 0, 0, 0}};
  {
    const std::lock_guard lock(mutex_);
    deferred_most_ = std::max(1u, credits / kDeferredPart);
  }
  send(records);
}

void Link::consumed(std::uint64_t step, std::uint64_t compute_ns, std::uint64_t wait_ns) {
  const protocol::JobRecord records[] = {
      {protocol::JobRecordKind::consumed, 0, step, compute_ns, wait_ns}};
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  write(records);
}

void Link::send_pending() {
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  publish();
}

void Link::released_copied(std::uint64_t step) {
  const protocol::JobRecord records[] = {{protocol::JobRecordKind::released, 0, step, 0, 0},
                                         {protocol::JobRecordKind::wanted, 1, 0, 0, 0}};
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  if (write(records)) publish_release();
}

void Link::released_in_place(std::uint64_t step) {
  in_place_.fetch_sub(1);
  released_copied(step);
}

void Link::unmapped(std::uint64_t slab) {
  const protocol::JobRecord records[] = {{protocol::JobRecordKind::unmapped, 0, slab, 0, 0}};
  send(records);
}

void Link::ideal(std::uint64_t steps, std::uint64_t compute_ns) {
  const protocol::JobRecord records[] = {{protocol::JobRecordKind::ideal, 0, steps, compute_ns, 0}};
  send(records);
}

bool Link::report(std::span<const engine::Score> scores) {
  const std::lock_guard lock(mutex_);
  protocol::write_scores(scores, scratch_);
  return send_report();
}

bool Link::report(std::span<const SampleId> exemplars, std::uint32_t first, bool more) {
  const std::lock_guard lock(mutex_);
  protocol::write_exemplars(exemplars, first, more, scratch_);
  return send_report();
}

bool Link::report(const order::MixtureChange& change) {
  const std::lock_guard lock(mutex_);
  protocol::write_mixture(protocol::JobRecordKind::mixture, change, scratch_);
  return send_report();
}

bool Link::report(const protocol::Described& described) {
  const std::lock_guard lock(mutex_);
  protocol::write_described(described, scratch_);
  return send_report();
}

bool Link::report_losses(std::span<const float> losses) {
  const std::lock_guard lock(mutex_);
  protocol::write_losses(losses, scratch_);
  return send_report();
}

bool Link::ask(std::span<const SampleId> keys) {
  const std::lock_guard lock(mutex_);
  protocol::write_keys(keys, scratch_);
  return send_report();
}

bool Link::send_report() {
  if (is_lost()) return true;  // the loader keeps what it reports, for the next service
  // Half of the ring is kept for records of batches, which must always find room.
  if (!writer_.has_room_for(rings_.from_job().records.size() / 2)) return writer_.broken();
  writer_.write(scratch_);
  publish();
  return true;
}

}  // namespace batchflow::client
