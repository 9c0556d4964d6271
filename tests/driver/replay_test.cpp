// The same scenario gives the same commands: again in this process, in another one, and when its
// journal is replayed into a new engine.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "core/log/journal.h"
#include "policies/registry.h"
#include "programs/config/engine_settings.h"
#include "programs/config/replay_journal.h"
#include "tests/driver/driver.h"
#include "tests/driver/trace.h"

namespace batchflow::test::replay_test {

namespace {

// All commands of a run in words, a line each.
std::vector<std::string> commands_of(std::uint64_t seed) {
  std::vector<std::string> lines;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) { lines.push_back(text(command)); };
  Driver(random_scenario(seed), policies::policy_list(), hooks).run();
  return lines;
}

std::uint64_t digest_of_run(std::uint64_t seed) {
  return Driver(random_scenario(seed), policies::policy_list()).run().digest;
}

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output += buffer.data();
  pclose(pipe);
  return output;
}

bool loses_its_engine(const Scenario& scenario) {
  for (const Fault& fault : scenario.faults) {
    if (fault.kind == Fault::Kind::coordinator_lost) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a run repeated in one process gives the same commands") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    if (digest_of_run(seed) == digest_of_run(seed)) continue;
    const auto one = commands_of(seed);
    const auto other = commands_of(seed);
    std::size_t at = 0;
    while (at < one.size() && at < other.size() && one[at] == other[at]) ++at;
    FAIL_CHECK(fmt::format("seed {}: command {} is '{}' and '{}'", seed, at,
                           at < one.size() ? one[at] : "none",
                           at < other.size() ? other[at] : "none"));
  }
}

TEST_CASE("print digests") {  // for the test below
  if (std::getenv("BATCHFLOW_PRINT_DIGESTS") == nullptr) return;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) fmt::print("digest {:x}\n", digest_of_run(seed));
}

TEST_CASE("two processes give the same commands") {
  std::array<char, 4096> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  REQUIRE(length > 0);
  const std::string command =
      fmt::format("BATCHFLOW_PRINT_DIGESTS=1 '{}' -tc='print digests' | grep ^digest", path.data());
  const std::string one = output_of(command);
  CHECK(std::count(one.begin(), one.end(), '\n') == 8);
  CHECK(one == output_of(command));
  CHECK(one.starts_with(fmt::format("digest {:x}\n", digest_of_run(1))));
}

TEST_CASE("a journal replayed into a new engine gives the same commands") {
  std::uint64_t replayed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = random_scenario(seed);
    if (loses_its_engine(scenario)) continue;
    // Of its own choice it is seldom one that chooses nodes, by what it is shown of their links.
    if (seed % 4 == 0) scenario.config.policies.dispatch = "nearest-by-link";
    engine::Catalogues catalogues;
    for (const DatasetPlan& plan : scenario.datasets) {
      catalogues.add(plan.id, plan.catalogue());
    }
    for (const PipelinePlan& plan : scenario.pipelines) catalogues.add(plan.id, plan.info);
    log::Journal journal({seed, config::text_of(scenario.config), "test"}, catalogues,
                         Bytes{1} << 30);
    std::vector<std::byte> bytes;
    Hooks hooks;
    hooks.before_step = [&](Instant now, std::span<const engine::Event> events) {
      journal.record_events(now, events);
    };
    hooks.stepped = [&](std::span<const engine::Command> commands) {
      journal.record_commands(commands);
    };
    const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
    journal.close();
    bytes.assign(journal.pending().begin(), journal.pending().end());
    CHECK(journal.digest() == out.digest);

    log::JournalReader reader(bytes, "journal");
    const log::ReplayResult result = config::replay_journal(reader, policies::policy_list());
    CHECK_MESSAGE(result.same(), fmt::format("seed {}: {}", seed, result.report));
    CHECK(result.digest == out.digest);
    CHECK(result.steps == out.steps);
    ++replayed;
  }
  CHECK(replayed > 30);
}

}  // namespace batchflow::test::replay_test
