// `batchflow-sim journal replay` as a user calls it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/engine/engine.h"
#include "core/log/journal.h"
#include "policies/registry.h"
#include "programs/config/engine_settings.h"
#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::journal_test {

namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string scenario() {
  return "cluster: {nodes: [{name: node, cores: 4, gpus: 4, memory: 1gb}]}\n"
         "datasets: [{name: data, samples: 640, bytes: 10kb, bytes_jitter: 0.3}]\n"
         "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n"
         "jobs: [{dataset: data, pipeline: train, count: 2, batch: 16, step: 20ms}]\n"
         "grain: {items_per_block: 16}\n";
}

}  // namespace

TEST_CASE("a journal needs nothing but itself to be replayed, by text and by JSON") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = folder.name("r.journal");
  const Outcome ran = run({"run", folder.file("s.yaml", scenario()), "--journal", journal,
                           "--policy", "eviction=sieve", "--json"});
  REQUIRE(ran.code == 0);
  const auto of_run = nlohmann::json::parse(ran.out)["runs"][0];
  const Outcome outcome = run({"journal", "replay", journal});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("digest " + of_run["digest"].get<std::string>()) != std::string::npos);
  const Outcome json = run({"journal", "replay", journal, "--json"});
  CHECK(json.code == 0);
  const auto replayed = nlohmann::json::parse(json.out);
  CHECK(replayed["same"] == true);
  CHECK(replayed["digest"] == of_run["digest"]);
  CHECK(replayed["steps"] == of_run["steps"]);
  CHECK(replayed["end"] == "closed");
  CHECK(replayed["recorded_by"] == BATCHFLOW_VERSION);
  const Outcome told = run({"journal", "replay", journal, "--explain"});
  CHECK(told.code == 0);
  CHECK(told.out.find(" ? dispatch batchflow: starts a block for job ") != std::string::npos);
  CHECK(told.out.find("digest " + of_run["digest"].get<std::string>()) != std::string::npos);
}

TEST_CASE("the journal of a run in which a job went back to its checkpoint is replayed") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = folder.name("r.journal");
  const Outcome ran = run({"run", folder.file("s.yaml", scenario()), "--journal", journal, "--json",
                           "--set", "jobs.0.checkpoint={every: 3}", "--set",
                           "faults=[{kind: node-lost, target: node, at: 500ms, lasts: 1s}]"});
  REQUIRE(ran.code == 0);
  const auto of_run = nlohmann::json::parse(ran.out)["runs"][0];
  CHECK(of_run["jobs"][0]["repeated_samples"] > 0);
  const Outcome json = run({"journal", "replay", journal, "--json"});
  CHECK(json.code == 0);
  CHECK(nlohmann::json::parse(json.out)["same"] == true);
  CHECK(nlohmann::json::parse(json.out)["digest"] == of_run["digest"]);
}

TEST_CASE("a journal tells what memory was expected to bring, and what came of it") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = folder.name("r.journal");
  REQUIRE(
      run({"run", "four-jobs", "--set", "datasets.0.samples=5120", "--journal", journal}).code ==
      0);
  const Outcome told = run({"journal", "replay", journal, "--explain"});
  CHECK(told.code == 0);
  const std::size_t expects = told.out.find(": what it expects (workers busy 0.");
  const std::size_t outcome = told.out.find(": what came of it (workers busy 0.");
  CHECK(expects != std::string::npos);
  CHECK(outcome != std::string::npos);
  CHECK(expects < outcome);
}

TEST_CASE("a difference is 1 and named, what is no journal is 2") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string path = folder.name("r.journal");
  REQUIRE(run({"run", folder.file("s.yaml", scenario()), "--journal", path}).code == 0);
  const std::string whole = read_text(path);

  // The same events for an engine with another configuration.
  const auto bytes = std::as_bytes(std::span(whole));
  log::JournalReader reader(bytes, "j");
  log::JournalHeader header = reader.header();
  const std::size_t at = header.configuration.find("policies.scaling=");
  REQUIRE(at != std::string::npos);
  header.configuration.replace(at, header.configuration.find('\n', at) - at,
                               "policies.scaling=static:depth=1");
  std::string other;
  {
    engine::Engine engine(config::engine_config_of(reader.header().configuration, "c"),
                          policies::policy_list(), reader.catalogues());
    log::Journal changed(header, reader.catalogues(), log::FrameWriter::kNoBound);
    while (const auto step = reader.next()) {
      changed.record_events(step->now, step->events);
      changed.record_commands(engine.step(step->now, step->events));
    }
    changed.close();
    const auto pending = changed.pending();
    other.assign(reinterpret_cast<const char*>(pending.data()), pending.size());
  }
  const Outcome differs = run({"journal", "replay", folder.file("other.journal", other), "--json"});
  CHECK(differs.code == 1);
  const auto json = nlohmann::json::parse(differs.out);
  CHECK(json["same"] == false);
  CHECK(json["report"].get<std::string>().starts_with(
      fmt::format("step {} at ", json["first_difference"].get<std::uint64_t>())));
  CHECK(differs.err.find("not as recorded; step ") != std::string::npos);

  std::string flipped = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
  const auto refused = [&](const std::string& file, const std::string& what) {
    const Outcome outcome = run({"journal", "replay", file});
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_MESSAGE(outcome.err.find(what) != std::string::npos, outcome.err);
  };
  refused(folder.file("flipped.journal", flipped), "damaged at byte");
  refused(folder.file("text", "no journal"), "not a journal of BatchFlow");
  refused(folder.file("short", whole.substr(0, 20)), "cut before its first step");
  refused(folder.file("old", whole.substr(0, 8) + std::string("\4\0\0\0", 4) + whole.substr(12)),
          "version 4");
  refused(folder.name("none"), "cannot be read");
  refused("/dev/zero", "cannot be read");
  refused(folder.path().string(), "cannot be read");
  const Outcome torn =
      run({"journal", "replay", folder.file("torn", whole.substr(0, whole.size() - 9))});
  CHECK(torn.code == 0);
  CHECK(torn.out.find("has no end") != std::string::npos);
}

}  // namespace batchflow::test::journal_test
