// A policy that decides in another process decides as it would here; whatever that process answers,
// the engine keeps its promises; and what it answered can be played back.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "core/engine/preset.h"
#include "core/engine/share.h"
#include "policies/apart/described.h"
#include "policies/apart/playback.h"
#include "policies/apart/served.h"
#include "policies/conformance/conformance.h"
#include "policies/registry.h"

namespace batchflow::test::apart_test {
namespace {

using apart::Answering;

// As another process would answer, without one.
class Here final : public Answering {
 public:
  explicit Here(std::vector<const engine::PolicyEntry*> entries) : served_(std::move(entries)) {}

  std::uint32_t new_instance() override { return ++instances_; }
  void tell(std::span<const std::byte> call) override {
    answer_.clear();
    ++told;
    CHECK(served_.serve(call, answer_));
    CHECK(answer_.empty());
  }
  std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call,
                                                bool recorded) override {
    answer_.clear();
    ++asked;
    CHECK(served_.serve(call, answer_));
    if (recorded) record.add(std::span<const std::byte>(answer_));
    return answer_;
  }
  void reject(std::string_view why) override { FAIL(std::string(why)); }

  std::uint64_t told = 0, asked = 0;
  apart::AnswerRecord record;

 private:
  apart::Served served_;
  std::vector<std::byte> answer_;
  std::uint32_t instances_ = 0;
};

// The same policy, answered by `answering`.
struct Proxied {
  Proxied(const engine::PolicyChoice& built_in, Answering& answering)
      : described(apart::describe(std::vector{built_in.entry}, {}), answering),
        choice{described.policies()[0], Parameters(described.policies()[0]->parameters)} {
    for (const Parameter& one : choice.entry->parameters)
      choice.parameters.set(one.name, built_in.parameters.value(one.name));
  }
  apart::Described described;
  engine::PolicyChoice choice;
};

struct Use {
  std::size_t block = 64;
  bool announces = true;
  // One of so many requests is not announced, or announced and not made; and so are pins, removals
  // and new sizes made. 0: none.
  std::uint64_t odd = 0;
};

// What leaves a share under random use.
std::vector<std::uint32_t> evictions(const engine::PolicyChoice& choice, std::uint64_t seed,
                                     const Use& use) {
  constexpr std::size_t kItems = 300;
  engine::Share share(kItems, 60, choice.make_eviction(kItems, 60, Random(seed)));
  Random random(seed);
  const auto odd = [&] { return use.odd > 0 && random.below(use.odd) == 0; };
  const auto request = [&] {
    engine::Access access{
        ItemId(static_cast<std::uint32_t>(std::min(random.below(kItems), random.below(kItems))))};
    access.slots = 1 + access.item.value % 3;
    return access;
  };
  std::vector<std::uint32_t> all;
  std::vector<ItemId> evicted, pinned;
  for (int block = 0; block < 60; ++block) {
    std::vector<engine::Access> requests;
    for (std::size_t i = 0; i < use.block; ++i) requests.push_back(request());
    std::vector<engine::Access> announced = requests;
    for (engine::Access& one : announced) {
      if (odd()) one = request();
    }
    if (use.announces && share.wants_announcements()) share.announce(announced);
    for (const engine::Access& one : requests) {
      evicted.clear();
      share.access(one, evicted);
      for (const ItemId item : evicted) all.push_back(item.value);
      if (odd() && share.resident(one.item)) {
        share.pin(one.item);
        pinned.push_back(one.item);
      }
      if (!pinned.empty() && (pinned.size() > 10 || odd())) {
        share.unpin(pinned.back());
        pinned.pop_back();
      }
      if (odd() && share.resident(one.item) && !share.pinned(one.item))
        share.remove(one.item, engine::Removal::invalidated);
    }
    if (odd()) {
      share.set_capacity(40 + random.below(60));
      std::size_t limit = 1000;
      evicted.clear();
      share.shrink(limit, evicted);
      for (const ItemId item : evicted) all.push_back(item.value);
    }
  }
  for (const ItemId item : pinned) share.unpin(item);
  CAPTURE(engine::refused_name(share.counters().last_refused));
  CHECK(share.counters().refused == 0);
  return all;
}

std::vector<engine::PolicyChoice> all_choices(engine::PolicyKind kind) {
  std::vector<engine::PolicyChoice> all;
  for (const engine::PolicyEntry* entry : policies::policy_list().of_kind(kind)) {
    if (entry->clairvoyant) continue;
    for (engine::PolicyChoice& one : conformance::variants(*entry)) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

TEST_CASE("policies that are no eviction policies answer the same apart") {
  for (const auto kind :
       {engine::PolicyKind::allocation, engine::PolicyKind::selection, engine::PolicyKind::dispatch,
        engine::PolicyKind::scaling, engine::PolicyKind::rehearsal, engine::PolicyKind::mixture}) {
    for (const engine::PolicyChoice& built_in : all_choices(kind)) {
      CAPTURE(built_in.text());
      Here here({built_in.entry});
      const Proxied proxied(built_in, here);
      CHECK(proxied.choice.text() == built_in.text());
      CHECK(conformance::use_at_random(proxied.choice, 7, 300) ==
            conformance::use_at_random(built_in, 7, 300));
      CHECK(here.asked > 0);
    }
  }
}

TEST_CASE("an eviction policy evicts the same apart, one request or a block at a time") {
  for (const engine::PolicyChoice& built_in : all_choices(engine::PolicyKind::eviction)) {
    CAPTURE(built_in.text());
    for (const bool announces : {false, true}) {
      Here here({built_in.entry});
      const Proxied proxied(built_in, here);
      const Use use{64, announces, 0};
      const auto here_too = evictions(built_in, 3, use);
      CHECK(evictions(proxied.choice, 3, use) == here_too);
      // At most one question a block, beside that it is made.
      if (announces) CHECK(here.asked <= 61);
    }
  }
}

TEST_CASE("an eviction policy that is foreseen wrongly keeps its share's rules") {
  for (const engine::PolicyChoice& built_in : all_choices(engine::PolicyKind::eviction)) {
    CAPTURE(built_in.text());
    for (const std::uint64_t odd : {3, 10, 40}) {
      CAPTURE(odd);
      Here here({built_in.entry});
      const Proxied proxied(built_in, here);
      evictions(proxied.choice, odd, {32, true, odd});
    }
    Here here({built_in.entry});
    const Proxied proxied(built_in, here);
    CHECK_NOTHROW(conformance::use_at_random(proxied.choice, 5, 2000));
  }
}

TEST_CASE("what must be somewhere comes in apart as well, whatever the policy answers") {
  const auto blocks = [](const engine::PolicyChoice& choice) {
    engine::Share share(200, 20, choice.make_eviction(200, 20, Random(2), Form::prepared));
    Random random(4);
    std::vector<ItemId> evicted;
    for (int i = 0; i < 1500; ++i) {
      const ItemId item(static_cast<std::uint32_t>(random.below(200)));
      if (!share.resident(item)) CHECK(share.insert_forced({item}, evicted));
      if (random.below(3) == 0) share.needed(item, static_cast<std::uint32_t>(random.below(3)));
    }
    return std::pair(evicted, share.counters().refused);
  };
  for (const engine::PolicyChoice& built_in : all_choices(engine::PolicyKind::eviction)) {
    CAPTURE(built_in.text());
    Here here({built_in.entry});
    const Proxied proxied(built_in, here);
    CHECK(blocks(proxied.choice) == blocks(built_in));
  }
}

TEST_CASE("what was answered is played back without the policy") {
  for (const char* text : {"eviction=lru", "eviction=s3fifo", "eviction=gdsf", "eviction=random"}) {
    CAPTURE(text);
    const engine::PolicyChoice built_in = policies::policy_list().choose(text);
    Here here({built_in.entry});
    const Use use{32, true, 10};
    const auto recorded = evictions(Proxied(built_in, here).choice, 9, use);
    apart::Playback playback;
    playback.begin_step(here.record.take());
    CHECK(evictions(Proxied(built_in, playback).choice, 9, use) == recorded);
  }
}

TEST_CASE("a shadow's answers are not recorded") {
  const engine::PolicyChoice built_in = policies::policy_list().choose("eviction=lru");
  Here here({built_in.entry});
  const Proxied proxied(built_in, here);
  const auto policy =
      proxied.choice.make_eviction(10, 5, Random(1), Form::encoded, Tier::dram, DatasetId(0), true);
  policy->missed({ItemId(1)});
  CHECK(here.asked == 2);
  CHECK(here.record.take().empty());
}

namespace {

// Answers with what was answered before, and now and then with anything else.
class Hostile final : public Answering {
 public:
  Hostile(std::vector<const engine::PolicyEntry*> entries, std::uint64_t seed)
      : served_(std::move(entries)), random_(seed) {}
  std::uint32_t new_instance() override { return ++instances_; }
  void tell(std::span<const std::byte> call) override {
    answer_.clear();
    served_.serve(call, answer_);
  }
  std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call, bool) override {
    answer_.clear();
    served_.serve(call, answer_);
    const std::uint64_t kind = random_.below(40);
    if (kind == 0) return std::nullopt;
    if (kind == 1) answer_.resize(random_.below(2 * answer_.size() + 8));
    if (kind == 2) answer_.clear();
    if (kind < 12 && !answer_.empty()) {
      for (int i = 0; i < 3; ++i)
        answer_[random_.below(answer_.size())] = static_cast<std::byte>(random_.draw());
    }
    return answer_;
  }
  void reject(std::string_view) override { ++rejected; }
  int rejected = 0;

 private:
  apart::Served served_;
  Random random_;
  std::vector<std::byte> answer_;
  std::uint32_t instances_ = 0;
};

}  // namespace

TEST_CASE("wrong answers of another process do no harm") {
  int rejected = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    for (const auto kind :
         {engine::PolicyKind::allocation, engine::PolicyKind::eviction,
          engine::PolicyKind::selection, engine::PolicyKind::dispatch, engine::PolicyKind::scaling,
          engine::PolicyKind::rehearsal, engine::PolicyKind::mixture}) {
      const auto choices = all_choices(kind);
      const engine::PolicyChoice& built_in = choices[seed % choices.size()];
      CAPTURE(built_in.text());
      Hostile hostile({built_in.entry}, seed);
      const Proxied proxied(built_in, hostile);
      try {
        conformance::use_at_random(proxied.choice, seed, 300);
      } catch (const conformance::Violation&) {
        // The engine refuses such an answer, and counts it.
      }
      rejected += hostile.rejected;
    }
  }
  CHECK(rejected > 50);
}

TEST_CASE("what another process says of its policies may be anything") {
  const auto entries = policies::policy_list().entries();
  const std::vector<std::byte> good = apart::describe(entries.first(3), engine::presets().first(2));
  apart::Playback playback;
  const apart::Described described(good, playback);
  REQUIRE(described.policies().size() == 3);
  CHECK(described.policies()[2]->name == entries[2]->name);
  CHECK(described.policies()[2]->kind() == entries[2]->kind());
  REQUIRE(described.presets().size() == 2);
  CHECK(described.presets()[1]->dispatch == engine::presets()[1]->dispatch);
  // What they are from, its host knows better.
  CHECK(apart::Described(good, playback, "abc").policies()[0]->from == "abc");
  std::vector<std::byte> named = good;
  const auto name = std::search(
      named.begin(), named.end(), reinterpret_cast<const std::byte*>(entries[0]->name.data()),
      reinterpret_cast<const std::byte*>(entries[0]->name.data()) + entries[0]->name.size());
  REQUIRE(name != named.end());
  *name = std::byte{'@'};
  CHECK_THROWS_AS(apart::Described(named, playback), ConfigError);
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_THROWS(apart::Described(std::span(good).first(size), playback));
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bad = good;
    bad[random.below(bad.size())] = static_cast<std::byte>(random.draw());
    try {
      const apart::Described any(bad, playback);
    } catch (const ConfigError&) {
    }
  }
}

}  // namespace batchflow::test::apart_test
