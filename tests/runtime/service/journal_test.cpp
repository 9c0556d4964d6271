// A live service's journal decides the same once more, whatever happened in the run; and a journal
// in which anything was changed does not.
#include "core/log/journal.h"
#include "programs/config/engine_settings.h"
#include "programs/config/replay_journal.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/engine/engine.h"
#include "policies/registry.h"
#include "runtime/protocol/channel.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::journal_test {
namespace {

constexpr std::uint64_t kRows = 1500;

// A node with a journal, small enough for every batch to be of one sample, and reads that fail.
struct Node {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  std::filesystem::path journal = folder.path() / "state" / "journal";

  Node() {
    const std::filesystem::path place = folder.path();
    std::filesystem::create_directory(place / "rows");
    write_rows(place / "rows" / "rows.npy", kRows, 4);
    std::filesystem::create_directories(place / "pictures" / "one");
    for (std::uint32_t i = 0; i < 40; ++i) {
      Encoded bytes = encode_jpeg(16, 16, {}, i);
      if (i % 13 == 5) bytes.resize(bytes.size() / 3);  // cannot be decoded
      std::ofstream(place / "pictures" / "one" / fmt::format("{}.jpg", i), std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
    std::ofstream(place / "small.yaml") << "kind: pipeline\nname: small\nsteps:\n"
                                           "  - {step: decode}\n"
                                           "  - {step: random_resized_crop, size: 8}\n";
    std::ofstream(place / "node.yaml")
        << "kind: node\nmemory: 512mib\nworkers: 2\njournal: true\n"
        << "socket: " << socket << "\nstate: " << (place / "state").string() << "\n"
        << "http: {port: -1}\n"
        << "pipelines: [" << (place / "small.yaml").string() << "]\n"
        << "datasets:\n  - {name: rows, path: " << (place / "rows").string() << "}\n"
        << "  - {name: pictures, path: " << (place / "pictures").string() << ", pipeline: small}\n"
        << "engine: {corrupt_ratio_max: 20%, rank_timeout: 200ms, read_attempts: 15,\n"
        << "  retry_wait: 100us, block_bytes: 4kib}\n";
  }
  std::vector<std::string> arguments() const { return {"--config", folder.path() / "node.yaml"}; }
  JobPlan plan(std::uint64_t round, const std::string& name) const {
    JobPlan made;
    made.service = socket;
    made.name = fmt::format("{}-{}", name, round);
    made.batch = 1;
    made.epochs = 1;
    made.width = 4;
    return made;
  }
  nlohmann::json ask(const nlohmann::json& question) const {
    std::string problem;
    protocol::Channel channel = protocol::Channel::connect(socket, problem);
    const auto until = protocol::Channel::Clock::now() + std::chrono::seconds(20);
    REQUIRE(channel.send(question.dump(), {}, until));
    const auto frame = channel.receive(until);
    REQUIRE(frame);
    return nlohmann::json::parse(frame->text);
  }
  void swap(const std::string& policy) const {
    CHECK(ask({{"type", "command"}, {"name", "policy_set"}, {"arguments", {{"policy", policy}}}})
              .at("type") == "answer");
  }
  nlohmann::json status() const { return ask({{"type", "command"}, {"name", "status"}}); }
};

// A job in a process of its own, which exits with 0 when all was as it should be.
template <class Work>
pid_t begin(const Work& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(work() ? 0 : 1);
  return child;
}

// Says which job was not handed what it was promised, and why.
bool is_well(const JobPlan& plan, const Handed& handed, bool as_promised) {
  if (handed.wrong.empty() && as_promised) return true;
  fmt::print(stderr, "job {}: {} batches of {} epochs; {}\n", plan.name, handed.batches,
             handed.epochs.size(), handed.wrong);
  return false;
}

// After so many batches, whatever it holds, or when it ends.
bool run_until_killed(JobPlan plan, std::uint64_t batches) {
  std::atomic<std::uint64_t> count{0};
  plan.count = &count;
  plan.pause_us = 100;
  std::thread([&] {
    while (count < batches) std::this_thread::sleep_for(std::chrono::microseconds(50));
    kill(getpid(), SIGKILL);
  }).detach();
  run_job(plan);
  return raise(SIGKILL) == 0;
}

// Jobs that train, that leave with batches in their hands, that are killed, ranks that die, corrupt
// samples, policies that change: until the engine has been told so much.
void bustle(const Node& node, std::uint64_t events) {
  const char* const kSwaps[] = {
      "eviction=sieve",         "dispatch=fifo",         "selection=strict",
      "scaling=static:depth=3", "eviction.prepared=lru", "dispatch=earliest-deadline",
      "selection=ready-first",  "scaling=look-ahead",    "eviction.prepared=refcount",
      "preset=independent",     "preset=quiver",         "preset=coordl",
      "selection=seneca",       "preset=default"};
  for (std::uint64_t round = 0; node.status().at("events") < events; ++round) {
    std::vector<pid_t> well, killed;
    for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
      well.push_back(begin([&, order] {
        JobPlan plan = node.plan(round, order == BF_STRICT ? "strict" : "relaxed");
        plan.order = order;
        plan.epochs = 2;
        const Handed handed = run_job(plan);
        return is_well(plan, handed,
                       handed.repeats == 0 && handed.epochs.size() == 2 &&
                           is_whole(handed.epochs.begin()->second, kRows) &&
                           is_whole(handed.epochs.rbegin()->second, kRows));
      }));
    }
    well.push_back(begin([&] {
      JobPlan plan = node.plan(round, "pictures");
      plan.dataset = "pictures";
      plan.width = 0;  // contents are not known
      const Handed handed = run_job(plan);
      return is_well(plan, handed,
                     handed.epochs.size() == 1 && handed.epochs.begin()->second.size() == 40);
    }));
    well.push_back(begin([&] {
      JobPlan plan = node.plan(round, "leaves");
      plan.batches_most = 20 + round % 7;
      plan.keep = true;
      return is_well(plan, run_job(plan), true);
    }));
    killed.push_back(begin([&] {
      JobPlan plan = node.plan(round, "killed");
      plan.keep = true;
      return run_until_killed(plan, 3 + round % 5);
    }));
    for (const std::uint32_t rank : {0u, 1u}) {
      killed.push_back(begin([&, rank] {
        JobPlan plan = node.plan(round, "pair");
        plan.rank = rank;
        plan.world = 2;
        // Rank 0 is told that the other is gone.
        return run_until_killed(plan, rank == 1 ? 50 : UINT64_MAX);
      }));
    }
    node.swap(kSwaps[round % std::size(kSwaps)]);
    for (const pid_t child : well) {
      int status = 0;
      waitpid(child, &status, 0);
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
    }
    for (const pid_t child : killed) {
      int status = 0;
      waitpid(child, &status, 0);
      CHECK(WIFSIGNALED(status));
    }
  }
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// What the journal says has happened, by kind of event; failures and corruption by what they hit.
std::map<std::string, std::uint64_t> happened(std::span<const std::byte> journal) {
  std::map<std::string, std::uint64_t> counts;
  log::JournalReader reader(journal, "journal");
  while (const auto step = reader.next()) {
    counts["long steps"] += engine::events_of_one_step(step->events) < step->events.size();
    for (const engine::Event& event : step->events) {
      ++counts["events"];
      if (std::holds_alternative<engine::RankLost>(event)) ++counts["rank lost"];
      if (std::holds_alternative<engine::JobLeft>(event)) ++counts["job left"];
      if (std::holds_alternative<engine::PolicyChanged>(event)) ++counts["policy changed"];
      if (const auto* read = std::get_if<engine::ReadDone>(&event))
        counts["read failed"] += read->outcome == engine::Outcome::failed;
      if (const auto* made = std::get_if<engine::PreparationDone>(&event))
        counts["corrupt"] += made->outcome == engine::Outcome::corrupt;
    }
  }
  return counts;
}

void live_and_replay(std::uint64_t events) {
  Node node;
  setenv("BATCHFLOW_FAILPOINTS", "seed=5,storage.read.error=fail:1:2", 1);
  Daemon daemon(node.arguments(), node.socket);
  unsetenv("BATCHFLOW_FAILPOINTS");
  bustle(node, events);
  CHECK(node.status().at("journal").at("has_ended") == false);
  CHECK(daemon.kill(SIGTERM) == 0);

  const std::vector<std::byte> journal = read_file(node.journal);
  std::map<std::string, std::uint64_t> counts = happened(journal);
  CHECK(counts["events"] >= events);
  CHECK(counts["long steps"] == 0);
  for (const char* const kind :
       {"rank lost", "job left", "policy changed", "read failed", "corrupt"})
    CHECK_MESSAGE(counts[kind] > 0, kind);
  log::JournalReader reader(journal, "journal");
  const log::ReplayResult replayed = config::replay_journal(reader, policies::policy_list());
  CHECK_MESSAGE(replayed.same(), replayed.report);
  CHECK(replayed.events == counts["events"]);
  CHECK(reader.end() == log::LogEnd::closed);
  CHECK(reader.final_digest() == replayed.digest);
  MESSAGE(
      fmt::format("{} steps, {} events in {} bytes, digest {:016x}; {} ranks lost, {} policies "
                  "changed, {} reads failed",
                  replayed.steps, replayed.events, journal.size(), replayed.digest,
                  counts["rank lost"], counts["policy changed"], counts["read failed"]));
}

}  // namespace

TEST_CASE("a live run with faults replays to the same digest") {
  live_and_replay(50'000);
}

TEST_SUITE("long") {
  TEST_CASE("a live run of a million events with faults replays to the same digest") {
    live_and_replay(1'000'000);
  }
}

namespace {

// Of some hundred steps.
std::vector<std::byte> small_journal(int signal) {
  Node node;
  Daemon daemon(node.arguments(), node.socket);
  JobPlan plan = node.plan(0, "small");
  plan.batches_most = 100;
  CHECK(run_job(plan).wrong == "");
  daemon.kill(signal);
  return read_file(node.journal);
}

}  // namespace

TEST_CASE("a service that is killed leaves a journal that replays, and the next keeps it") {
  Node node;
  Daemon daemon(node.arguments(), node.socket);
  JobPlan plan = node.plan(0, "cut");
  plan.batches_most = 100;
  CHECK(run_job(plan).wrong == "");
  CHECK(daemon.kill(SIGKILL) == -SIGKILL);
  std::vector<std::byte> journal = read_file(node.journal);
  for (const std::size_t torn : {0, 1, 7, 30}) {
    const std::span<const std::byte> whole = journal;
    log::JournalReader reader(whole.first(whole.size() - torn), "journal");
    const log::ReplayResult replayed = config::replay_journal(reader, policies::policy_list());
    CHECK_MESSAGE(replayed.same(), replayed.report);
    CHECK(replayed.events > 100);
    CHECK(reader.end() == log::LogEnd::none);
  }
  daemon.start();
  const std::string before = node.journal.string() + ".before";
  while (!std::filesystem::exists(before))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(read_file(before) == journal);
}

TEST_CASE("canary: a bit that is flipped anywhere is damage, or a difference") {
  const std::vector<std::byte> journal = small_journal(SIGTERM);
  Random random(11);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> changed = journal;
    const std::size_t at = random.below(static_cast<std::uint32_t>(changed.size()));
    changed[at] ^= static_cast<std::byte>(1 << random.below(8));
    CAPTURE(at);
    bool noticed = false;
    try {
      log::JournalReader reader(changed, "journal");
      // A last frame that does not fit its checksum was torn: then there is no end.
      noticed = !config::replay_journal(reader, policies::policy_list()).same() ||
                reader.end() == log::LogEnd::none;
    } catch (const ConfigError& error) {
      noticed = std::string_view(error.what()).starts_with("journal: ");
    }
    CHECK(noticed);
  }
}

TEST_CASE("canary: an event that was left out is a difference, named by its step") {
  const std::vector<std::byte> journal = small_journal(SIGTERM);
  const auto without = [&](std::size_t kind) {
    log::JournalReader reader(journal, "journal");
    // The run as it was, and what another journal would say of it.
    engine::Engine engine(config::engine_config_of(reader.header().configuration, "c"),
                          policies::policy_list(), reader.catalogues());
    log::Journal changed(reader.header(), reader.catalogues(), log::FrameWriter::kNoBound);
    bool left_out = false;
    while (const auto step = reader.next()) {
      std::vector<engine::Event> events(step->events.begin(), step->events.end());
      const auto found =
          std::find_if(events.begin(), events.end(),
                       [&](const engine::Event& event) { return event.index() == kind; });
      if (!left_out && found != events.end()) {
        left_out = true;
        events.erase(found);
      }
      changed.record_events(step->now, events);
      changed.record_commands(engine.step(step->now, step->events));
    }
    CHECK(left_out);
    changed.close();
    log::JournalReader again(changed.pending(), "changed");
    return config::replay_journal(again, policies::policy_list());
  };
  for (const engine::Event& kind : std::initializer_list<engine::Event>{
           engine::BatchWanted{}, engine::ReadDone{}, engine::PreparationDone{},
           engine::JobJoined{}, engine::PipelineKnown{}, engine::NodeJoined{}}) {
    CAPTURE(kind.index());
    const log::ReplayResult replayed = without(kind.index());
    REQUIRE(replayed.first_difference);
    CHECK(replayed.report.starts_with(fmt::format("step {} ", *replayed.first_difference)));
  }
}

namespace {

class Never final : public engine::DispatchPolicy {
 public:
  std::size_t next(const engine::DispatchView&) override { return engine::kNoChoice; }
};

}  // namespace

TEST_CASE("with a policy that never dispatches, nothing is read, prepared or delivered") {
  static constexpr engine::PolicyEntry kNever{
      "never", "Dispatches nothing.",
      engine::MakeDispatch{
          +[](const engine::PolicyContext&) -> std::unique_ptr<engine::DispatchPolicy> {
            return std::make_unique<Never>();
          }}};
  std::vector<const engine::PolicyEntry*> entries(policies::policy_list().entries().begin(),
                                                  policies::policy_list().entries().end());
  entries.push_back(&kNever);
  const engine::PolicyList list(entries);

  Node node;
  service::NodeConfig config = config_in(node.folder.path());
  config.journal = true;
  config.datasets.push_back({"rows", node.folder.path() / "rows", "", "", 0});
  for (const std::string dispatch : {"never", "fifo"}) {
    CAPTURE(dispatch);
    config.engine.policies.dispatch = dispatch;
    config.socket = node.socket;
    nlohmann::json status;
    Handed handed;
    {
      const LiveService service(config, list);
      JobPlan plan = node.plan(0, "waits");
      plan.batches_most = 10;
      plan.timeout_s = dispatch == "never" ? 0.5 : 20;
      handed = run_job(plan);
      status = node.status();
    }
    const bool fifo = dispatch == "fifo";  // the same but for the policy: the test would notice
    CHECK(handed.batches == (fifo ? 10 : 0));
    CHECK((handed.wrong == "") == fifo);
    for (const char* const figure : {"batches", "read_samples", "read_bytes", "prepared_samples"})
      CHECK_MESSAGE((status.at(figure) > 0) == fifo, figure);
    const std::vector<std::byte> journal = read_file(node.journal);
    log::JournalReader reader(journal, "journal");
    CHECK(config::replay_journal(reader, list).same());
  }
}

}  // namespace batchflow::test::journal_test
