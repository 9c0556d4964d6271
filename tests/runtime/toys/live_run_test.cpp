// One scenario, simulated and run live: the same jobs train on the same samples, and one program
// compares the two results.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "doctest/doctest.h"
#include "fmt/format.h"
#include "programs/output/results.h"
#include "tests/runtime/service/daemon.h"
#include "tests/skip.h"
#include "tests/temporary_folder.h"

namespace batchflow::test::live_run_test {
namespace {

struct Place {
  TemporaryFolder folder;
  std::string socket = folder / "b.sock";

  std::vector<std::string> arguments() const {
    return {
        "--open-datasets", "--memory",       "512mib",    "--http", "-1",       "--socket", socket,
        "--state",         folder / "state", "--workers", "2",      "--journal"};
  }
  std::string name(const char* file) const { return folder / file; }
};

struct Outcome {
  int code;
  std::string text;  // both streams
};
Outcome shell(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
    text.append(piece.data(), got);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), text};
}

std::string live(const Place& place, const std::string& words,
                 const std::string& bound = "timeout -s KILL 120") {
  return fmt::format("{} {} --service {} run {}", bound, BATCHFLOWCTL, place.socket, words);
}

bool can_simulate() {
  return shell(fmt::format("{} run toy-jobs --set ends_after=1ms", BATCHFLOW_SIM)).code == 0;
}

// `changes`: of the scenario, for both.
void check_agreement(const std::string& changes) {
  CAPTURE(changes);
  const Place place;
  const Outcome simulated = shell(
      fmt::format("{} run toy-jobs {} --json={}", BATCHFLOW_SIM, changes, place.name("sim.json")));
  REQUIRE_MESSAGE(simulated.code == 0, simulated.text);
  Daemon daemon(place.arguments(), place.socket);
  const Outcome run_live =
      shell(live(place, fmt::format("toy-jobs {} --make-data {} --json={}", changes,
                                    place.name("data"), place.name("live.json"))));
  REQUIRE_MESSAGE(run_live.code == 0, run_live.text);

  const auto runs = [&](const char* file) {
    return output::parse_results(output::read_results_file(place.name(file)), file);
  };
  const output::RunResult sim = runs("sim.json").at(0), real = runs("live.json").at(0);
  CHECK(real.scenario == sim.scenario);
  CHECK(real.seed == sim.seed);
  CHECK(real.policies == sim.policies);
  // Settings of the engine that are not the same are named.
  const bool waits = changes.find("retry_wait") != std::string::npos;
  CHECK((real.remark.find("retry_wait 10000000ns, not 20000000ns") != std::string::npos) == waits);
  CHECK(real.remark.find("generation_epochs") == std::string::npos);
  // Nothing else of the engine differs but where reads land, which is on purpose.
  CHECK(real.workload == sim.workload);
  std::string differing;
  REQUIRE(real.settings.size() == sim.settings.size());
  for (std::size_t i = 0; i < sim.settings.size(); ++i) {
    CHECK(real.settings[i].first == sim.settings[i].first);
    if (real.settings[i] != sim.settings[i]) differing += real.settings[i].first + " ";
  }
  const std::string staging = "count_staging staging_bytes staging_sector_bytes ";
  CHECK(differing == (waits ? "retry_wait " + staging : staging));
  for (const char* part :
       {"count_staging true, not false", "staging_sector_bytes 4096, not 1", "staging_bytes ",
        " bytes of cache, not 256000000", "16 samples of rows are read at once, not 1"})
    CHECK_MESSAGE(real.remark.find(part) != std::string::npos, real.remark);
  CHECK(real.remark.find("workers") == std::string::npos);
  CHECK(real.remark.find("credits") == std::string::npos);
  CHECK_FALSE(output::is_measured(real, "aggregate.cached_bytes_most"));
  CHECK(output::is_measured(sim, "aggregate.cached_bytes_most"));
  CHECK(real.digest.size() == 16);
  CHECK(real.failure == "");  // this includes that each sample came once an epoch
  REQUIRE(real.jobs.size() == sim.jobs.size());
  for (std::size_t i = 0; i < sim.jobs.size(); ++i) {
    CAPTURE(sim.jobs[i].name);
    CHECK(real.jobs[i].name == sim.jobs[i].name);
    CHECK(real.jobs[i].dataset == sim.jobs[i].dataset);
    CHECK(real.jobs[i].state == "done");
    CHECK(sim.jobs[i].state == "done");
    CHECK(real.jobs[i].ranks == sim.jobs[i].ranks);
    CHECK(real.jobs[i].epochs == sim.jobs[i].epochs);
    CHECK(real.jobs[i].batches == sim.jobs[i].batches);
    CHECK(real.jobs[i].samples == sim.jobs[i].samples);
    CHECK(real.jobs[i].fillers == sim.jobs[i].fillers);
    CHECK(real.jobs[i].rehearsed == sim.jobs[i].rehearsed);
    CHECK((real.jobs[i].rehearsed > 0) == (i == 0 && !changes.empty()));
    CHECK(real.jobs[i].compute_s > 0);
  }
  CHECK(real.aggregate.samples == sim.aggregate.samples);
  CHECK(real.aggregate.repeats == 0);
  CHECK(sim.aggregate.repeats == 0);
  const Outcome compared = shell(fmt::format("{} compare {} {}", BATCHFLOW_SIM,
                                             place.name("sim.json"), place.name("live.json")));
  CHECK_MESSAGE(compared.code == 0, compared.text);
  CHECK(compared.text.find("NOT THE SAME SCENARIO") == std::string::npos);
  CHECK(compared.text.find("not measured") != std::string::npos);
  CHECK(compared.text.find("\ncount_staging ") != std::string::npos);
  MESSAGE(compared.text);
  MESSAGE(run_live.text);

  CHECK(daemon.kill(SIGTERM) == 0);
  const Outcome replayed = shell(fmt::format("{} journal replay {}", BATCHFLOW_SIM,
                                             (place.folder / "state/journal").string()));
  CHECK_MESSAGE(replayed.code == 0, replayed.text);
  CHECK(replayed.text.find("digest ") != std::string::npos);
}

}  // namespace

TEST_CASE("a simulated and a live run agree in samples, epochs and repeats") {
  if (!can_simulate()) return skipped("SimGrid is not installed");
  check_agreement("");
}

TEST_CASE("a simulated and a live run agree where one rehearses and one keeps blocks to its node") {
  if (!can_simulate()) return skipped("SimGrid is not installed");
  check_agreement(
      "--set 'jobs.0.rehearsal={samples: 2, exemplars: 100}' --set jobs.1.node_local=true "
      "--set engine.retry_wait=20ms");
}

TEST_CASE("data and policies that are not the scenario's are named, and so is a refused job") {
  if (!can_simulate()) return skipped("SimGrid is not installed");
  const Place place;
  const std::string small = "--set datasets.0.samples=1024 --set jobs.1.epochs=1 ";
  const Outcome simulated = shell(fmt::format("{} run toy-jobs --set jobs.1.epochs=1 --json={}",
                                              BATCHFLOW_SIM, place.name("sim.json")));
  REQUIRE_MESSAGE(simulated.code == 0, simulated.text);
  const Daemon daemon(place.arguments(), place.socket);
  REQUIRE(shell(live(place, small + "toy-jobs --make-data " + place.name("data"))).code == 0);
  // The service has half of the samples, other policies than the scenario, and no room for a job.
  const Outcome run_live = shell(live(
      place, fmt::format("toy-jobs --dataset rows={} --pipeline bytes=bytes --set jobs.1.epochs=1 "
                         "--set engine.policies.eviction.prepared=lru --set jobs.0.batch=200000 "
                         "--json={}",
                         place.name("data/rows"), place.name("live.json"))));
  CHECK_MESSAGE(run_live.code == 1, run_live.text);
  CHECK_MESSAGE(run_live.text.find("job fast was refused: ") != std::string::npos, run_live.text);
  CHECK(run_live.text.find("rows has 1024 samples, not 2048; ") != std::string::npos);
  CHECK(run_live.text.find("eviction.prepared by refcount, not lru") != std::string::npos);
  const Outcome compared = shell(fmt::format("{} compare {} {}", BATCHFLOW_SIM,
                                             place.name("sim.json"), place.name("live.json")));
  CHECK_MESSAGE(compared.code == 0, compared.text);
  CHECK(compared.text.find("NOT THE SAME SCENARIO") != std::string::npos);
  CHECK(compared.text.find("  A: 2048 samples of 4096 bytes\n  B: 1024 samples of 4096 bytes\n") !=
        std::string::npos);
  CHECK(compared.text.find("B: job fast was refused: ") != std::string::npos);
}

TEST_CASE("a scenario that cannot run live is refused with 2, before any data is made") {
  const Place place;
  const auto refused = [&](const std::string& words, const std::string& what) {
    const Outcome outcome = shell(live(place, words));
    CHECK_MESSAGE(outcome.code == 2, outcome.text);
    CHECK_MESSAGE(outcome.text.find(what) != std::string::npos, outcome.text);
  };
  const std::string made = "--make-data " + place.name("data");
  refused("toy-jobs --set 'faults=[{kind: worker-lost, target: node, at: 1s}]'", "faults");
  refused("toy-jobs " + made + " --make-most 1mib", "8.0 MiB would be made, and at most 1.0");
  refused("toy-jobs " + made + " --set datasets.0.samples=1000000000", "would be made");
  refused("toy-jobs " + made + " --set datasets.0.name=../rows", "there is no dataset");
  refused("toy-jobs --dataset rows", "write NAME=PATH");
  refused("toy-job", "toy-jobs");
  refused("toy-jobs --json=/nowhere/x.json", "/nowhere");
  CHECK_FALSE(std::filesystem::exists(place.folder / "data"));
}

TEST_CASE("a service that is not there, or refuses the jobs, is a failure that says what to do") {
  const Place place;
  Outcome outcome = shell(live(place, "toy-jobs"));
  CHECK(outcome.code == 1);
  CHECK(outcome.text.find("start batchflowd") != std::string::npos);
  const Daemon daemon(place.arguments(), place.socket);
  outcome = shell(live(place, "toy-jobs"));
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(outcome.text.find("no dataset is called 'rows'") != std::string::npos,
                outcome.text);
}

TEST_CASE("an interrupted run ends at once, with the results so far and 130") {
  const Place place;
  const Daemon daemon(place.arguments(), place.socket);
  const std::string command = live(place,
                                   fmt::format("toy-jobs --make-data {} --time-scale 100 --json={}",
                                               place.name("data"), place.name("cut.json")),
                                   "exec");
  const pid_t run = fork();
  REQUIRE(run >= 0);
  if (run == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/bin/sh", "sh", "-c", (command + " > /dev/null").c_str(), nullptr);
    _exit(127);
  }
  const std::string jobs = fmt::format("{} --service {} jobs", BATCHFLOWCTL, place.socket);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (shell(jobs).text.find("pair") == std::string::npos &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(run, SIGINT);
  int status = 0;
  waitpid(run, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  const output::RunResult cut =
      output::parse_results(output::read_results_file(place.name("cut.json")), "cut").at(0);
  CHECK(cut.interrupted);
  CHECK(cut.jobs.size() == 3);
  CHECK(cut.makespan_s < 60);
}

}  // namespace batchflow::test::live_run_test
