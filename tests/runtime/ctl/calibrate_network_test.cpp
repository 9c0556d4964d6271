// The network to a peer: `calibrate --peer` and `--listen` over loopback, and over a shaped link of
// two network namespaces. No test says how fast anything is; a link's rate is a bound.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "doctest/doctest.h"
#include "fmt/format.h"
#include "programs/input/cluster_model.h"
#include "programs/input/yaml.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/remote/accepting.h"
#include "runtime/remote/remote_options.h"
#include "runtime/remote/tcp_channel.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/sources/dataset_files.h"
#include "tests/skip.h"

namespace batchflow::test::calibrate_network_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using remote::TcpChannel;

const std::string kToken(64, 't');

std::string token_file(const Folder& folder, const std::string& name, const std::string& token) {
  folder.write(name, token + "\n");
  const std::filesystem::path path = folder.path() / name;
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path.string();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What a test needs beside a peer: a small dataset, the token, and where a cluster is written.
struct Place {
  Place() { data.write("numbers.bin", std::string(10'000, 'x')); }

  // Measures at `peer`; a failure writes nothing.
  Outcome measure(const std::string& peer, const std::vector<std::string>& more = {}) {
    const Folder streams;
    std::vector<std::string> words = {"calibrate", data.path().string(),
                                      "--seconds", "0.05",
                                      "--peer",    peer,
                                      "--token",   token,
                                      "--json",    "--cluster=" + path("here.yaml")};
    words.insert(words.end(), more.begin(), more.end());
    Outcome ran = Program(words, streams.path()).finish();
    CHECK((ran.code == 0) == std::filesystem::exists(path("here.yaml")));
    return ran;
  }
  std::string path(const std::string& name) const { return (files.path() / name).string(); }

  Folder data, files;
  std::string token = token_file(files, "token", kToken);
};

// `calibrate --listen` at a free port of loopback.
class Listener {
 public:
  explicit Listener(const Place& place, const std::vector<std::string>& more = {})
      : program_(words(place, more), streams_.path()) {
    const std::string begins = "listening at 127.0.0.1:";
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!has(said(), begins + "")) {
      REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::sleep_for(5ms);
    }
    const std::string text = said();
    port_ = std::stoi(text.substr(text.find(begins) + begins.size()));
  }
  ~Listener() {
    if (!ended_) end();
  }

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  std::string said() const {
    std::ifstream file(streams_.path() / "ctl.err");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void wait_for(const std::string& text) const {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!has(said(), text) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(5ms);
    CHECK_MESSAGE(has(said(), text), said());
  }
  Outcome finish() {
    ended_ = true;
    return program_.finish();
  }
  Outcome end() {
    kill(program_.process(), SIGTERM);
    return finish();
  }

  std::unique_ptr<TcpChannel> connect() const {
    std::string problem;
    auto channel = TcpChannel::connect({"127.0.0.1", std::to_string(port_), false}, nullptr,
                                       TcpChannel::Clock::now() + 60s, problem);
    REQUIRE_MESSAGE(channel, problem);
    channel->end_at(TcpChannel::Clock::now() + 60s);
    return channel;
  }

 private:
  static std::vector<std::string> words(const Place& place, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"calibrate", "--listen", "127.0.0.1:0", "--token", place.token};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Folder streams_;
  Program program_;
  int port_ = 0;
  bool ended_ = false;
};

json read(TcpChannel& channel) {
  TcpChannel::Head head;
  if (!channel.read_head(head, TcpChannel::kNever) || head.bytes > 4096) return {};
  std::string text(head.bytes, '\0');
  return channel.read(std::as_writable_bytes(std::span(text))) ? json::parse(text) : json();
}
void write(TcpChannel& channel, const json& message) {
  channel.write_text(message.dump());
}
const json kGreeting = {{"type", "batchflow-calibrate"}, {"version", 1}};

// What listens in place of a listener: it does this with the first connection, and closes it.
class Impostor {
 public:
  explicit Impostor(std::function<void(TcpChannel&)> act) {
    socket_ = remote::listen_at("127.0.0.1", 0, port_);
    thread_ = std::thread([this, act = std::move(act)] {
      TcpChannel channel(accepted());
      channel.end_at(TcpChannel::Clock::now() + 60s);
      act(channel);
      channel.shut("");
    });
  }
  ~Impostor() { thread_.join(); }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  protocol::Descriptor accepted() {
    for (;;) {
      protocol::Descriptor socket(
          accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) {
        socket_.reset();
        return socket;
      }
      std::this_thread::sleep_for(2ms);
    }
  }

  protocol::Descriptor socket_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

void check_fails(Place& place, const std::string& peer, const std::string& says) {
  const Outcome ran = place.measure(peer);
  CAPTURE(ran.err);
  CHECK(ran.code == 1);
  CHECK(has(ran.err, says));
}

input::ClusterModel cluster_in(const std::string& path) {
  input::ClusterModel read;
  config::read_config(input::read_yaml_file(path),
                      [&](config::ConfigSection& section) { read = input::read_cluster(section); });
  return read;
}

}  // namespace

TEST_CASE("the network to a peer is measured both ways, and written into the cluster") {
  Place place;
  Listener listener(place, {"--once"});
  const Outcome ran = place.measure(listener.address());
  REQUIRE_MESSAGE(ran.code == 0, ran.err);
  const json network = json::parse(ran.out)["network"];
  CHECK(network["peer"] == listener.address());
  CHECK(network["p50_s"] > 0);
  CHECK(network["p50_s"] <= network["p99_s"]);
  std::vector<std::pair<unsigned, bool>> measured;
  for (const json& rate : network["rates"]) {
    measured.emplace_back(rate["streams"], rate["sent"]);
    CHECK(rate["bytes_per_s"] > 0);
    CHECK(rate["own_s_per_byte"] > 0);
    CHECK(rate["peer_s_per_byte"] > 0);
  }
  CHECK(measured ==
        std::vector<std::pair<unsigned, bool>>{{1, true}, {1, false}, {4, true}, {4, false}});
  CHECK(has(ran.err, "a small message there and back takes"));

  const input::ClusterModel cluster = cluster_in(place.path("here.yaml"));
  REQUIRE(cluster.nodes.size() == 1);
  CHECK(cluster.nodes[0].nic_bytes_per_s > 0);
  CHECK(cluster.nodes[0].nic_latency.count() > 0);
  CHECK(cluster.nodes[0].overhead.send_ns_per_byte > 0);
  CHECK(cluster.nodes[0].overhead.receive_ns_per_byte > 0);

  const Outcome listened = listener.finish();
  CHECK(listened.code == 0);
  CHECK(has(listened.err, "127.0.0.1 has measured"));
}

TEST_CASE("without a peer no network is measured") {
  Place place;
  const Folder streams;
  const Outcome ran = Program({"calibrate", place.data.path().string(), "--seconds", "0.05",
                               "--json", "--cluster=" + place.path("here.yaml")},
                              streams.path())
                          .finish();
  CHECK(ran.code == 0);
  CHECK(json::parse(ran.out)["network"].is_null());
  CHECK(cluster_in(place.path("here.yaml")).nodes[0].nic_bytes_per_s == 0);
}

TEST_CASE("a peer that is none is named, and nothing is written") {
  Place place;
  std::uint16_t port = 0;
  remote::listen_at("127.0.0.1", 0, port);  // and closed at once
  check_fails(place, fmt::format("127.0.0.1:{}", port), "Connection refused");
  {
    Impostor web([](TcpChannel& channel) {
      const std::string answer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
      send(channel.socket(), answer.data(), answer.size(), MSG_NOSIGNAL);
      read(channel);
    });
    check_fails(place, web.address(), "is no batchflowctl calibrate --listen (there is no frame");
  }
  {
    Impostor closes([](TcpChannel&) {});
    check_fails(place, closes.address(), "is no batchflowctl calibrate --listen");
  }
  {
    Impostor newer([](TcpChannel& channel) {
      read(channel);
      write(channel, {{"type", "batchflow-calibrate"}, {"version", 2}});
      read(channel);
    });
    check_fails(place, newer.address(), "it has version 2 of the protocol, and this program vers");
  }
  {
    // The token is not shown to what has not answered the greeting.
    std::string seen;
    Impostor thief([&](TcpChannel& channel) {
      seen = read(channel).dump();
      write(channel, {{"type", "welcome"}});
      seen += read(channel).dump();
    });
    check_fails(place, thief.address(), "is no batchflowctl calibrate --listen");
    CHECK_FALSE(has(seen, kToken));
  }
}

TEST_CASE("a peer that dies in the middle is an error, and nothing is written") {
  Place place;
  Impostor dies([](TcpChannel& channel) {
    read(channel);
    write(channel, kGreeting);
    read(channel);
    write(channel, {{"type", "session"}, {"session", "s"}});
  });
  // It takes one connection of the four, and then it is gone.
  const Outcome ran = place.measure(dies.address());
  CHECK(ran.code == 1);
  CHECK_MESSAGE(has(ran.err, dies.address() + ": the measurement was cut off: "), ran.err);

  Listener listener(place, {"--once"});
  const Folder streams;
  Program measures(
      {"calibrate", place.data.path().string(), "--seconds", "20", "--peer", listener.address(),
       "--token", place.token, "--cluster=" + place.path("none.yaml")},
      streams.path());
  // A node that measures keeps others out.
  listener.wait_for("127.0.0.1 measures");
  check_fails(place, listener.address(), "another node is measuring");
  kill(measures.process(), SIGKILL);
  measures.finish();
  const Outcome listened = listener.finish();
  CHECK(listened.code == 1);
  CHECK(has(listened.err, "127.0.0.1 has left in the middle: "));
  CHECK_FALSE(std::filesystem::exists(place.path("none.yaml")));
}

TEST_CASE("a listener that ends in the middle is an error, and nothing is written") {
  Place place;
  Listener listener(place);
  const Folder streams;
  Program measures(
      {"calibrate", place.data.path().string(), "--seconds", "20", "--peer", listener.address(),
       "--token", place.token, "--cluster=" + place.path("none.yaml")},
      streams.path());
  listener.wait_for("127.0.0.1 measures");
  listener.end();
  const Outcome ran = measures.finish();
  CHECK(ran.code == 1);
  CHECK_MESSAGE(has(ran.err, listener.address() + ": the measurement was cut off: "), ran.err);
  CHECK_FALSE(std::filesystem::exists(place.path("none.yaml")));
}

TEST_CASE("strangers get nothing from a listener, and do not keep it from others") {
  Place place;
  Listener listener(place);
  {
    const auto garbage = listener.connect();
    const std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    send(garbage->socket(), text.data(), text.size(), MSG_NOSIGNAL);
    CHECK(read(*garbage).is_null());
    listener.wait_for("127.0.0.1 was dropped before it showed a token: there is no frame of kind");
  }
  const auto refusal = [&](const json& greeting) {
    const auto channel = listener.connect();
    write(*channel, greeting);
    const json answer = read(*channel);
    CHECK(answer.value("type", "") == "refused");
    return answer.value("message", "");
  };
  CHECK(has(refusal({{"type", "batchflow-calibrate"}, {"version", 7}}),
            "version 1 of the protocol, and the other side version 7"));
  CHECK(has(refusal({{"type", "batchflow-calibrate"}, {"version", "x"}}), "the other side"));
  CHECK(has(refusal({{"type", "join"}}), "this is a listener of batchflowctl calibrate"));
  CHECK(has(refusal({{"type", 5}}), "this is a listener of batchflowctl calibrate"));
  {
    const auto large = listener.connect();
    write(*large, {{"type", std::string(10'000, 'x')}});
    CHECK(read(*large).is_null());
  }
  for (const json& token : {json{{"type", "token"}, {"token", std::string(64, 'w')}},
                            json{{"type", "token"}}, json{{"type", "give"}, {"seconds", 600}}}) {
    const auto channel = listener.connect();
    write(*channel, kGreeting);
    CHECK(read(*channel) == kGreeting);
    write(*channel, token);
    CHECK(has(read(*channel).value("message", ""), "does not know the token"));
  }
  {
    const auto channel = listener.connect();
    write(*channel, kGreeting);
    read(*channel);
    write(*channel, {{"token", kToken}, {"session", "guessed"}});
    CHECK(has(read(*channel).value("message", ""), "that measurement is over"));
  }
  {
    const auto channel = listener.connect();
    write(*channel, kGreeting);
    read(*channel);
    write(*channel, {{"token", kToken}, {"seconds", 1e9}});
    CHECK(has(read(*channel).value("message", ""), "a part takes up to 600 s"));
  }
  Place wrong;
  wrong.token = token_file(wrong.files, "wrong", std::string(64, 'w'));
  check_fails(wrong, listener.address(), "this listener does not know the token");
  // More that are silent than are let in at once: the oldest make room, the others have their time.
  std::vector<std::unique_ptr<TcpChannel>> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(listener.connect());
  const Outcome ran = place.measure(listener.address());
  CHECK_MESSAGE(ran.code == 0, ran.err);
  for (const auto& channel : silent) CHECK(read(*channel).is_null());
  listener.wait_for("before it showed a token: newer connections need its room");
  listener.wait_for("before it showed a token: the other side has sent nothing");
  CHECK(listener.end().code == 0);
}

TEST_CASE("a measurement of a network that cannot be made is refused before anything is") {
  Place place;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& says) {
    const Folder streams;
    std::vector<std::string> all = {"calibrate"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome ran = Program(all, streams.path()).finish();
    CAPTURE(ran.err);
    CHECK(ran.code == 2);
    CHECK(has(ran.err, says));
  };
  const std::string data = place.data.path().string();
  const std::string open = token_file(place.files, "open", kToken);
  std::filesystem::permissions(open, std::filesystem::perms(0644));
  refused({}, "write a dataset, or --listen");
  refused({data, "--listen", "127.0.0.1:0", "--token", place.token}, "and not both");
  refused({"--listen", "127.0.0.1:0"}, "write --token FILE");
  refused({data, "--peer", "127.0.0.1:1"}, "write --token FILE");
  refused({data, "--once"}, "--once is for --listen");
  refused({"--listen", "127.0.0.1:0", "--peer", "127.0.0.1:1", "--token", place.token},
          "--listen is for the peer");
  refused({"--listen", "nonsense", "--token", place.token}, "write ADDRESS:PORT");
  refused({"--listen", "127.0.0.1:65536", "--token", place.token}, "write ADDRESS:PORT");
  refused({"--listen", "192.0.2.1:0", "--token", place.token}, "name an address of this machine");
  refused({"--listen", "127.0.0.1:0", "--token", open}, "others can read it");
  refused({"--listen", "127.0.0.1:0", "--token", place.path("none")}, "No such file");
  refused({data, "--peer", "nonsense", "--token", place.token}, "write HOST:PORT");
  refused({data, "--peer", "127.0.0.1:1", "--token", open}, "others can read it");
}

TEST_CASE("what is measured is at most what a shaped link carries") {
  constexpr double kRate = 1e9 / 8;
  const std::string shaped = "root tbf rate 1gbit burst 128kb latency 50ms";
  if (std::system(("unshare -rn sh -c 'ip link add here type veth peer name there && tc qdisc add "
                   "dev here " +
                   shaped + "' >/dev/null 2>&1")
                      .c_str()) != 0)
    return skipped("links may not be made and shaped in a namespace of its own here");
  Place place;
  place.files.write(
      "two",
      "set -e\n"
      "unshare -n sleep 300 & other=$!\n"
      "trap 'kill $other' EXIT\n"
      "until [ \"$(readlink /proc/$other/ns/net)\" != \"$(readlink /proc/$$/ns/net)\" ]; do "
      "sleep 0.01; done\n"
      "there() { nsenter -t $other -n \"$@\"; }\n"
      "ip link add here type veth peer name there\n"
      "ip link set there netns $other\n"
      "ip addr add 10.9.0.1/24 dev here && ip link set here up\n"
      "there ip addr add 10.9.0.2/24 dev there && there ip link set there up\n"
      "tc qdisc add dev here " +
          shaped + "\nthere tc qdisc add dev there " + shaped +
          "\n"
          "there $CTL calibrate --listen 10.9.0.2:9840 --token $TOKEN --once 2>$FOLDER/said &\n"
          "until grep -qs listening $FOLDER/said; do sleep 0.02; done\n"
          "$CTL calibrate $DATA --seconds 0.4 --peer 10.9.0.2:9840 --token $TOKEN "
          "--json=$FOLDER/json --cluster=$FOLDER/here.yaml >$FOLDER/out 2>&1\n");
  const std::string command = fmt::format(
      "CTL={} TOKEN={} FOLDER={} DATA={} timeout 120 unshare -rn bash {}", BATCHFLOWCTL,
      place.token, place.files.path().string(), place.data.path().string(), place.path("two"));
  const auto content = [&](const char* name) {
    std::ifstream file(place.path(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  REQUIRE_MESSAGE(std::system(command.c_str()) == 0, content("out"), content("said"));
  const json network = json::parse(content("json"))["network"];
  CHECK(network["rates"].size() == 4);
  for (const json& rate : network["rates"]) {
    CAPTURE(rate.dump());
    CHECK(rate["bytes_per_s"] <= kRate);
    CHECK(rate["bytes_per_s"] >= kRate / 20);
  }
  CHECK(cluster_in(place.path("here.yaml")).nodes[0].nic_bytes_per_s <= kRate);
}

}  // namespace batchflow::test::calibrate_network_test
