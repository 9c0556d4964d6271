// Whatever the engine is told, in whatever order: no check fails and no step throws.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/engine/hostile_events.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test::event_fuzz_test {

namespace {

// What ends a step in disorder ends the test with it. Events that are all refused at the door would
// find nothing, so it is counted what they brought about.
void run_hostile(std::string_view test_case, std::uint64_t seeds) {
  engine::EngineCounters sum;
  std::uint64_t admitted = 0;
  for_seeds("test_engine", test_case, seeds, [&](std::uint64_t seed) {
    HostileEvents events(seed);
    events.run(200);
    const engine::EngineCounters counters = events.engine().counters();
    sum.batches += counters.batches;
    sum.preparations += counters.preparations;
    sum.remakes += counters.remakes;
    sum.corrupt_samples += counters.corrupt_samples;
    sum.failed_reads += counters.failed_reads;
    sum.protocol_errors += counters.protocol_errors;
    admitted += events.admitted();
  });
  MESSAGE(admitted << " admitted, " << sum.batches << " batches, " << sum.preparations
                   << " preparations, " << sum.remakes << " remakes, " << sum.corrupt_samples
                   << " corrupt, " << sum.failed_reads << " failed reads, " << sum.protocol_errors
                   << " protocol errors");
  if (std::getenv("BATCHFLOW_SEED") != nullptr) return;
  CHECK(admitted > seeds);
  CHECK(sum.batches > 10 * seeds);
  CHECK(sum.preparations > 5 * seeds);
  CHECK(sum.corrupt_samples > 0);
  CHECK(sum.failed_reads > seeds / 10);
  CHECK(sum.protocol_errors > 10 * seeds);
}

}  // namespace

TEST_CASE("any events in any order: no check fails, no step throws") {
  run_hostile("any events in any order: no*", sanitized_share(300));
}

TEST_SUITE("long") {
  TEST_CASE("many seeds of any events in any order: no check fails, no step throws") {
    run_hostile("many seeds of any events*", 50'000);
  }
}

}  // namespace batchflow::test::event_fuzz_test
