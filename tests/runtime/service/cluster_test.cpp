// A service over several nodes, each a process, with nodes that are killed at random and nodes that
// lie. What a job is handed is checked by keys and contents alone.
#if __has_include(<openssl/ssl.h>)  // else no agent can join
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <list>
#include <memory>
#include <thread>

#include "core/base/byte_codec.h"
#include "core/base/random.h"
#include "core/log/event_codec.h"
#include "runtime/remote/remote_options.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/cluster/node_messages.h"
#include "tests/policies/random_seeds.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/free_port.h"
#include "tests/runtime/service/served_rows.h"

namespace batchflow::test::cluster_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using remote::RemoteKind;

constexpr std::uint64_t kRows = 8000;
const std::string kToken(64, 'c');

struct Cluster {
  ServedRows rows{kRows};
  int port = free_port();
  std::string token = rows.folder.path() / "token";
  struct Node {
    std::string socket;
    std::unique_ptr<Daemon> daemon;
  };
  std::list<Node> nodes;  // the coordinator first

  explicit Cluster(std::size_t agents, const std::vector<std::string>& more = {}) {
    std::ofstream(token) << kToken << "\n";
    chmod(token.c_str(), 0600);
    std::vector<std::string> arguments = rows.arguments;
    for (const std::string& one :
         {std::string("--tcp"), fmt::format("127.0.0.1:{}", port), std::string("--cluster-token"),
          token, std::string("--workers"), std::string("1")})
      arguments.push_back(one);
    arguments.insert(arguments.end(), more.begin(), more.end());
    nodes.push_back({rows.socket, std::make_unique<Daemon>(arguments, rows.socket)});
    for (std::size_t i = 0; i < agents; ++i) add(fmt::format("a{}", i), more);
    wait_for_agents(agents);
  }
  void add(const std::string& name, const std::vector<std::string>& more = {}) {
    const std::filesystem::path folder = rows.folder.path() / name;
    std::filesystem::create_directory(folder);
    const std::string at = folder / "b.sock";
    std::vector<std::string> arguments = {
        "--join",          fmt::format("tcp://127.0.0.1:{}", port),
        "--cluster-token", token,
        "--name",          name,
        "--socket",        at,
        "--state",         folder / "state",
        "--memory",        "512mib",
        "--http",          "-1",
        "--workers",       "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    nodes.push_back({at, std::make_unique<Daemon>(arguments, at)});
  }
  std::size_t agents() const {
    const json status = command(rows.socket, "status");
    std::size_t ready = 0;
    for (const json& one : status.value("nodes", json::array())) ready += one.value("ready", false);
    return ready;
  }
  void wait_for_agents(std::size_t count) const {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (agents() != count) {
      REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::sleep_for(10ms);
    }
  }
  JobPlan plan(const Node& node) const {
    JobPlan made = rows.plan();
    made.service = node.socket;
    made.timeout_s = 120;
    return made;
  }
};

// A process that has the cluster's token and says what it likes.
struct Stranger {
  std::unique_ptr<remote::TcpChannel> channel;
  Stranger(int port, std::string_view as) {
    std::string problem;
    channel = remote::TcpChannel::connect({"127.0.0.1", std::to_string(port), false}, nullptr,
                                          remote::TcpChannel::Clock::now() + 10s, problem);
    REQUIRE(channel);
    REQUIRE(channel->write_text(remote::token_message(kToken, as)));
  }
  // The next frame that is not empty; nothing: the connection has ended.
  std::optional<std::string> next() const {
    remote::TcpChannel::Head head;
    std::string text;
    do {
      if (!channel->read_head(head, remote::TcpChannel::Clock::now() + 10s)) return std::nullopt;
      text.resize(head.bytes);
      if (!channel->read(std::as_writable_bytes(std::span(text)))) return std::nullopt;
    } while (text.empty());
    return text;
  }
  bool is_ended() const {
    while (next()) {
    }
    return !channel->is_open();
  }
};

// `port`: of a node, so that its backend can be reached there.
service::AgentGreeting greeting(int port) {
  service::AgentGreeting made;
  made.version = "of a test";
  made.name = "stranger";
  made.cores = 1;
  made.memory = Bytes{64} << 20;
  made.address = fmt::format("tcp://127.0.0.1:{}", port);
  return made;
}

struct Joined {
  std::unique_ptr<Stranger> agent;
  NodeId node;
};
// Asks again while the coordinator says "not yet", as an agent does: on a busy machine a
// coordinator may not reach the stranger's address in time.
Joined join(const Cluster& cluster, const service::AgentGreeting& greeting) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  std::string said;
  while (std::chrono::steady_clock::now() < until) {
    auto agent = std::make_unique<Stranger>(cluster.port, remote::kAgent);
    agent->channel->write_text(encode(greeting));
    said = agent->next().value_or("{\"type\": \"ended\"}");
    const service::NodeMessage message(said);
    if (message.type() == "welcome") return {std::move(agent), message.node()};
  }
  FAIL("not let in: ", said);
  return {};
}

}  // namespace

TEST_CASE("nodes die and come back at random, and every job has each sample once an epoch") {
  for_seeds("test_service", "nodes die and come back at random*", 1, [](std::uint64_t seed) {
    Random random(seed);
    Cluster cluster(2);
    std::list<Handed> all;
    std::atomic<std::uint64_t> batches{0}, over{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      auto node = cluster.nodes.begin();
      std::advance(node, i % 3);
      JobPlan plan = cluster.plan(*node);
      plan.order = i == 3 ? BF_STRICT : BF_RELAXED;
      plan.epochs = 3;
      plan.pause_us = 400;
      plan.count = &batches;
      Handed& handed = all.emplace_back();
      threads.emplace_back([plan, &handed, &over] {
        handed = run_job(plan);
        ++over;
      });
    }
    for (std::uint64_t fault = 1; fault <= 6 && over < 4; ++fault) {
      if (!reaches(batches, 250 * fault)) break;
      auto node = cluster.nodes.begin();
      std::advance(node, static_cast<std::ptrdiff_t>(random.below(3)));
      Daemon& daemon = *node->daemon;
      if (random.below(3) == 0) {  // it stands still for longer than others wait, and goes on
        ::kill(daemon.process(), SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(500 + random.below(2500)));
        ::kill(daemon.process(), SIGCONT);
      } else {
        CHECK(daemon.kill(SIGKILL) == -SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(random.below(300)));
        daemon.start();
      }
    }
    for (std::jthread& one : threads) one.join();
    for (const Handed& handed : all) {
      CHECK(handed.wrong == "");
      REQUIRE(handed.epochs.size() == 3);
      for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
    }
  });
}

TEST_CASE("an agent that lies is sent away, and harms no other") {
  Cluster cluster(1);
  std::atomic<std::uint64_t> batches{0};
  JobPlan plan = cluster.plan(cluster.nodes.front());
  plan.pause_us = 200;
  plan.count = &batches;
  Handed handed;
  std::jthread job([&] { handed = run_job(plan); });
  CHECK(reaches(batches, 20));

  SUBCASE("its greeting is of another version") {
    service::AgentGreeting other = greeting(cluster.port);
    other.protocol = 77;
    const Stranger agent(cluster.port, remote::kAgent);
    agent.channel->write_text(encode(other));
    const std::string said = agent.next().value_or("");
    CHECK(said.find("speaks version 77") != std::string::npos);
    CHECK(agent.is_ended());
  }
  SUBCASE("its greeting is nonsense") {
    const Stranger agent(cluster.port, remote::kAgent);
    agent.channel->write_text("{\"type\": \"agent\", \"cores\": -1}");
    CHECK(agent.is_ended());
  }
  SUBCASE("it sends frames at random") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      service::AgentGreeting one = greeting(cluster.port);
      one.name = fmt::format("stranger {}", seed);
      const Joined joined = join(cluster, one);
      const Stranger& agent = *joined.agent;
      for (int i = 0; i < 10 && agent.channel->is_open(); ++i) {
        std::vector<std::byte> bytes(1 + random.below(60));
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
        agent.channel->write(static_cast<RemoteKind>(1 + random.below(3)), bytes);
      }
      CHECK(agent.is_ended());
    }
  }
  SUBCASE("it reports what it was never asked") {
    const Joined joined = join(cluster, greeting(cluster.port));
    const Stranger& agent = *joined.agent;
    // It opens the dataset as it should, and has nothing of it.
    std::string frame;
    while (frame.find("\"dataset\"") == std::string::npos)
      frame = agent.next().value_or("\"dataset\"");
    agent.channel->write_text(service::encode_opened(DatasetId(0), ""));
    for (std::uint64_t request = 0; request < 2000; ++request) {
      const std::vector<engine::Event> events = {
          engine::ReadDone{{RequestId(request), 0}, engine::Outcome::done, {}},
          engine::PreparationDone{{RequestId(request), 0}, engine::Outcome::done, {}},
          engine::TransferDone{{RequestId(request), 0}, engine::Outcome::failed}};
      std::vector<std::byte> bytes;
      log::EventEncoder().step(Instant{}, events, bytes);
      if (!agent.channel->write(RemoteKind::payload, bytes)) break;
    }
    std::this_thread::sleep_for(200ms);
    CHECK(agent.channel->is_open());
    agent.channel->shut("over");
  }
  SUBCASE("it speaks for the engine") {
    const Joined joined = join(cluster, greeting(cluster.port));
    const Stranger& agent = *joined.agent;
    const std::vector<engine::Event> events = {engine::JobLeft{JobId(0)}};
    std::vector<std::byte> bytes;
    log::EventEncoder().step(Instant{}, events, bytes);
    agent.channel->write(RemoteKind::payload, bytes);
    CHECK(agent.is_ended());
  }
  SUBCASE("it says what another node has kept, or more at once than it may") {
    for (const bool is_own : {false, true}) {
      const Joined joined = join(cluster, greeting(cluster.port));
      const Stranger& agent = *joined.agent;
      const NodeId own = joined.node;
      const std::vector<SampleId> samples(is_own ? engine::kSamplesKeptMost + 1 : 1);
      const Place at{is_own ? own : NodeId(0), Tier::dram, 0};
      const std::vector<engine::Event> events = {
          engine::SamplesKept{at, DatasetId(0), 0, 0, 0, samples}};
      std::vector<std::byte> bytes;
      log::EventEncoder().step(Instant{}, events, bytes);
      agent.channel->write(RemoteKind::payload, bytes);
      CHECK(agent.is_ended());
    }
  }
  job.join();
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  cluster.wait_for_agents(1);
}

TEST_CASE(
    "a peer that asks for nonsense is sent away; what is not there is answered with nothing") {
  const Cluster cluster(1);
  const json status = command(cluster.rows.socket, "status");
  const std::string address = status.at("nodes").at(0).at("address");
  const int agent_port = std::stoi(address.substr(address.rfind(':') + 1));
  for (const int port : {cluster.port, agent_port}) {
    CAPTURE(port);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      const Stranger peer(port, remote::kPeer);
      std::vector<std::byte> bytes(1 + random.below(30));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
      bytes[0] = static_cast<std::byte>(1 + random.below(3));
      peer.channel->write(RemoteKind::record, bytes);
      peer.channel->write(RemoteKind::payload, bytes);
      peer.channel->write_text("over");  // no request
      CHECK(peer.is_ended());
    }
  }
  JobPlan plan = cluster.plan(cluster.nodes.back());
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  // No sample at all, of each block that may be there now.
  for (std::uint64_t share = 0; share < 12; ++share) {
    for (std::uint64_t slot = 0; slot < 4; ++slot) {
      const Stranger peer(agent_port, remote::kPeer);
      std::vector<std::byte> bytes;
      ByteWriter out(bytes);
      out.u8(1);  // a slice
      for (const std::uint64_t number : {share, slot, std::uint64_t{2}, std::uint64_t{2}})
        out.count(number);
      peer.channel->write(RemoteKind::record, bytes);
      CHECK(peer.is_ended());
    }
  }
  CHECK(run_job(plan).wrong == "");
}

TEST_CASE("messages between nodes say the same when they were read") {
  service::DatasetMessage dataset;
  dataset.id = DatasetId(3);
  dataset.asked.name = "pictures";
  dataset.asked.path = "/data/pictures";
  dataset.asked.format = "images";
  dataset.asked.tokens = 5;
  service::NodeSplit split;
  split.name = "train";
  split.rule.folder = "a";
  split.rule.keys = sources::SplitRule::Range{1, 9};
  split.rule.fraction = Ratio{Ratio::kWhole / 2};
  split.rule.rest = true;
  split.rule.classes = {"cat", "dog"};
  dataset.asked.splits = {split, {"other", {}}};
  dataset.part = 1;
  dataset.name = "pictures:train";
  dataset.version = UINT64_MAX - 1;
  dataset.listing = 7;
  const std::string text = encode(dataset);
  CHECK(encode(service::NodeMessage(text).dataset()) == text);
  CHECK(service::NodeMessage(text).dataset().asked.sequences == sources::SequenceRule{});
  dataset.asked.sequences = {"whole", UINT64_MAX, 7};
  CHECK(service::NodeMessage(encode(dataset)).dataset().asked.sequences == dataset.asked.sequences);

  service::RankMessage rank;
  rank.rank = 4;
  rank.frame = "{\"type\": \"join\"}";
  rank.user = 1000;
  rank.shown = {DatasetId(1), DatasetId(2)};
  rank.rings_of = JobId(9);
  const std::string of_rank = encode(rank);
  CHECK(encode(service::NodeMessage(of_rank).rank()) == of_rank);
  const std::string hello = encode(greeting(1));
  CHECK(encode(service::NodeMessage(hello).greeting()) == hello);
  service::NodeCounters counters;
  counters.read_bytes = 7;
  counters.links = {{2, 100, 5000}};
  counters.steps = {{PipelineId(3), 1, true, {9, 8, 7, 6, 5, Duration(4)}}};
  const std::string of_counters = encode(counters);
  CHECK(encode(service::NodeMessage(of_counters).counters()) == of_counters);
  service::Quotas quotas;
  quotas.of_all.connections = 5;
  quotas.of_some[1000].messages_per_s = 7;
  quotas.of_some[1001].frame_bytes = 9;
  const std::string of_quotas = encode(quotas);
  CHECK(encode(service::NodeMessage(of_quotas).quotas()) == of_quotas);
  CHECK(service::with_host("tcp://:9838", "::1") == "tcp://[::1]:9838");
  CHECK(service::with_host("tcp://10.0.0.1:9838", "10.0.0.2") == "tcp://10.0.0.1:9838");
  for (const char* wrong : {"", "[]", "{}", "{\"type\": 3}"})
    CHECK_THROWS_AS(service::NodeMessage{wrong}, service::MessageError);
  CHECK_THROWS_AS(service::NodeMessage("{\"type\": \"rank\", \"rank\": -1}").rank(),
                  service::MessageError);
}

}  // namespace batchflow::test::cluster_test
#endif
