#include "runtime/client/link.h"

#include <utility>

#include "runtime/client/held_batches.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow {

namespace {
constexpr auto kManyASecond = std::chrono::milliseconds(2);
}

Link::Link(Channel channel, Rings rings, Descriptor doorbell, std::unique_ptr<Companion> proxy)
    : proxy_(std::move(proxy)),
      channel_(std::move(channel)),
      rings_(std::move(rings)),
      doorbell_(std::move(doorbell)),
      up_(rings_.up()),
      generation_(process_generation()) {}

Link::~Link() {
  if (proxy_ && generation_ != process_generation()) proxy_->abandon();
}

// The ring has room for all that credits allow (checked when the job is admitted). A service that
// leaves no room does not read, or not what it should.
void Link::say(std::span<const UpRecord> records) {
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  if (write(records)) publish();
}

bool Link::write(std::span<const UpRecord> records) {
  for (const UpRecord& record : records) {
    if (BF_FAILPOINT("client.ring.full") || !up_.write(bytes_of(record))) {
      lose();
      return false;
    }
  }
  return true;
}

void Link::publish() {
  deferred_ = false;
  published_at_ = Clock::now();
  if (up_.publish()) ring_doorbell(doorbell_);
}

// Of a job that takes many batches a second every second release goes with the next: each waking of
// the service costs it as much as the batch.
void Link::publish_release() {
  if (!deferred_ && Clock::now() - published_at_ < kManyASecond) {
    deferred_ = true;
  } else {
    publish();
  }
}

void Link::want(std::uint32_t credits) {
  const UpRecord records[] = {{UpKind::wanted, credits, 0, 0, 0}};
  say(records);
}

void Link::consumed(std::uint64_t step, std::uint64_t compute_ns, std::uint64_t wait_ns) {
  const UpRecord records[] = {{UpKind::consumed, 0, step, compute_ns, wait_ns}};
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  write(records);
}

void Link::tell() {
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  publish();
}

void Link::released_copied(std::uint64_t step) {
  const UpRecord records[] = {{UpKind::released, 0, step, 0, 0}, {UpKind::wanted, 1, 0, 0, 0}};
  if (is_lost()) return;
  const std::lock_guard lock(mutex_);
  if (write(records)) publish_release();
}

void Link::released_in_place(std::uint64_t step) {
  in_place_.fetch_sub(1);
  released_copied(step);
}

void Link::unmapped(std::uint64_t slab) {
  const UpRecord records[] = {{UpKind::unmapped, 0, slab, 0, 0}};
  say(records);
}

bool Link::report(std::span<const Score> scores) {
  const std::lock_guard lock(mutex_);
  if (is_lost()) return true;  // scores are hints; nobody is there to have them
  write_scores(scores, scratch_);
  // What is said of batches must always find room.
  if (!up_.has_room_for(rings_.up().records.size() / 2)) return up_.broken();
  up_.write(scratch_);
  publish();
  return true;
}

}  // namespace batchflow
