// A policy out of a plugin decides as the same policy does that is built in, and what a plugin does
// wrong later ends its use, and nothing else.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/engine/share.h"
#include "policies/conformance/conformance.h"
#include "policies/conformance/random_views.h"
#include "policies/plugin/failures.h"
#include "policies/plugin/policy_host.h"
#include "policies/registry.h"
#include "tests/plugin/plugins_test.h"
#include "tests/skip.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace batchflow::test::plugin_hosted_test {

using namespace conformance;
namespace {

enum class By { objects, tables };

const bf_policy_plugin& tables_of(const plugin::PluginFile& file, const bf_policy_host& host) {
  void* const library = dlopen(file.loadable().c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto entry = reinterpret_cast<const bf_policy_plugin* (*)(const bf_policy_host*)>(
      dlsym(library, "batchflow_policy_plugin"));
  REQUIRE((entry != nullptr));
  return *entry(&host);
}

// The same policy twice: out of a plugin, and built in. By tables: as if the plugin were in C, or
// of another compiler.
struct Both {
  Both(const std::string& file, std::string_view text, By by)
      : built_in(policies::policy_list().choose(text)) {
    const bf_policy_plugin& tables = tables_of(*plugin_file(file), plugin::policy_host());
    bf_policy policy = *tables.policies[0];
    bf_policy_common common = *policy.common;
    if (by == By::tables) common.object_version = 0;
    policy.common = &common;
    hosting.emplace(policy, tables.unstable, "123");
    const engine::PolicyEntry& entry = hosting->entry();
    CHECK(entry.name == built_in.entry->name);
    CHECK(entry.help == built_in.entry->help);
    REQUIRE(entry.parameters.size() == built_in.entry->parameters.size());
    hosted.emplace(engine::PolicyChoice{&entry, Parameters(entry.parameters)});
    for (const Parameter& one : entry.parameters)
      hosted->parameters.set(one.name, built_in.parameters.value(one.name));
  }
  std::optional<plugin::HostedPolicy> hosting;
  engine::PolicyChoice built_in;
  std::optional<engine::PolicyChoice> hosted;
};

// What leaves a share under random use.
std::vector<std::uint32_t> evictions(const engine::PolicyChoice& choice, std::uint64_t seed) {
  constexpr std::size_t kItems = 300;
  engine::Share share(kItems, 60, choice.make_eviction(kItems, 60, Random(seed)));
  Random random(seed);
  std::vector<ItemId> evicted;
  std::vector<std::uint32_t> all;
  for (int i = 0; i < 3000; ++i) {
    evicted.clear();
    const ItemId item(
        static_cast<std::uint32_t>(std::min(random.below(kItems), random.below(kItems))));
    share.access({item, 1 + item.value % 3}, evicted);
    if (random.below(5) == 0 && share.resident(item) && !share.pinned(item)) share.pin(item);
    if (random.below(4) == 0 && share.pinned(item)) share.unpin(item);
    if (random.below(50) == 0) share.set_capacity(40 + random.below(60));
    for (const ItemId one : evicted) all.push_back(one.value);
  }
  CHECK(share.counters().refused == 0);
  return all;
}

}  // namespace

TEST_CASE("a plugin of an eviction policy evicts what the built-in one evicts") {
  for (const By by : {By::objects, By::tables}) {
    for (const char* text : {"lru", "s3fifo:small=0.2", "gdsf"}) {
      CAPTURE(text);
      const std::string name(text, std::strcspn(text, ":"));
      const Both both("eviction_" + name, std::string("eviction=") + text, by);
      for (std::uint64_t seed = 1; seed < 20; ++seed) {
        const auto hosted = evictions(*both.hosted, seed);
        CHECK(hosted == evictions(both.built_in, seed));
        CHECK(hosted.size() > 100);
        CHECK(use_at_random(*both.hosted, seed, 200) == use_at_random(both.built_in, seed, 200));
      }
    }
  }
}

TEST_CASE("a plugin of another standard library evicts what the built-in one evicts") {
  if (!std::filesystem::exists(plugin_path("other_library")))
    return skipped("there is no clang++ with libc++");
  for (const By by : {By::objects, By::tables}) {
    const Both both("other_library", "eviction=gdsf", by);
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
      CHECK(evictions(*both.hosted, seed) == evictions(both.built_in, seed));
      CHECK(use_at_random(*both.hosted, seed, 200) == use_at_random(both.built_in, seed, 200));
    }
  }
}

TEST_CASE("a plugin in C evicts as the built-in policy does") {
  const plugin::Plugin plugin(plugin_file("in_c"));
  const engine::PolicyEntry& entry = *plugin.policies().at(0);
  CHECK(entry.ignores_hits);
  const engine::PolicyChoice in_c{&entry, Parameters({})};
  const engine::PolicyChoice built_in = policies::policy_list().choose("eviction=fifo");
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    CHECK(evictions(in_c, seed) == evictions(built_in, seed));
    CHECK(use_at_random(in_c, seed, 200) == use_at_random(built_in, seed, 200));
  }
}

TEST_CASE("plugins of the other kinds answer what the built-in policies answer") {
  const std::pair<const char*, const char*> policies[] = {
      {"allocation_equal", "allocation=equal"},
      {"selection_deepio", "selection=deepio"},
      {"dispatch_round_robin", "dispatch=round-robin:users=true"},
      {"dispatch_earliest_deadline", "dispatch=earliest-deadline"},
      {"dispatch_nearest_by_link", "dispatch=nearest-by-link"},
      {"scaling_look_ahead", "scaling=look-ahead"},
      {"rehearsal_reservoir", "rehearsal=reservoir"},
      {"rehearsal_prioritised", "rehearsal=prioritised"},
      {"mixture_softmax", "mixture=softmax:temperature=0.5"}};
  for (const By by : {By::objects, By::tables}) {
    for (const auto& [file, text] : policies) {
      CAPTURE(text);
      const Both both(file, text, by);
      for (std::uint64_t seed = 1; seed < 20; ++seed)
        CHECK(use_at_random(*both.hosted, seed, 50) == use_at_random(both.built_in, seed, 50));
    }
  }
  CHECK(plugin::take_failures().empty());
}

TEST_CASE("what a plugin does wrong ends its use, and the share goes on") {
#ifdef __SANITIZE_ADDRESS__
  // A policy that has failed may be broken inside, and is left as it is.
  const __lsan::ScopedDisabler leaks;
#endif
  const auto run = [](const std::string& name, std::uint64_t& refused) {
    const plugin::Plugin plugin(plugin_file(name));
    const engine::PolicyEntry& entry = *plugin.policies().at(0);
    const engine::PolicyChoice choice{&entry, Parameters(entry.parameters)};
    engine::Share share(100, 10, choice.make_eviction(100, 10, Random(1)));
    std::vector<ItemId> evicted;
    for (std::uint32_t item = 0; item < 50; ++item) share.access({ItemId(item)}, evicted);
    CHECK(share.used() == 10);
    // A block that must be somewhere still finds room.
    evicted.clear();
    CHECK(share.insert_forced({ItemId(77)}, evicted));
    refused = share.counters().refused;
    return plugin::take_failures();
  };
  std::uint64_t refused = 0;
  const auto failures = run("throws_later", refused);
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].policy.starts_with("eviction mischief@"));
  CHECK(failures[0].why == "an exception left it; the functions of a plugin must not throw");
  CHECK(refused > 0);
  // A victim that is not there is refused by the share, which is no failure of the interface.
  CHECK(run("answers_rubbish", refused).empty());
  CHECK(refused > 0);
  CHECK_NOTHROW(plugin::check_failures());
  run("throws_later", refused);
}

TEST_CASE("a mixture policy that throws leaves the weights as they were") {
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler leaks;  // of what has failed
#endif
  for (const By by : {By::objects, By::tables}) {
    const bf_policy_plugin& tables =
        tables_of(*plugin_file("mixture_throws"), plugin::policy_host());
    bf_policy policy = *tables.policies[0];
    bf_policy_common common = *policy.common;
    if (by == By::tables) common.object_version = 0;
    policy.common = &common;
    const plugin::HostedPolicy hosting(policy, tables.unstable, "123");
    const engine::PolicyChoice choice{&hosting.entry(), Parameters({})};
    const auto made = choice.make_mixture(3);
    CHECK(made->every() == 500);
    const std::vector<double> now = {0.5, 0.25, 0.25};
    std::vector<engine::SourceView> sources(3);
    for (std::size_t i = 0; i < 3; ++i) sources[i].weight = now[i];
    for (int i = 0; i < 4; ++i) {
      std::vector<double> weights = now;
      made->weigh({JobId(1), 0, sources}, weights);
      CHECK(weights == (i < 2 ? std::vector<double>{3, 1, 1} : now));
    }
    CHECK(made->every() == UINT64_MAX);
    const auto failures = plugin::take_failures();
    REQUIRE(failures.size() == 1);
    CHECK(failures[0].policy == "mixture throws@123");
    CHECK(failures[0].why == "not on a Sunday");
  }
}

TEST_CASE("what came with version 2 of the interface is offered to no older host") {
  CHECK(plugin_file("mixture_throws")->footer().interface_least == 2);
  CHECK(plugin_file("rehearsal_newest")->footer().interface_least == 2);
  CHECK(plugin_file("several")->footer().interface_least == 1);
  static bf_policy_host older = plugin::policy_host();
  older.version = 1;
  CHECK(tables_of(*plugin_file("several"), older).version == 1);
  CHECK(tables_of(*plugin_file("several"), plugin::policy_host()).version == 2);
  void* const library = dlopen(plugin_file("mixture_throws")->loadable().c_str(), RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto entry = reinterpret_cast<const bf_policy_plugin* (*)(const bf_policy_host*)>(
      dlsym(library, "batchflow_policy_plugin"));
  CHECK((entry(&older) == nullptr));
}

TEST_CASE("a host with shorter structs is understood") {
  // As a host of an earlier version: what came later is not there, and has its default.
  static bf_policy_host host = plugin::policy_host();
  constexpr std::size_t kBytes = offsetof(bf_work_candidate, waiting);
  host.struct_bytes[BF_STRUCT_WORK_CANDIDATE] = kBytes;
  const bf_policy_plugin& given = tables_of(*plugin_file("dispatch_earliest_deadline"), host);
  const bf_policy& policy = *given.policies[0];
  const auto& functions = *static_cast<const bf_dispatch_functions*>(policy.functions);
  bf_policy_context context{};
  void* const made = policy.common->make(policy.user, &context);
  REQUIRE(made != nullptr);
  Random random(4);
  const auto built_in = policies::policy_list()
                            .choose("dispatch=earliest-deadline")
                            .make<engine::MakeDispatch>(Random(1));
  for (int i = 0; i < 200; ++i) {
    const auto work = random_work(random, 1 + random.below(20));
    std::string packed;
    for (const engine::WorkCandidate& one : work)
      packed.append(reinterpret_cast<const char*>(&one), kBytes);
    const bf_dispatch_view view{0, reinterpret_cast<const bf_work_candidate*>(packed.data()),
                                work.size()};
    CHECK(functions.next(made, &view) == built_in->next({Instant{}, work}));
  }
  policy.common->end(made);
}

TEST_CASE("a host that shows less or more of a node is understood") {
  // An earlier version shows nothing of links; a later one shows what this plugin does not know.
  for (const std::size_t bytes :
       {offsetof(bf_node_candidate, in_per_s), sizeof(bf_node_candidate) + 16}) {
    CAPTURE(bytes);
    static bf_policy_host host;
    host = plugin::policy_host();
    host.struct_bytes[BF_STRUCT_NODE_CANDIDATE] = static_cast<std::uint32_t>(bytes);
    const bf_policy& policy =
        *tables_of(*plugin_file("dispatch_nearest_by_link"), host).policies[0];
    const auto& functions = *static_cast<const bf_dispatch_unstable*>(policy.unstable);
    bf_policy_context context{};
    void* const made = policy.common->make(policy.user, &context);
    REQUIRE(made != nullptr);
    // The second node has less before it, and a link that is slow.
    std::vector<engine::NodeCandidate> nodes(2);
    nodes[0] = {NodeId(1), 1, 1, 3, 0, 0};
    nodes[1] = {NodeId(2), 1, 1, 1, 0, 0};
    nodes[1].in_per_s = 1000;
    nodes[1].to_fetch = 10'000;
    for (engine::NodeCandidate& one : nodes) one.to_send = 1;
    std::string packed(2 * bytes, '\xff');
    for (std::size_t i = 0; i < 2; ++i)
      std::memcpy(&packed[i * bytes], &nodes[i], std::min(bytes, sizeof(bf_node_candidate)));
    engine::WorkCandidate work{};
    work.prepare_s = 1;
    const bf_nodes_view view{reinterpret_cast<const bf_work_candidate*>(&work),
                             reinterpret_cast<const bf_node_candidate*>(packed.data()), 2};
    CHECK(functions.choose_node(made, &view) == (bytes > sizeof(bf_node_candidate) ? 0u : 1u));
    policy.common->end(made);
  }
}

TEST_CASE("what a policy saves is handed to the next version of it") {
  const plugin::Plugin plugin(plugin_file("several"));
  const engine::PolicyEntry& entry = *plugin.policies().at(0);
  const engine::PolicyChoice choice{&entry, Parameters(entry.parameters)};
  const auto first = choice.make_eviction(10, 5, Random(1));
  first->inserted({ItemId(3)});
  for (int i = 0; i < 1000; ++i) first->hit({ItemId(3)});
  const auto second = choice.make_eviction(10, 5, Random(1));
  engine::hand_over(choice, *first, choice, *second);
  std::vector<std::byte> saved(100);
  REQUIRE(second->save(saved) == 8);
  CHECK(static_cast<int>(saved[0]) + 256 * static_cast<int>(saved[1]) == 1000);
}

}  // namespace batchflow::test::plugin_hosted_test
