// The report of a study, in cases that no built-in policy can show.
#include "sim/cache_study.h"

#include <doctest/doctest.h>

#include "policies/registry.h"

namespace batchflow::test::cache_study_test {
using namespace batchflow::sim;

TEST_CASE("refused proposals are a failure that the table and the exit code tell") {
  sim::CacheStudy study;
  study.trace = traces::open_access_trace("gen:perm,n=20,epochs=2");
  study.policies = sim::parse_policies(policies::policy_list(), {"lru,fifo"});
  study.sizes = sim::usual_sizes(study.trace.working_set_bytes);
  sim::run_cache_study(study, 1, sim::replay_through_share);
  CHECK(sim::cache_exit_code(study) == 0);
  CHECK(sim::cache_table(study).find("refused") == std::string::npos);
  study.results.back().refused = 3;
  CHECK(sim::cache_exit_code(study) == 1);
  CHECK(sim::cache_table(study).find("3 proposals of fifo broke a rule") != std::string::npos);
}

TEST_CASE("the usual sizes are those that are a byte") {
  CHECK(sim::usual_sizes(1000).size() == 5);
  CHECK(sim::usual_sizes(8).size() == 3);  // 25%, 50%, 75%
  CHECK(sim::usual_sizes(1).front().bytes == 1);
}

}  // namespace batchflow::test::cache_study_test
