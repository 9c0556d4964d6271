#include "sim/replay.h"

#include <algorithm>
#include <variant>

#include "core/base/check.h"
#include "core/engine/engine.h"
#include "core/engine/memory.h"
#include "core/engine/share.h"
#include "policies/plugin/failures.h"
#include "policies/registry.h"

namespace batchflow::sim {
namespace {

constexpr std::size_t kRequestsPerReport = std::size_t{1} << 16;

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// The loop itself, compiled once for each way of knowing a size.
template <class SizeOf>
void replay_range(engine::Share& share, const traces::AccessTrace& trace, std::size_t begin,
                  std::size_t end, SizeOf size_of, std::vector<ItemId>& evicted) {
  for (std::size_t i = begin; i < end; ++i) {
    evicted.clear();
    share.access({ItemId(trace.items[i]), size_of(i), trace.next_use(i)}, evicted);
  }
}

}  // namespace

double ReplayCounts::miss_ratio() const {
  return ratio(misses, requests);
}
double ReplayCounts::byte_miss_ratio() const {
  return ratio(bytes_missed, bytes_requested);
}
double ReplayCounts::fetch_ratio() const {
  return ratio(fetches, requests);
}

ReplayCounts replay_through_share(const traces::AccessTrace& trace,
                                  const engine::PolicyChoice& policy, Bytes capacity,
                                  const AccessReplayOptions& options) {
  BF_CHECK(options.nodes == 1);
  engine::Share share(
      trace.distinct_items(), capacity,
      policy.make_eviction(trace.distinct_items(), capacity, trace_policy_random(options.seed)));
  std::vector<ItemId> evicted;
  for (std::size_t begin = 0; begin < trace.requests();) {
    const std::size_t end = std::min(begin + kRequestsPerReport, trace.requests());
    if (trace.one_size != 0) {
      replay_range(
          share, trace, begin, end, [&](std::size_t) { return trace.one_size; }, evicted);
    } else {
      replay_range(
          share, trace, begin, end, [&](std::size_t i) { return trace.size_of(i); }, evicted);
    }
    plugin::check_failures();
    if (options.progress) options.progress(end - begin);
    begin = end;
  }
  const engine::ShareCounters& counted = share.counters();
  return {counted.hits + counted.misses,
          counted.misses,
          0,
          counted.slots_requested,
          counted.slots_missed,
          counted.evictions,
          counted.refused};
}

namespace {

constexpr DatasetId kDataset{1};
constexpr PipelineId kPipeline{1};
constexpr NodeId kNode{1};  // the first
constexpr JobId kJob{1};
constexpr Digest kVersion = 1;
constexpr std::size_t kRequestsPerEngineReport = std::size_t{1} << 12;

// The backend of a trace: one job that lists its samples one at a time, with a rank on each node;
// reads that take no time; and a count of the engine's commands. It looks at commands alone, never
// at the engine's counters.
class TraceBackend {
 public:
  TraceBackend(const traces::AccessTrace& trace, const engine::PolicyChoice& policy, Bytes capacity,
               const AccessReplayOptions& options)
      : trace_(trace),
        nodes_(options.nodes),
        engine_(config(policy, options.seed), policies::policy_list(), fill(trace)) {
    std::vector<NodeId> ranks;
    engine::JobJoined join;
    join.job = kJob;
    join.dataset = kDataset;
    join.pipeline = kPipeline;
    join.order = Order::listed;
    join.credits = 1;
    events_ = {engine::CatalogueKnown{kDataset, kVersion},
               engine::PipelineKnown{kPipeline, kVersion}};
    for (std::uint32_t i = 0; i < nodes_; ++i) {
      ranks.emplace_back(kNode.value + i);
      events_.push_back(engine::NodeJoined{ranks[i], 1});
      const Bytes part = capacity / nodes_ + (i < capacity % nodes_ ? 1 : 0);
      events_.push_back(engine::CapacityChanged{{ranks[i], Tier::dram, 0}, part});
    }
    join.ranks = ranks;
    events_.push_back(join);
    step();
  }

  void request(std::size_t index) {
    const SampleId sample[] = {SampleId(trace_.items[index])};
    const std::uint64_t next_use[] = {trace_.next_use(index)};
    const Bytes size[] = {trace_.size_of(index)};
    ++counts_.requests;
    counts_.bytes_requested += size[0];
    size_ = size[0];
    delivered_ = false;
    const Rank rank = static_cast<Rank>(index % nodes_);
    events_.push_back(engine::SamplesWanted{kJob, rank, sample, next_use, size});
    step();
    if (!delivered_) step();  // the read is done
    BF_CHECK_MSG(delivered_, "the engine did not deliver a sample that was read");
  }

  ReplayCounts counts() const {
    ReplayCounts counts = counts_;
    counts.refused = engine_.counters().refused_proposals;
    return counts;
  }

 private:
  static engine::EngineConfig config(const engine::PolicyChoice& policy, std::uint64_t seed) {
    engine::EngineConfig config;
    config.seed = seed;
    config.item_slot_bytes = 1;
    config.count_staging = false;  // the capacity is the cache's
    config.policies.allocation = "equal";
    config.policies.eviction[static_cast<std::size_t>(Form::encoded)] = policy.text();
    return config;
  }

  const engine::Catalogues& fill(const traces::AccessTrace& trace) {
    catalogues_.add(kDataset,
                    engine::Catalogue::uniform("trace", kVersion, trace.distinct_items(), 1));
    engine::PipelineInfo as_stored;
    as_stored.hash = kVersion;
    catalogues_.add(kPipeline, as_stored);
    return catalogues_;
  }

  void step() {
    now_ += Duration(1);
    orders_ = engine_.step(Instant(now_), events_);
    events_.clear();
    for (const engine::Command& command : orders_) {
      if (const auto* read = std::get_if<engine::Read>(&command)) {
        if (read->from.tier == Tier::store) {
          ++counts_.misses;
          counts_.bytes_missed += size_;
        } else {
          ++counts_.fetches;
        }
        events_.push_back(engine::ReadDone{read->request, engine::Outcome::done, {}});
      } else if (const auto* deliver = std::get_if<engine::Deliver>(&command)) {
        delivered_ = true;
        events_.push_back(engine::DeliveryDone{deliver->request, engine::Outcome::done});
        events_.push_back(engine::BatchConsumed{kJob, deliver->rank, deliver->step, Duration(0)});
        events_.push_back(engine::SlotReleased{kJob, deliver->rank, deliver->step});
      } else if (std::get_if<engine::Drop>(&command)) {
        ++counts_.evictions;
      }
    }
  }

  const traces::AccessTrace& trace_;
  const std::uint32_t nodes_;
  engine::Catalogues catalogues_;
  engine::Engine engine_;
  Duration now_{0};
  std::vector<engine::Event> events_;
  std::span<const engine::Command> orders_;
  ReplayCounts counts_;
  Bytes size_ = 0;
  bool delivered_ = false;
};

}  // namespace

ReplayCounts replay_through_engine(const traces::AccessTrace& trace,
                                   const engine::PolicyChoice& policy, Bytes capacity,
                                   const AccessReplayOptions& options) {
  TraceBackend backend(trace, policy, capacity, options);
  for (std::size_t begin = 0; begin < trace.requests();) {
    const std::size_t end = std::min(begin + kRequestsPerEngineReport, trace.requests());
    for (std::size_t i = begin; i < end; ++i) backend.request(i);
    plugin::check_failures();
    if (options.progress) options.progress(end - begin);
    begin = end;
  }
  return backend.counts();
}

// That of the share which TraceBackend's engine makes on its first node, so that both draw alike.
Random trace_policy_random(std::uint64_t seed) {
  engine::ShareSpec spec;
  spec.place = {kNode, Tier::dram, 0};
  spec.use = engine::ShareUse::encoded;
  spec.dataset = kDataset;
  return engine::policy_random(seed, spec, 0);
}

}  // namespace batchflow::sim
