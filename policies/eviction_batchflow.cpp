// BatchFlow's own: the item that all jobs need last leaves, and a newcomer that is needed later
// than all residents stays out.
//
// Orders are made from seeds, so what jobs request next is known (core/engine/future.h). For one
// job that reads a permutation an epoch this keeps what MinIO keeps. Where several orders read one
// dataset, each item is needed by the job that comes to it first.
//
// A sample that is kept decoded is kept as it is stored only where there is room for all. A run of
// adjacent samples (order rules, section 3) stays until it is read to its end. A sample that a job
// was expected to need and did not counts as needed by no job: the job left or began anew, or the
// sample has its home on another node since.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/eviction_minio.h"
#include "policies/eviction_next_use.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class BatchFlow final : public BeladyBypass {
 public:
  explicit BatchFlow(const engine::EvictionContext& context)
      : BeladyBypass(context), known_(context.items), runs_(context) {}

  void hit(const engine::Access& access) override {
    if (of_runs_) return runs_.hit(access);
    count_request(now(access));
    BeladyBypass::hit(timed(access));
  }
  engine::Admission missed(const engine::Access& access) override {
    if (!asked_) of_runs_ = access.run > 1;
    asked_ = true;
    if (of_runs_) return runs_.missed(access);
    count_request(now(access));
    forget_overdue(now(access));
    return BeladyBypass::missed(at_first(access));
  }
  ItemId victim(const engine::Access& newcomer) override {
    if (of_runs_) return runs_.victim(newcomer);
    return BeladyBypass::victim(at_first(newcomer));
  }
  void inserted(const engine::Access& access) override {
    asked_ = true;
    if (of_runs_) return runs_.inserted(access);
    known_[access.item.value].left = 0;
    BeladyBypass::inserted(timed(access));
  }
  void removed(ItemId item, engine::Removal why) override {
    if (of_runs_) return runs_.removed(item, why);
    BeladyBypass::removed(item, why);
  }
  void pinned(ItemId item) override {
    if (of_runs_) return runs_.pinned(item);
    BeladyBypass::pinned(item);
  }
  void unpinned(ItemId item) override {
    if (of_runs_) return runs_.unpinned(item);
    BeladyBypass::unpinned(item);
  }
  void resized(Slots capacity) override {
    runs_.resized(capacity);
    BeladyBypass::resized(capacity);
  }
  void grow(std::size_t items) override {
    runs_.grow(items);
    BeladyBypass::grow(items);
    known_.grow(items);
  }
  void prefetch(ItemId item) const override {
    BeladyBypass::prefetch(item);
    known_.prefetch(item.value);
  }

 private:
  // An exchange costs a copy: what comes in must be needed sooner, by one part in so many of the
  // time until it is needed.
  static constexpr std::uint64_t kMargin = 4;

  static std::uint64_t now(const engine::Access& access) {
    return static_cast<std::uint64_t>(access.at.time_since_epoch().count());
  }
  static std::uint32_t seconds_of(std::uint64_t nanoseconds) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(nanoseconds / 1'000'000'000, UINT32_MAX));
  }
  // A run is needed at once until all of its samples were requested.
  engine::Access timed(engine::Access access) {
    Known& known = known_[access.item.value];
    known.requested_s = seconds_of(now(access));
    known.overdue_from = overdue_from(access);
    if (access.kept_decoded) access.next_use = engine::kNeverUsed;
    if (access.run > 1) {
      known.left = (known.left == 0 ? access.run : known.left) - 1;
      if (known.left > 0) access.next_use = now(access);
    }
    return access;
  }
  static engine::Access at_first(engine::Access access) {
    if (access.run > 1) {
      access.next_use = now(access);
    } else if (access.kept_decoded) {
      access.next_use = engine::kNeverUsed;
    } else if (access.next_use < engine::kNeverUsed) {
      access.next_use += (access.next_use - std::min(now(access), access.next_use)) / kMargin;
    }
    return access;
  }
  // Looks at a few items in each miss, so that all are looked at again and again. An item may come
  // as much later than expected as it was expected to take. Where all jobs have become slower, it
  // may take longer, but no more requests.
  void forget_overdue(std::uint64_t now) {
    constexpr int kLookedAt = 4;
    const std::uint64_t now_s = seconds_of(now);
    const std::uint64_t this_second = now_s * 1'000'000'000;
    for (int i = 0; i < kLookedAt && heap_.size() > 0; ++i) {
      next_ = next_ + 1 < heap_.size() ? next_ + 1 : 0;
      const std::uint64_t key = heap_.key_at(next_);
      if (key >= this_second) continue;
      const std::uint64_t due_s = seconds_of(key);
      const ItemId item = heap_.item_at(next_);
      const Known& known = known_[item.value];
      if (lots_of(static_cast<double>(requests_)) <= known.overdue_from) continue;
      const std::uint64_t took_s = due_s - std::min<std::uint64_t>(due_s, known.requested_s);
      if (now_s > due_s + took_s) heap_.change(item, engine::kNeverUsed);
    }
  }

  // Requests are counted in lots, which keeps the counts of items small.
  static std::uint32_t lots_of(double requests) {
    constexpr double kLot = 256;
    return static_cast<std::uint32_t>(std::min(requests / kLot, 4e9));
  }
  // Twice as many requests must have come as come until the item is needed.
  std::uint32_t overdue_from(const engine::Access& access) const {
    const std::uint64_t wait = access.next_use - std::min(now(access), access.next_use);
    const double until_then = requests_per_ns_ * static_cast<double>(wait);
    return lots_of(static_cast<double>(requests_) + 2 * until_then) + 1;
  }
  void count_request(std::uint64_t now) {
    constexpr std::uint64_t kOfARate = 1024;
    constexpr double kSmoothing = 0.3;
    if (requests_ % kOfARate == 0) {
      const std::uint64_t passed = std::max<std::uint64_t>(now - std::min(now, rate_since_), 1);
      const double rate = requests_ == 0 ? 0 : kOfARate / static_cast<double>(passed);
      requests_per_ns_ += (requests_per_ns_ == 0 ? 1 : kSmoothing) * (rate - requests_per_ns_);
      rate_since_ = now;
    }
    ++requests_;
  }

  struct Known {
    std::uint32_t left = 0;          // requests to come of a run that is being read
    std::uint32_t requested_s = 0;   // the last time
    std::uint32_t overdue_from = 0;  // in lots of requests
  };
  ZeroArray<Known> known_;
  // A share that is first asked for a run is for runs, and does as minio does with them: when a run
  // is needed next says nothing of how long it has to stay.
  MinIo runs_;
  bool of_runs_ = false;
  bool asked_ = false;
  std::uint64_t requests_ = 0;
  double requests_per_ns_ = 0;  // of late
  std::uint64_t rate_since_ = 0;
  std::size_t next_ = 0;  // that is looked at, in the heap
};

}  // namespace

extern const engine::PolicyEntry eviction_batchflow;
constexpr engine::PolicyEntry eviction_batchflow{
    .name = "batchflow",
    .help =
        "What all jobs need last leaves, or stays out.\n"
        "Orders are made from seeds, so it is known what jobs need next. For one\n"
        "job it keeps what minio keeps; for several it keeps what the next of them\n"
        "comes to.",
    .make = &make_eviction<BatchFlow>,
    .next_uses = true,
    .whole_without_hits = true};

}  // namespace batchflow::policies
