// What batchflowctl asks of a live service, by its exit codes and JSON.
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/joining_by_hand.h"
#include "tests/runtime/service/live.h"
#include "tests/source_dir.h"

namespace batchflow::test::commands_test {
namespace {

using nlohmann::json;

struct Node {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  Node() {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", 640, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0, {}});
  }
  Outcome run(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--service", config.socket});
    return run_ctl(words, folder.path());
  }
  json ask(std::vector<std::string> words) const {
    words.push_back("--json");
    const Outcome outcome = run(words);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return json::parse(outcome.out, nullptr, false);
  }
  void train() const {
    JobPlan plan;
    plan.service = config.socket;
    plan.name = "train";
    plan.epochs = 2;
    CHECK(run_job(plan).wrong == "");
  }
};

TEST_CASE("every question has its JSON, and a text") {
  const Node node;
  const LiveService service(node.config);
  node.train();
  CHECK(node.ask({"status"}).at("samples") == 1280);
  CHECK(node.ask({"jobs"}).at("jobs").is_array());
  CHECK(node.ask({"datasets"}).at("datasets").at(0).at("samples") == 640);
  CHECK(node.ask({"describe"}).at("text").is_string());
  CHECK(node.ask({"stats", "1"}).at("samples_per_s") == 0);
  CHECK(node.ask({"top", "1"}).at("samples") == 1280);
  CHECK(node.ask({"explain"}).at("decisions").empty());
  CHECK(node.ask({"journal"}).at("is_kept") == false);
  for (const char* command :
       {"status", "jobs", "datasets", "describe", "cache", "explain", "journal"}) {
    CAPTURE(command);
    const Outcome outcome = node.run({command});
    CHECK(outcome.code == 0);
    CHECK(outcome.out != "");
    CHECK(outcome.err == "");
  }
  const std::string file = node.folder.path() / "status.json";
  CHECK(node.run({"status", "--json=" + file}).code == 0);
  CHECK(std::filesystem::file_size(file) > 100);
  CHECK(node.run({"status", "--json=/no/such/folder/x"}).code == 2);
  CHECK(node.run({"nonsense"}).code == 2);
}

TEST_CASE("every command stands in the table of the operator's guide") {
  const Node node;
  std::ifstream file(source_dir() / "docs/operations.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  const std::string help = run_ctl({"--help"}, node.folder.path()).out;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::size_t commands = 0;
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::string name;
    std::istringstream(line) >> name;
    if (name.empty()) continue;
    CAPTURE(name);
    const bool is_told = guide.find("| `batchflowctl " + name) != std::string::npos ||
                         guide.find(", `batchflowctl " + name) != std::string::npos;
    CHECK(is_told);
    ++commands;
  }
  CHECK(commands > 20);
}

TEST_CASE("an answer that no message holds is an error that says so, and not the service's end") {
  Node node;
  constexpr std::uint32_t kJobs = 1000;
  node.config.quotas.of_all.jobs = node.config.quotas.of_all.connections = 2 * kJobs;
  const LiveService service(node.config);
  std::vector<ByHand> jobs;
  for (std::uint32_t i = 0; i < kJobs; ++i) {
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.job = fmt::format("{}-{}", i, std::string(240, '\1'));  // six bytes each in JSON
    request.world_size = 2;                                         // it waits for its other rank
    // Connections that come faster than they are accepted are turned away.
    while (!jobs.emplace_back(node.config.socket).ask(request)) jobs.pop_back();
  }
  const auto is_told = [&] {
    const json answer = command(node.config.socket, "status");
    return answer.value("message", "").find("and a message holds 1048576") != std::string::npos;
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!is_told() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(is_told());
  jobs.clear();
  node.train();
}

TEST_CASE("numbers that are none are refused") {
  const Node node;
  CHECK(run_ctl({"run", "toy-jobs", "--time-scale", "nan"}, node.folder.path()).code == 2);
  CHECK(run_ctl({"doctor", "--seconds", "nan"}, node.folder.path()).code == 2);
}

TEST_CASE("a service on another machine takes no commands, and that is said") {
  const Node node;
  for (const char* address : {"tcp://10.0.0.1:9838", "tls://node:9838"}) {
    const Outcome outcome = run_ctl({"--service", address, "status"}, node.folder.path());
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("takes no commands from other machines") != std::string::npos);
  }
}

TEST_CASE("places that are let fail are told with their counts, and nothing where none is") {
  const Node node;
  const LiveService service(node.config);
  CHECK(node.ask({"status"}).at("failpoints").empty());
  failpoint::configure_failpoints("storage.read.again=fail:1:2,service.slot.fill=count");
  node.train();
  const json all = node.ask({"status"}).at("failpoints");
  failpoint::configure_failpoints("");
  std::map<std::string, json> places;
  for (const json& one : all) places[one.at("name")] = one;
  CHECK(places.size() == failpoint::failpoint_counts().size());
  CHECK(places.at("storage.read.again").at("reached") > 2);
  CHECK(places.at("storage.read.again").at("acted") == 2);
  CHECK(places.at("service.slot.fill").at("reached") > 0);
  CHECK(places.at("service.slot.fill").at("acted") == 0);
  CHECK(node.ask({"status"}).at("failpoints").empty());
}

TEST_CASE("the cache is told share by share, and adds up to what the status says") {
  const Node node;
  const LiveService service(node.config);
  node.train();
  const json cache = node.ask({"cache"});
  const json status = node.ask({"status"});
  std::map<std::string, std::uint64_t> bytes;
  std::uint64_t encoded = 0;
  for (const json& share : cache.at("shares")) {
    bytes[share.at("form")] += share.at("bytes").get<std::uint64_t>();
    CHECK(share.at("dataset") == "rows");
    CHECK(share.at("tier") == "dram");
    if (share.at("form") == "encoded") encoded += share.at("items").get<std::uint64_t>();
  }
  CHECK(bytes["encoded"] + bytes["decoded"] == status.at("item_bytes"));
  CHECK(bytes["prepared"] == status.at("block_bytes"));
  // Rows of 128 bytes are kept 512 at a time, in whole pages.
  CHECK(encoded == 2);
  CHECK(bytes["encoded"] == 640 * 128);
}

TEST_CASE("policy list says what runs, also after it was changed") {
  const Node node;
  const LiveService service(node.config);
  const json before = node.ask({"policy", "list"});
  std::set<std::string> could;
  for (const json& one : before.at("policies"))
    could.insert(one.at("kind").get<std::string>() + "=" + one.at("name").get<std::string>());
  CHECK(could.count("eviction=sieve") == 1);
  CHECK(before.at("runs").size() == 9);
  CHECK(before.at("runs").at("eviction.encoded") != "sieve");
  CHECK(node.run({"policy", "set", "eviction=sieve"}).code == 0);
  CHECK(node.run({"policy", "set", "eviction=seive"}).code == 1);
  const json after = node.ask({"policy", "list"}).at("runs");
  CHECK(after.at("eviction.encoded") == "sieve");
  CHECK(after.at("eviction.prepared") == before.at("runs").at("eviction.prepared"));
  node.train();
}

TEST_CASE("the journal is where it says, and as long") {
  Node node;
  node.config.journal = true;
  const LiveService service(node.config);
  node.train();
  const json journal = node.ask({"journal", "--flush"});
  CHECK(journal.at("is_kept") == true);
  CHECK(journal.at("has_ended") == false);
  CHECK(journal.at("events").get<std::uint64_t>() > 40);
  CHECK(journal.at("bytes").get<std::uint64_t>() ==
        std::filesystem::file_size(journal.at("path").get<std::string>()));
  CHECK(node.run({"journal"}).out.find("steps") != std::string::npos);
}

TEST_CASE("decisions are explained where they are kept") {
  Node node;
  node.config.explain = true;
  const LiveService service(node.config);
  node.train();
  const json told = node.ask({"explain"});
  REQUIRE(told.at("decisions").size() > 0);
  for (const char* key : {"at_s", "kind", "policy", "what", "numbers"})
    CHECK(told.at("decisions").at(0).contains(key));
  CHECK(node.run({"explain", "nobody"}).code == 1);
  CHECK(node.run({"journal", "--flush"}).code == 1);
}

TEST_CASE("a job that waits for its ranks is explained") {
  const Node node;
  const LiveService service(node.config);
  std::thread rank([&] {
    JobPlan plan;
    plan.service = node.config.socket;
    plan.name = "wide";
    plan.world = 2;
    run_job(plan);
  });
  std::string told;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  while (told.find("wide") == std::string::npos && std::chrono::steady_clock::now() < until)
    told = node.run({"explain"}).out;
  CHECK(told.find("job 'wide' on 'rows' has not begun: 1 of 2 ranks have come") == 0);
  CHECK(node.run({"doctor", "wide", "--seconds", "0.2"})
            .out.find("the slow link is start\n  1 of its 2 ranks have come") != std::string::npos);
  CHECK(node.run({"job", "kill", "wide"}).code == 0);
  rank.join();
}

}  // namespace
}  // namespace batchflow::test::commands_test
