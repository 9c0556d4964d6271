#include "sim/faults/fault_injector.h"

#include <algorithm>
#include <type_traits>

#include "core/base/check.h"
#include "core/engine/unnamed_samples.h"
#include "core/order/permutation.h"

namespace batchflow::faults {

namespace {

// Names the random numbers of faults among all streams that begin with a run's seed.
constexpr std::uint64_t kFaults = 0xfa17;

template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

}  // namespace

FaultInjector::FaultInjector(std::vector<Fault> faults, std::uint64_t seed,
                             const engine::Catalogues& catalogues, EngineStep engine,
                             SetSpeed set_speed)
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
    const Fault::Kind kind = faults_[fault].kind;
    if (kind == Fault::Kind::cut_off) cuts_.push_back(fault);
    if (kind == Fault::Kind::drive_lost) lost_drives_.push_back(fault);
    if (kind == Fault::Kind::reads_failed) failing_reads_.push_back(fault);
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
    std::visit([this](const auto& fact) { observe(fact); }, event);
  }
  while (due() <= now_) {
    const auto [when, serial, what, which] = *plan_.begin();
    plan_.erase(plan_.begin());
    act(what, which);
  }
  if (events_.empty()) return commands_;
  for (const engine::Command& command : engine_(now_, events_)) {
    std::visit([this](const auto& sent) { observe_command(sent); }, command);
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
void FaultInjector::observe(const Fact& event) {
  if constexpr (std::is_same_v<Fact, engine::ReadDone>) return observe_read(event);
  if constexpr (std::is_same_v<Fact, engine::PreparationDone>) return observe_prepared(event);
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
    const order::Permutation shuffled(random_.split(i).draw(), catalogue->samples());
    corrupt_[i].clear();
    for (std::uint64_t k = 0; k < std::min(fault.count, shuffled.size()); ++k) {
      corrupt_[i].emplace_back(shuffled(k));
    }
    std::sort(corrupt_[i].begin(), corrupt_[i].end());
  }
}

// The command that is over; nothing when its completion is not to be reported.
template <class Completion>
std::optional<FaultInjector::PendingCommand> FaultInjector::completed(const Completion& event) {
  const auto found = pending_.find(event.request.id);
  if (found == pending_.end() || found->second.state != PendingCommand::State::running)
    return std::nullopt;
  const auto attempt = std::visit([](const auto& command) { return command.request.attempt; },
                                  found->second.command);
  if (attempt != event.request.attempt) return std::nullopt;
  std::optional<PendingCommand> pending = std::move(found->second);
  pending_.erase(found);
  return pending;
}

void FaultInjector::observe_read(const engine::ReadDone& event) {
  const auto pending = completed(event);
  if (!pending) return;
  const engine::Read& read = std::get<engine::Read>(pending->command);
  const order::BlockName& block = read.lineage.name;
  const std::uint64_t first = pending->samples.empty() ? 0 : pending->samples.front().value + 1;
  for (const std::size_t i : failing_reads_) {
    const Fault& fault = faults_[i];
    if (!active_[i] || fault.place != read.from) continue;
    Random chance =
        random_.split(i).split(hash(read.dataset.value, block.generation, block.lane, block.pass,
                                    block.block, first, read.to.node.value, event.request.attempt));
    if (chance.below(Ratio::kWhole) >= fault.ratio.parts) continue;
    ++struck_[i].parts;
    return pass_on(engine::ReadDone{event.request, engine::Outcome::failed, {}});
  }
  pass_on(event);
}

void FaultInjector::observe_prepared(const engine::PreparationDone& event) {
  const auto pending = completed(event);
  if (!pending) return;
  std::vector<SampleId> bad;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (!active_[i] || corrupt_[i].empty()) continue;
    if (faults_[i].dataset != std::get<engine::Prepare>(pending->command).lineage.dataset) continue;
    const auto before = static_cast<std::ptrdiff_t>(bad.size());
    std::set_intersection(pending->samples.begin(), pending->samples.end(), corrupt_[i].begin(),
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

template <class Command>
void FaultInjector::observe_command(const Command& command) {
  if constexpr (is_one_of<Command, engine::Read, engine::Prepare, engine::Transfer,
                          engine::Deliver>) {
    begin(command);
  } else if constexpr (std::is_same_v<Command, engine::Cancel>) {
    const auto found = pending_.find(command.request.id);
    if (found == pending_.end()) return;
    const bool running = found->second.state == PendingCommand::State::running;
    // What becomes of a preparation is still reported.
    const bool is_over =
        !running || !std::holds_alternative<engine::Prepare>(found->second.command);
    if (is_over) pending_.erase(found);
    if (running) commands_.push_back(command);
  } else {
    if constexpr (std::is_same_v<Command, engine::SetWorkers>) {
      if (dead_.count(command.node) != 0) return;
    }
    commands_.push_back(command);
  }
}

// The samples that the command decodes from their stored bytes, sorted; empty if no fault corrupts
// samples of its dataset.
std::vector<SampleId> FaultInjector::decoded_by(const engine::Prepare& command) {
  std::vector<SampleId> samples;
  const bool any = std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.kind == Fault::Kind::samples_corrupt && fault.dataset == command.lineage.dataset;
  });
  if (!any) return samples;
  const order::Lineage& lineage = command.lineage;
  const engine::Catalogue* catalogue = catalogues_.find(lineage.dataset, lineage.dataset_version);
  BF_CHECK(catalogue != nullptr);
  engine::unnamed_samples(command, catalogue->samples(), expander_, samples);
  for (const engine::Ingredient& ingredient : command.ingredients) {
    if (ingredient.form == Form::encoded) samples.push_back(ingredient.sample);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

template <class Command>
void FaultInjector::begin(const Command& command) {
  PendingCommand& pending = pending_[command.request.id];
  pending = {PendingCommand::State::held, command, {}, {}};
  if constexpr (std::is_same_v<Command, engine::Read>) {
    pending.samples.assign(command.samples.begin(), command.samples.end());
    if (is_drive_lost(command.from)) return hold(command.request.id, pending, Duration(0));
  }
  if constexpr (std::is_same_v<Command, engine::Prepare>) pending.samples = decoded_by(command);
  if (is_swallowed(pending)) {
    pending.state = PendingCommand::State::swallowed;
    return;
  }
  if (hold_if_cut(command.request.id, pending)) return;
  pending.state = PendingCommand::State::running;
  commands_.push_back(command);
}

}  // namespace batchflow::faults
