// The cache that is studied is the engine's: every policy misses the same requests when a trace
// goes through Engine::step, where misses are the reads that the engine commands.
#include <doctest/doctest.h>

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

}  // namespace

TEST_CASE("every policy counts the same through the engine") {
  compare("gen:perm,n=500,epochs=3,jobs=3", {5, 50});
  compare("gen:zipf,n=500,requests=20000", {10, 100});
  compare("gen:weighted,n=400,epochs=3", {20});
}

TEST_SUITE("long") {
  TEST_CASE("every policy counts the same through the engine, on larger traces") {
    compare("gen:perm,n=20000,epochs=4,jobs=4", {1, 10, 50});
    compare("gen:zipf,n=20000", {1, 10, 50});
    compare("gen:zipf,n=500", {10, 100});
  }
}

}  // namespace batchflow::test::through_engine_test
