#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/check.h"
#include "core/base/config_value.h"
#include "core/engine/books.h"
#include "core/engine/parts.h"

namespace batchflow::engine {

namespace {

// The most events for a step, and how many others a join costs.
constexpr std::size_t kEventsAStep = 512;
constexpr std::size_t kJoinCosts = 8;
// The most draws for which one step looks up the samples for batches.
constexpr std::size_t kDrawsAStep = 1024;
// The most bytes that one step gives back of policies and shares that are gone.
constexpr std::size_t kBytesGivenBack = std::size_t{4} << 20;

template <class View>
std::string text_of(const View& view) {
  QuestionText shown;
  write_question(shown, view);
  return fmt::to_string(shown);
}

// BF_CHECKs that what is on the way to and from each node is what requests have under way.
void check_links(const EngineState& s) {
  std::vector<Bytes> in(s.nodes.size()), out(s.nodes.size());
  const auto count = [&](const OnWay& way) {
    if (way.bytes == 0) return;
    out.at(way.from.value) += way.bytes;
    in.at(way.to.value) += way.bytes;
  };
  s.reads.each([&](ReadIndex read) { count(s.reads[read].on_way); });
  s.batches.each([&](BatchIndex batch) {
    for (const Piece& piece : s.batches[batch].pieces) count(piece.on_way);
  });
  s.nodes.each([&](NodeIndex index) {
    BF_CHECK(s.nodes[index].in.on_way() == in[index.value]);
    BF_CHECK(s.nodes[index].out.on_way() == out[index.value]);
  });
}

}  // namespace

std::size_t events_of_one_step(std::span<const Event> events) {
  std::size_t cost = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    cost += std::holds_alternative<JobJoined>(events[i]) ? kJoinCosts : 1;
    if (cost > kEventsAStep) return i;
  }
  return events.size();
}

Engine::Engine(const EngineConfig& config, const PolicyList& policies, const Catalogues& catalogues,
               Explain explain)
    : parts_(std::make_unique<Parts>(config, policies, catalogues, std::move(explain))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

std::span<const Command> Engine::step(Instant now, std::span<const Event> events) {
  Parts& p = *parts_;
  const UnhurriedMemory::Scope scope(p.unhurried);
  p.s.arena.clear();
  p.s.commands.clear();
  p.s.promises.clear();
  p.s.refused_joins.clear();
  if (now > p.s.now) p.s.now = now;
  p.s.samples_looked_up = 0;
  p.s.draws_left = kDrawsAStep;
  p.s.lent.clear();
  p.s.room_changed = p.s.room_changed || std::exchange(p.s.starts_put_off, false);
  p.streams.begin_step();
  p.membership.begin_step();
  for (const Event& event : events) {
    std::visit([&](const auto& fact) { p.on(fact); }, event);
  }
  p.handle_alarms();
  p.handle_failures();
  p.dispatching.scale();
  p.decide();
  p.handle_failures();
  if (!p.unhurried.give_back(kBytesGivenBack)) p.s.alarms.set(p.s.now, {});
  if (const auto timer = p.s.alarms.timer_to_set(p.s.now)) p.s.emit(*timer);
  return p.s.commands;
}

std::span<const Promise> Engine::promises() const {
  return parts_->s.promises.all();
}

EngineCounters Engine::counters() const {
  EngineCounters counters = parts_->s.counters;
  const Memory::Counters memory = parts_->s.memory.counters();
  const Dispatching::Refusals refused = parts_->dispatching.refused();
  counters.refused_proposals = memory.refused_allocations + memory.refused_evictions +
                               parts_->selection.refused() + refused.dispatch + refused.scaling +
                               parts_->s.buffers.refused() + parts_->s.refused_weights;
  counters.operations = parts_->operations;
  counters.node_slots = parts_->s.nodes.size();
  counters.worker_slots = parts_->s.workers.size();
  return counters;
}

bool Engine::question(Question& to) const {
  const EngineState& s = parts_->s;
  const Asked& asked = s.memory.asked();
  to.text.clear();
  if (asked.share != nullptr) {
    const ShareId share = s.memory.id_of(asked.share);
    if (share.is_none()) return false;
    to.scope = {eviction_kind(eviction_of(s.memory[share].spec)), share.value};
    write_question(to.text, asked.item, asked.slots);
    return true;
  }
  return std::visit(
      [&](const auto& view) {
        using View = std::decay_t<decltype(view)>;
        if constexpr (std::is_same_v<View, std::monostate>) {
          return false;
        } else {
          to.scope = {policy_kind_name(kAskedKinds[asked.view.index()]), std::nullopt};
          if constexpr (requires { view->job, view->candidates; }) {
            const JobIndex job = s.job_of.find(view->job);
            if (!job.is_none()) to.scope.only = s.jobs[job].stream.value;
          }
          write_question(to.text, *view);
          return true;
        }
      },
      asked.view);
}

std::vector<Engine::Held> Engine::held_back() const {
  std::vector<Held> held;
  const Dispatching& dispatching = parts_->dispatching;
  if (dispatching.held_since() != kNever)
    held.push_back(
        {{"dispatch", std::nullopt}, dispatching.held_since(), text_of(dispatching.weighed())});
  parts_->selection.each_held([&](const BlockSelection::Held& one) {
    const Job& job = parts_->s.jobs[one.job];
    held.push_back({{"selection", job.stream.value},
                    one.since,
                    text_of(SelectionView{job.id, job.order, one.shown, one.since, job.user})});
  });
  return held;
}

std::vector<Engine::Refusals> Engine::refusals() const {
  const EngineState& s = parts_->s;
  const Dispatching::Refusals refused = parts_->dispatching.refused();
  std::vector<Refusals> all;
  const auto add = [&](PolicyScope policy, std::uint64_t count, std::string last) {
    if (count > 0) all.push_back({policy, count, std::move(last)});
  };
  add({"allocation", std::nullopt}, s.memory.counters().refused_allocations, "");
  add({"dispatch", std::nullopt}, refused.dispatch,
      text_of(DispatchView{s.now, parts_->dispatching.shown_when_refused()}));
  add({"scaling", std::nullopt}, refused.scaling, "");
  add({"rehearsal", std::nullopt}, s.buffers.refused(), "");
  s.memory.each([&](ShareId index) {
    const SharePart& part = s.memory[index];
    const ShareCounters& counters = part.share->counters();
    add({eviction_kind(eviction_of(part.spec)), index.value}, counters.refused,
        fmt::format("the victim that it named last: {}", refused_name(counters.last_refused)));
  });
  s.streams.each([&](StreamId index) {
    add({"selection", index.value}, s.streams[index].refused_choices, "");
  });
  return all;
}

bool Engine::has_own_policy(std::string_view policy) const {
  const PolicyScope scope = policy_scope(policy);
  if (!scope.only) return false;
  const EngineState& s = parts_->s;
  if (scope.name == "selection") {
    const StreamId stream(*scope.only);
    return s.streams.live(stream) && s.streams[stream].own_selection != nullptr;
  }
  const ShareId share(*scope.only);
  return s.memory.eviction().is_own(share) &&
         eviction_kind(eviction_of(s.memory[share].spec)) == scope.name;
}

void Engine::shadow(std::span<const std::string> policies) {
  std::vector<SharePolicies::Candidate> candidates;
  for (const std::string& text : policies) {
    const KindAndText wanted = split_policy(text);
    const PolicyName name = policy_name(wanted.kind);
    if (name.kind != PolicyKind::eviction) {
      throw ConfigError(fmt::format(
          "'{}': a shadow shows what an eviction policy would hit; write eviction=NAME", text));
    }
    const auto choice =
        std::make_shared<const PolicyChoice>(parts_->s.list.choose(name.kind, wanted.text));
    for (const std::size_t one : name.evictions) candidates.push_back({one, choice});
  }
  parts_->s.memory.eviction().set_candidates(std::move(candidates));
}

std::vector<Engine::Shadow> Engine::shadows() const {
  std::map<std::pair<std::string, std::string>, Shadow> all;
  parts_->s.memory.each([&](ShareId index) {
    const SharePart& part = parts_->s.memory[index];
    for (const auto& one : part.candidates) {
      const PolicyShadow::Counts counts = one->counts();
      const std::string eviction(eviction_name(eviction_of(part.spec)));
      Shadow& sum = all[{eviction, one->choice().text()}];
      sum.eviction = eviction;
      sum.policy = one->choice().text();
      sum.live = part.choice->text();
      sum.requests += counts.requests;
      sum.live_hits += counts.live_hits;
      sum.hits += counts.hits;
      sum.live_missed += counts.live_missed * part.spec.slot_bytes;
      sum.missed += counts.missed * part.spec.slot_bytes;
    }
  });
  std::vector<Shadow> result;
  for (auto& [key, one] : all) result.push_back(std::move(one));
  return result;
}

std::string Engine::describe() const {
  return engine::describe(parts_->s);
}

void Engine::check_consistency() const {
  parts_->s.memory.check_consistency();
  for (const Node& node : parts_->s.nodes) {
    const StagingPart& staging = parts_->s.memory.staging(dram_of(node.id));
    BF_CHECK(node.lost || !parts_->s.config.count_staging || staging.used <= staging.granted);
  }
  parts_->dispatching.check_consistency();
  check_links(parts_->s);
  parts_->s.streams.each(
      [&](StreamId index) { parts_->s.streams[index].lanes->check_consistency(); });
  std::vector<Slots> needed;  // by share
  parts_->s.blocks.each([&](BlockIndex index) {
    const Block& block = parts_->s.blocks[index];
    if (block.reported_takers == 0) return;
    needed.resize(std::max<std::size_t>(needed.size(), block.share.value + 1));
    ++needed[block.share.value];
  });
  parts_->s.memory.each([&](ShareId share) {
    const Slots counted = share.value < needed.size() ? needed[share.value] : 0;
    BF_CHECK(parts_->s.memory[share].needed == counted);
  });
  if (!parts_->s.changed_streams.empty()) return;  // there is more to tell
  parts_->s.blocks.each([&](BlockIndex index) {
    const Block& block = parts_->s.blocks[index];
    BF_CHECK_MSG(!block.resident || block.reported_takers == takers_of(parts_->s, block),
                 "a policy was told wrongly which jobs need a block");
  });
}

}  // namespace batchflow::engine
