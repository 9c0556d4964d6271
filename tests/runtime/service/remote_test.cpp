// Jobs on other machines: the same batches over TCP and TLS, for a job that knows a token, and
// nothing for others.
#if __has_include(<openssl/ssl.h>)  // else there are no remote jobs
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <atomic>
#include <deque>

#include <cstdlib>
#include <cstring>

#include "core/base/random.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/records.h"
#include "runtime/remote/remote_options.h"
#include "runtime/remote/tcp_channel.h"
#include "tests/runtime/service/certificate.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::remote_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::uint64_t kRows = 3000;
const std::string kToken(64, 't');

struct Place {
  Folder folder;
  service::NodeConfig config;
  Place() : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0, {}});
    config.tcp.port = 0;
    config.tcp.token_file = token("tokens", "# of all\n" + std::string(40, 'o') + "\n" + kToken);
    setenv("BATCHFLOW_TOKEN_FILE", token("mine", kToken).c_str(), 1);
  }
  std::string token(const char* name, const std::string& text, mode_t mode = 0600) const {
    const std::filesystem::path file = folder.path() / name;
    std::ofstream(file) << text << "\n";
    chmod(file.c_str(), mode);
    return file;
  }
};

JobPlan plan_of(const LiveService& service, const char* scheme = "tcp") {
  JobPlan plan;
  plan.service = fmt::format("{}://127.0.0.1:{}", scheme, service.tcp_port());
  return plan;
}

// That it is refused with the cause, and not sent to start a service that runs.
void check_says(const JobPlan& plan, const std::string& text) {
  const std::string wrong = run_job(plan).wrong;
  CAPTURE(wrong);
  CHECK(wrong.find(text) != std::string::npos);
  CHECK(wrong.find("start batchflowd") == std::string::npos);
}

// A connection; none when no service listens.
protocol::Descriptor knock(int port) {
  protocol::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    socket.reset();
  return socket;
}

}  // namespace

// It would run as the service, whichever job brings it; tests/python/test_steps.py has those that
// may.
TEST_CASE("a remote job's function in Python is refused, though the service's user speaks for it") {
  const Place place;
  const LiveService service(place.config);
  JobPlan plan = plan_of(service);
  plan.pipeline =
      R"({"kind": "pipeline", "name": "x", "steps": [{"python": "{}", "interpreter": "/bin/sh",)"
      R"( "package": "/tmp", "at": "x.py:1", "places": "[]"}]})";
  const std::string wrong = run_job(plan).wrong;
  CHECK_MESSAGE(
      wrong.find("must be that user's job, of a machine of the service") != std::string::npos,
      wrong);
}

TEST_CASE("a remote job gets each sample once, with its own bytes, in every order") {
  const Place place;
  const LiveService service(place.config);
  for (const bf_order order : {BF_RELAXED, BF_STRICT, BF_SEQUENTIAL}) {
    CAPTURE(order);
    JobPlan plan = plan_of(service);
    plan.order = order;
    plan.batch = 37;
    const Handed handed = run_job(plan);
    CHECK(handed.wrong == "");
    CHECK(handed.epochs.size() == 2);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
    CHECK(handed.repeats == 0);
  }
  CHECK(command(place.config.socket, "status").at("protocol_errors") == 0);
}

TEST_CASE("ranks here and elsewhere are one job, and share with jobs here") {
  const Place place;
  const LiveService service(place.config);
  std::vector<Handed> handed(3);
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    JobPlan plan = plan_of(service);
    if (rank == 0) plan.service = place.config.socket;
    plan.name = "mixed";
    plan.rank = rank;
    plan.world = 3;
    plan.batch = 20;
    plan.pause_us = 2000;
    ranks.emplace_back([&, plan, rank] { handed[rank] = run_job(plan); });
  }
  json told = json::array();
  for (int tries = 0; tries < 2000 && (told.empty() || told[0].at("ranks_here") < 3); ++tries) {
    told = command(place.config.socket, "status").at("jobs");
    std::this_thread::sleep_for(1ms);
  }
  REQUIRE(told.size() == 1);
  CHECK(told[0].at("remote_ranks") == 2);
  CHECK(told[0].at("from") == json{"127.0.0.1"});
  for (std::thread& rank : ranks) rank.join();
  std::map<std::uint32_t, std::vector<std::uint64_t>> epochs;
  for (const Handed& one : handed) {
    CHECK(one.wrong == "");
    CHECK(one.batches == handed[0].batches);
    for (const auto& [epoch, keys] : one.epochs)
      epochs[epoch].insert(epochs[epoch].end(), keys.begin(), keys.end());
  }
  CHECK(epochs.size() == 2);
  for (const auto& [epoch, keys] : epochs) CHECK(is_whole(keys, kRows));
}

TEST_CASE(
    "a job that says it is on another machine, and is not, is taken for one of this machine") {
  const Place place;
  const Daemon daemon({"--dataset", "rows=" + (place.folder.path() / "rows").string(), "--memory",
                       "512mib", "--workers", "1", "--socket", place.config.socket, "--state",
                       place.folder.path() / "state", "--http", "-1"},
                      place.config.socket);
  std::string problem;
  protocol::Channel liar = protocol::Channel::connect(place.config.socket, problem);
  protocol::JoinRequest request;
  request.dataset = "rows";
  request.batch_samples = 32;
  request.credits = 2;
  const auto soon = protocol::Channel::Clock::now() + 20s;
  REQUIRE(liar.send(
      protocol::encode(protocol::Hello{protocol::kProtocolVersion, "by hand", 1, "10.0.0.1"}), {},
      soon));
  REQUIRE(liar.receive(soon));
  REQUIRE(liar.send(protocol::encode(request), {}, soon));
  REQUIRE(liar.receive(soon));
  const json jobs = command(place.config.socket, "status").at("jobs");
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].at("ranks_here") == 1);
  CHECK(jobs[0].at("remote_ranks") == 0);
  CHECK(jobs[0].at("from").empty());
}

TEST_CASE("batches that a remote job keeps stay as they are, and it never waits for itself") {
  const Place place;
  const LiveService service(place.config);
  JobPlan plan = plan_of(service);
  plan.keep = true;
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  CHECK(handed.copied > 0);
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
}

TEST_CASE("by TLS: a peer that is not believed gets nothing, on either side") {
  Place place;
  if (!make_certificate(place.folder.path())) {
    MESSAGE("skipped: there is no openssl command");
    return;
  }
  place.config.tcp.certificate = place.folder.path() / "cert.pem";
  place.config.tcp.key = place.folder.path() / "key.pem";
  const LiveService service(place.config);
  setenv("BATCHFLOW_TLS_CA", place.config.tcp.certificate.c_str(), 1);
  JobPlan plan = plan_of(service, "tls");
  plan.epochs = 1;
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  CHECK(is_whole(handed.epochs.at(0), kRows));
  // The system believes no certificate that signs itself.
  unsetenv("BATCHFLOW_TLS_CA");
  check_says(plan, "certificate verify failed (self-signed certificate)");
  setenv("BATCHFLOW_TLS_CA", (place.folder.path() / "none.pem").c_str(), 1);
  check_says(plan, "none.pem: No such file or directory; name a file of certificates");
  unsetenv("BATCHFLOW_TLS_CA");
  check_says(plan_of(service, "tcp"), "this port speaks only TLS; write tls://");

  std::filesystem::resize_file(place.config.tcp.key, std::uintmax_t{1} << 40);
  place.config.socket = place.folder.path() / "other.sock";
  place.config.state = place.folder.path() / "other";
  CHECK_THROWS_WITH_AS(service::Service{place.config},
                       doctest::Contains("it has 1099511627776 bytes"), ConfigError);
}

TEST_CASE("a job that speaks TLS to a port that does not is told what to write") {
  const Place place;
  const LiveService service(place.config);
  check_says(plan_of(service, "tls"), "write tcp:// for a service without a certificate");
}

TEST_CASE("without a token nothing is served, and it is said what to do") {
  const Place place;
  const LiveService service(place.config);
  const JobPlan plan = plan_of(service);
  setenv("BATCHFLOW_TOKEN_FILE", place.token("wrong", std::string(64, 'w')).c_str(), 1);
  check_says(plan, "does not know the token");
  setenv("BATCHFLOW_TOKEN_FILE", place.token("open", kToken, 0644).c_str(), 1);
  check_says(plan, "others can read it");
  setenv("BATCHFLOW_TOKEN_FILE", (place.folder.path() / "none").c_str(), 1);
  check_says(plan, "BATCHFLOW_TOKEN_FILE: " + (place.folder.path() / "none").string() +
                       ": No such file or directory");
  const std::string large = place.token("large", kToken);
  std::filesystem::resize_file(large, std::uintmax_t{1} << 40);
  setenv("BATCHFLOW_TOKEN_FILE", large.c_str(), 1);
  check_says(plan, "large: it has 1099511627776 bytes, and a file of tokens at most 4194304");
  unsetenv("BATCHFLOW_TOKEN_FILE");
  check_says(plan, "name the file that holds it by BATCHFLOW_TOKEN_FILE");

  service::NodeConfig config = place.config;
  config.tcp.token_file = place.token("short", "secret");
  config.socket = place.folder.path() / "other.sock";
  CHECK_THROWS_AS(service::Service{config}, ConfigError);
  config.tcp.token_file = "";
  CHECK_THROWS_AS(service::Service{config}, ConfigError);
}

TEST_CASE("a remote job names datasets, not paths of the service's machine") {
  Place place;
  place.config.open_datasets = true;
  const LiveService service(place.config);
  JobPlan plan = plan_of(service);
  plan.dataset = place.folder.path() / "rows";
  plan.timeout_s = 5;
  check_says(plan, "a job on another machine cannot name a path of the service");
  plan.dataset = "rows";
  CHECK(run_job(plan).wrong == "");
}

TEST_CASE("whatever is sent to the port, the service goes on") {
  const Place place;
  const LiveService service(place.config);
  Random random(7);
  const auto frame = [](std::uint32_t kind, std::uint64_t bytes, const std::string& text) {
    std::string out(16, '\0');
    std::memcpy(out.data(), &kind, sizeof kind);
    std::memcpy(out.data() + 8, &bytes, sizeof bytes);
    return out + text;
  };
  const std::string token = json{{"type", "token"}, {"token", kToken}}.dump();
  const std::string shown = frame(1, token.size(), token);
  std::vector<protocol::Descriptor> open;
  for (int round = 0; round < 200; ++round) {
    protocol::Descriptor socket = knock(service.tcp_port());
    REQUIRE(socket);
    std::string bytes = random.below(2) == 0 ? shown : "";
    switch (random.below(6)) {
      case 0:  // noise
        for (int i = 0; i < 300; ++i) bytes += static_cast<char>(random.draw());
        break;
      case 1:  // a frame that would fill all memory
        bytes += frame(1, std::uint64_t{1} << 60, "x");
        break;
      case 2:  // what only operators may ask
        bytes += frame(1, 35, R"({"type":"command","name":"drain"}  )");
        break;
      case 3:  // records before there is a ring
        bytes += frame(2, 8, "12345678");
        break;
      case 4:  // half of it
        bytes += frame(1, 1000, "{");
        break;
      default:
        break;
    }
    [[maybe_unused]] const ssize_t sent =
        send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (random.below(4) == 0) open.push_back(std::move(socket));
  }
  JobPlan plan = plan_of(service);
  plan.epochs = 1;
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  CHECK(is_whole(handed.epochs.at(0), kRows));
  open.clear();
  const auto until = std::chrono::steady_clock::now() + 30s;
  json status = command(place.config.socket, "status");
  while (status.at("connections") > 1 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(10ms);
    status = command(place.config.socket, "status");
  }
  CHECK(status.at("connections") <= 1);
  CHECK(status.at("draining") == false);
  CHECK(status.at("jobs").empty());
}

TEST_CASE("silent connections keep no job out") {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 8192) {
    MESSAGE("skipped: this takes 4,000 descriptors");
    return;
  }
  Place place;
  const bool by_tls = make_certificate(place.folder.path());
  if (by_tls) {
    place.config.tcp.certificate = place.folder.path() / "cert.pem";
    place.config.tcp.key = place.folder.path() / "key.pem";
    setenv("BATCHFLOW_TLS_CA", place.config.tcp.certificate.c_str(), 1);
  }
  const LiveService service(place.config);
  std::deque<protocol::Descriptor> open;
  for (int i = 0; i < 2500; ++i) open.push_back(knock(service.tcp_port()));
  // There are always others, however long it waits for these.
  std::atomic<bool> is_over{false};
  std::thread others([&] {
    while (!is_over) {
      open.push_back(knock(service.tcp_port()));
      open.pop_front();
      std::this_thread::sleep_for(2ms);
    }
  });
  JobPlan plan = plan_of(service, by_tls ? "tls" : "tcp");
  plan.epochs = 1;
  const Handed handed = run_job(plan);
  is_over = true;
  others.join();
  CHECK(handed.wrong == "");
  CHECK(is_whole(handed.epochs.at(0), kRows));
  // The oldest have gone.
  char byte;
  CHECK(recv(open.front().get(), &byte, 1, 0) == 0);
  unsetenv("BATCHFLOW_TLS_CA");
}

// A byte now and then would otherwise keep a connection for as long as each was waited for.
TEST_CASE("a connection has one deadline for its token, however it sends it") {
  Place place;
  place.config.tcp.handshake_time = 300ms;
  const LiveService service(place.config);
  for (const bool with_head : {false, true}) {
    CAPTURE(with_head);
    const protocol::Descriptor socket = knock(service.tcp_port());
    REQUIRE(socket);
    std::string head(16, '\0');
    head[0] = 1;
    head[9] = 16;  // 4096 bytes are to come
    if (with_head) REQUIRE(send(socket.get(), head.data(), head.size(), MSG_NOSIGNAL) == 16);
    // Far fewer than it would wait for: each within its time.
    int sent = 0;
    char byte = 0;
    while (sent < 1000 && send(socket.get(), &byte, 1, MSG_NOSIGNAL) == 1 &&
           recv(socket.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) {
      byte = with_head ? '{' : head[sent % 16];
      ++sent;
      // Each byte comes in time; all sixteen of a head would take ten times the time there is.
      std::this_thread::sleep_for(with_head ? 20ms : 200ms);
    }
    CHECK(sent < (with_head ? 1000 : 16));
  }
  CHECK(run_job(plan_of(service)).wrong == "");
}

// Names of jobs and numbers of processes are known to others.
TEST_CASE(
    "a remote rank is not ended by a client that names its job and process, and is by itself") {
  const Place place;
  const LiveService service(place.config);
  const auto join = [&](protocol::JoinRequest request, std::string& heard) {
    remote::RemoteAddress address;
    std::string problem;
    REQUIRE(remote::parse_remote(fmt::format("tcp://127.0.0.1:{}", service.tcp_port()), address,
                                 problem));
    const auto soon = remote::TcpChannel::Clock::now() + 20s;
    auto stream = remote::TcpChannel::connect(address, nullptr, soon, problem);
    REQUIRE(stream);
    REQUIRE(stream->write_text(remote::token_message(kToken)));
    REQUIRE(stream->write_text(
        protocol::encode(protocol::Hello{protocol::kProtocolVersion, "by hand", request.pid, ""})));
    REQUIRE(stream->write_text(protocol::encode(request)));
    remote::TcpChannel::Head head;
    for (heard.clear(); stream->read_head(head, soon);) {
      heard.resize(head.bytes);
      if (!stream->read(std::as_writable_bytes(std::span(heard)))) break;
      const std::string type = protocol::message_type(heard, problem);
      if (type == "admitted" || type == "refused") break;
    }
    return stream;
  };
  protocol::JoinRequest request;
  request.dataset = "rows";
  request.job = "known";
  request.pid = 4242;
  request.batch_samples = 32;
  request.credits = 2;
  std::string heard, problem;
  const auto rank = join(request, heard);
  const auto admitted = protocol::decode_join_answer(heard, problem);
  REQUIRE_MESSAGE(admitted, heard);
  CHECK(admitted->ticket.size() == 32);
  const auto jobs = [&] { return command(place.config.socket, "status").at("jobs"); };
  REQUIRE(jobs().size() == 1);
  const json before = jobs().at(0).at("id");

  request.rejoins = true;
  for (const std::string& guessed : {std::string(), std::string(32, '0')}) {
    request.ticket = guessed;
    const auto thief = join(request, heard);
    CHECK(protocol::decode_refused(heard, problem));
    CHECK(jobs().size() == 1);
    CHECK(jobs().at(0).at("id") == before);
  }
  // The rank that got it has lost its connection, of which the service does not know yet.
  request.ticket = admitted->ticket;
  const auto until = std::chrono::steady_clock::now() + 20s;
  do {
    const auto again = join(request, heard);
    if (protocol::decode_join_answer(heard, problem)) break;
    std::this_thread::sleep_for(5ms);
  } while (std::chrono::steady_clock::now() < until);
  CHECK_MESSAGE(protocol::decode_join_answer(heard, problem), heard);
}

TEST_CASE("a remote job outlives its service: each sample once") {
  const Place place;
  const std::string socket = place.config.socket;
  const int port = [] {  // one that was free a moment ago
    protocol::Descriptor probe(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return int{ntohs(address.sin_port)};
  }();
  Daemon daemon(
      {"--dataset", "rows=" + (place.folder.path() / "rows").string(), "--memory", "512mib",
       "--http", "-1", "--socket", socket, "--state", place.folder.path() / "state", "--tcp",
       std::to_string(port), "--tcp-token", place.config.tcp.token_file},
      socket);
  const auto listens = std::chrono::steady_clock::now() + 30s;
  while (!knock(port) && std::chrono::steady_clock::now() < listens)
    std::this_thread::sleep_for(5ms);
  JobPlan plan;
  plan.service = fmt::format("tcp://localhost:{}", port);
  plan.epochs = 3;
  plan.pause_us = 1000;
  plan.timeout_s = 60;
  std::atomic<std::uint64_t> batches{0};
  plan.count = &batches;
  Handed handed;
  std::thread job([&] { handed = run_job(plan); });
  for (const std::uint64_t at : {40u, 150u}) {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (batches < at && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
    CHECK(daemon.kill(SIGKILL) == -SIGKILL);
    daemon.start();
  }
  job.join();
  CHECK(handed.wrong == "");
  CHECK(handed.epochs.size() == 3);
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
}

}  // namespace batchflow::test::remote_test
#endif
