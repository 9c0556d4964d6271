// The cache that is studied is the engine's: every policy misses the same requests when a trace
// goes through Engine::step, where misses are the reads that the engine commands.
#include <doctest/doctest.h>

#include <vector>

#include "core/engine/placement.h"
#include "policies/registry.h"
#include "sim/replay.h"
#include "traces/access_trace.h"

namespace batchflow::test::through_engine_test {
using namespace batchflow::sim;

namespace {

void compare(const std::string& name, std::initializer_list<std::uint64_t> percents) {
  const traces::AccessTrace trace = traces::open_access_trace(name);
  for (const engine::PolicyEntry* entry :
       policies::policy_list().of_kind(engine::PolicyKind::eviction)) {
    const engine::PolicyChoice policy =
        policies::policy_list().choose(engine::PolicyKind::eviction, entry->name);
    for (const std::uint64_t percent : percents) {
      CAPTURE(name);
      CAPTURE(entry->name);
      CAPTURE(percent);
      const Bytes capacity = trace.working_set_bytes * percent / 100;
      const sim::ReplayCounts direct = sim::replay_through_share(trace, policy, capacity, {});
      const sim::ReplayCounts engine = sim::replay_through_engine(trace, policy, capacity, {});
      CHECK(direct.requests == engine.requests);
      CHECK(direct.misses == engine.misses);
      CHECK(direct.bytes_requested == engine.bytes_requested);
      CHECK(direct.bytes_missed == engine.bytes_missed);
      CHECK(direct.evictions == engine.evictions);
      CHECK(engine.refused == 0);
    }
  }
}

sim::AccessReplayOptions on_nodes(std::uint32_t nodes) {
  sim::AccessReplayOptions options;
  options.nodes = nodes;
  return options;
}

}  // namespace

TEST_CASE("every policy counts the same through the engine") {
  compare("gen:perm,n=500,epochs=3,jobs=3", {5, 50});
  compare("gen:zipf,n=500,requests=20000", {10, 100});
  compare("gen:weighted,n=400,epochs=3", {20});
}

// A fetch is a request for an item that has been read before, and has its home on another node.
TEST_CASE("nodes that share a cache with room for all read each item from the store once") {
  const engine::PolicyChoice lru =
      policies::policy_list().choose(engine::PolicyKind::eviction, "lru");
  for (const std::string name :
       {"gen:perm,n=500,epochs=3,jobs=3", "gen:zipf,n=500,requests=5000,size=3,size_most=90"}) {
    const traces::AccessTrace trace = traces::open_access_trace(name);
    for (const std::uint32_t nodes : {1u, 2u, 3u, 4u}) {
      CAPTURE(name);
      CAPTURE(nodes);
      std::vector<NodeId> ids;
      for (std::uint32_t i = 1; i <= nodes; ++i) ids.emplace_back(i);
      const engine::Placement homes(0, ids);
      std::vector<bool> seen(trace.distinct_items());
      std::uint64_t fetches = 0;
      for (std::size_t i = 0; i < trace.requests(); ++i) {
        const SampleId item(trace.items[i]);
        if (seen[item.value] && homes.owner(1, item) != ids[i % nodes]) ++fetches;
        seen[item.value] = true;
      }
      const Bytes capacity = trace.working_set_bytes / 12 * 12 * 2;  // alike on all nodes
      const sim::ReplayCounts counts =
          sim::replay_through_engine(trace, lru, capacity, on_nodes(nodes));
      CHECK(counts.requests == trace.requests());
      CHECK(counts.misses == trace.distinct_items());
      CHECK(counts.bytes_missed == trace.working_set_bytes);
      CHECK(counts.fetches == fetches);
      CHECK(counts.evictions == 0);
      CHECK((fetches > 0) == (nodes > 1));
    }
  }
}

TEST_CASE("every policy plays by the rules where nodes share a small cache") {
  const traces::AccessTrace trace = traces::open_access_trace("gen:zipf,n=500,requests=5000");
  for (const engine::PolicyEntry* entry :
       policies::policy_list().of_kind(engine::PolicyKind::eviction)) {
    CAPTURE(entry->name);
    const engine::PolicyChoice policy =
        policies::policy_list().choose(engine::PolicyKind::eviction, entry->name);
    const sim::ReplayCounts counts =
        sim::replay_through_engine(trace, policy, trace.working_set_bytes / 3, on_nodes(3));
    CHECK(counts.requests == trace.requests());
    CHECK(counts.misses >= trace.distinct_items());
    CHECK(counts.misses + counts.fetches < counts.requests);
    CHECK(counts.evictions <= counts.misses);
    CHECK(counts.refused == 0);
  }
}

TEST_SUITE("long") {
  TEST_CASE("every policy counts the same through the engine, on larger traces") {
    compare("gen:perm,n=20000,epochs=4,jobs=4", {1, 10, 50});
    compare("gen:zipf,n=20000", {1, 10, 50});
    compare("gen:zipf,n=500", {10, 100});
  }
}

}  // namespace batchflow::test::through_engine_test
