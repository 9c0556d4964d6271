#include "sim/faults/fault_injector.h"

#include <algorithm>
#include <type_traits>

#include "core/base/check.h"
#include "core/order/permutation.h"

namespace batchflow::faults {

namespace {

// Names the random numbers of faults among all streams that begin with a run's seed.
constexpr std::uint64_t kFaults = 0xfa17;

template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

}  // namespace

FaultInjector::FaultInjector(std::vector<Fault> faults, std::uint64_t seed,
                             const engine::Catalogues& catalogues, Step engine, SetSpeed set_speed)
    : faults_(std::move(faults)),
      random_(hash(seed, kFaults)),
      catalogues_(catalogues),
      engine_(std::move(engine)),
      set_speed_(std::move(set_speed)),
      struck_(faults_.size()),
      active_(faults_.size(), false),
      chosen_(faults_.size()),
      corrupt_(faults_.size()),
      met_(faults_.size()) {
  for (std::uint64_t fault = 0; fault < faults_.size(); ++fault) {
    plan(faults_[fault].at, Act::strike, fault);
  }
}

std::span<const engine::Command> FaultInjector::step(Instant now,
                                                     std::span<const engine::Event> events) {
  now_ = std::max(now_, now);
  events_.clear();
  commands_.clear();
  lists_.clear();
  // Events at the time of a fault happened before it.
  for (const engine::Event& event : events) {
    std::visit([this](const auto& fact) { hear(fact); }, event);
  }
  while (due() <= now_) {
    const auto [when, serial, what, which] = *plan_.begin();
    plan_.erase(plan_.begin());
    act(what, which);
  }
  if (events_.empty()) return commands_;
  for (const engine::Command& command : engine_(now_, events_)) {
    std::visit([this](const auto& order) { obey(order); }, command);
  }
  return commands_;
}

// ------------------------------------------------------------------ what the backend reports ----

bool FaultInjector::rank_is_dead(JobId job, Rank rank) const {
  const auto found = ranks_.find(job);
  return found != ranks_.end() && rank < found->second.size() &&
         dead_.count(found->second[rank]) != 0;
}

template <class Fact>
void FaultInjector::hear(const Fact& event) {
  if constexpr (std::is_same_v<Fact, engine::ReadDone>) return hear_read(event);
  if constexpr (std::is_same_v<Fact, engine::PreparationDone>) return hear_prepared(event);
  if constexpr (is_one_of<Fact, engine::TransferDone, engine::DeliveryDone>) {
    if (!completed(event)) return;
  }
  if constexpr (is_one_of<Fact, engine::BatchWanted, engine::BatchConsumed, engine::SlotReleased>) {
    if (rank_is_dead(event.job, event.rank)) return;
  }
  if constexpr (is_one_of<Fact, engine::JobJoined, engine::JobResized>) {
    ranks_[event.job].assign(event.ranks.begin(), event.ranks.end());
  }
  if constexpr (std::is_same_v<Fact, engine::JobLeft>) ranks_.erase(event.job);
  if constexpr (std::is_same_v<Fact, engine::NodeJoined>) cores_[event.node] = event.cores;
  if constexpr (std::is_same_v<Fact, engine::CapacityChanged>) {
    capacity_[event.place] = event.bytes;
    if (dead_.count(event.place.node) != 0 || is_drive_lost(event.place)) return;
  }
  if constexpr (std::is_same_v<Fact, engine::WorkerJoined>) {
    if (dead_.count(event.node) != 0) return;
    workers_[event.worker] = {event.node};
  }
  if constexpr (std::is_same_v<Fact, engine::WorkerQuiesced>) {
    const auto found = workers_.find(event.worker);
    if (found == workers_.end()) return;  // gone with its node
    const Worker worker = found->second;
    workers_.erase(found);
    if (worker.state == Worker::State::quiet || dead_.count(worker.node) != 0) return;
  }
  if constexpr (std::is_same_v<Fact, engine::CatalogueKnown>) choose_samples(event);
  pass_on(event);
}

// Which samples are corrupt depends on the seed and the fault alone.
void FaultInjector::choose_samples(const engine::CatalogueKnown& event) {
  const engine::Catalogue* catalogue = catalogues_.find(event.dataset, event.version);
  if (catalogue == nullptr) return;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.kind != Fault::Kind::samples_corrupt || fault.dataset != event.dataset) continue;
    const order::Permutation order(random_.split(i).draw(), catalogue->samples());
    corrupt_[i].clear();
    for (std::uint64_t k = 0; k < std::min(fault.count, order.size()); ++k) {
      corrupt_[i].emplace_back(order(k));
    }
    std::sort(corrupt_[i].begin(), corrupt_[i].end());
  }
}

// The command that is over; nothing when its completion is not to be reported.
template <class Completion>
std::optional<FaultInjector::Order> FaultInjector::completed(const Completion& event) {
  const auto found = orders_.find(event.request.id);
  if (found == orders_.end() || found->second.state != Order::State::running) return std::nullopt;
  const auto attempt =
      std::visit([](const auto& order) { return order.request.attempt; }, found->second.command);
  if (attempt != event.request.attempt) return std::nullopt;
  std::optional<Order> order = std::move(found->second);
  orders_.erase(found);
  return order;
}

void FaultInjector::hear_read(const engine::ReadDone& event) {
  const auto order = completed(event);
  if (!order) return;
  const engine::Read& read = std::get<engine::Read>(order->command);
  const order::BlockName& block = read.lineage.name;
  const std::uint64_t first = order->samples.empty() ? 0 : order->samples.front().value + 1;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (!active_[i] || fault.kind != Fault::Kind::reads_failed || fault.place != read.from)
      continue;
    Random chance =
        random_.split(i).split(hash(read.dataset.value, block.generation, block.lane, block.pass,
                                    block.block, first, read.to.node.value, event.request.attempt));
    if (chance.below(Ratio::kWhole) >= fault.ratio.parts) continue;
    ++struck_[i].parts;
    return pass_on(engine::ReadDone{event.request, engine::Outcome::failed, {}});
  }
  pass_on(event);
}

void FaultInjector::hear_prepared(const engine::PreparationDone& event) {
  const auto order = completed(event);
  if (!order) return;
  std::vector<SampleId> bad;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (!active_[i] || corrupt_[i].empty()) continue;
    if (faults_[i].dataset != std::get<engine::Prepare>(order->command).lineage.dataset) continue;
    const auto before = static_cast<std::ptrdiff_t>(bad.size());
    std::set_intersection(order->samples.begin(), order->samples.end(), corrupt_[i].begin(),
                          corrupt_[i].end(), std::back_inserter(bad));
    met_[i].insert(bad.begin() + before, bad.end());
    struck_[i].parts = met_[i].size();
  }
  if (bad.empty() || event.outcome != engine::Outcome::done) return pass_on(event);
  std::sort(bad.begin(), bad.end());
  bad.erase(std::unique(bad.begin(), bad.end()), bad.end());
  lists_.push_back(std::move(bad));
  pass_on(engine::PreparationDone{event.request, engine::Outcome::corrupt, lists_.back()});
}

// ----------------------------------------------------------------- what the engine commands ----

template <class Ordered>
void FaultInjector::obey(const Ordered& order) {
  if constexpr (is_one_of<Ordered, engine::Read, engine::Prepare, engine::Transfer,
                          engine::Deliver>) {
    begin(order);
  } else if constexpr (std::is_same_v<Ordered, engine::Cancel>) {
    const auto found = orders_.find(order.request.id);
    if (found == orders_.end()) return;
    const bool running = found->second.state == Order::State::running;
    // What becomes of a preparation is still reported.
    const bool is_over =
        !running || !std::holds_alternative<engine::Prepare>(found->second.command);
    if (is_over) orders_.erase(found);
    if (running) commands_.push_back(order);
  } else {
    if constexpr (std::is_same_v<Ordered, engine::SetWorkers>) {
      if (dead_.count(order.node) != 0) return;
    }
    commands_.push_back(order);
  }
}

// The samples whose stored bytes the command decodes, sorted; empty if no fault corrupts samples of
// its dataset.
std::vector<SampleId> FaultInjector::decoded_by(const engine::Prepare& order) {
  std::vector<SampleId> samples;
  const bool any = std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.kind == Fault::Kind::samples_corrupt && fault.dataset == order.lineage.dataset;
  });
  if (!any) return samples;
  for (const engine::Ingredient& one : order.ingredients) {
    if (one.form == Form::encoded) samples.push_back(one.sample);
  }
  if (order.ingredients.empty()) {
    const order::Lineage& lineage = order.lineage;
    const engine::Catalogue* catalogue = catalogues_.find(lineage.dataset, lineage.dataset_version);
    BF_CHECK(catalogue != nullptr);
    expander_.expand(lineage, catalogue->samples(), samples);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

template <class Ordered>
void FaultInjector::begin(const Ordered& command) {
  Order& order = orders_[command.request.id];
  order = {Order::State::held, command, {}, {}};
  if constexpr (std::is_same_v<Ordered, engine::Read>) {
    order.samples.assign(command.samples.begin(), command.samples.end());
    if (is_drive_lost(command.from)) return hold(command.request.id, order, Duration(0));
  }
  if constexpr (std::is_same_v<Ordered, engine::Prepare>) order.samples = decoded_by(command);
  if (is_swallowed(order)) {
    order.state = Order::State::swallowed;
    return;
  }
  if (hold_if_cut(command.request.id, order)) return;
  order.state = Order::State::running;
  commands_.push_back(command);
}

}  // namespace batchflow::faults
