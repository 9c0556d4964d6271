// Agents that do nothing: one process speaks for all of them, and says at once that whatever they
// are told to do is done. What is left is the cost of the coordinator that they join.
//
//   fleet PORT TOKEN-FILE AGENTS BATCH SECONDS RATE
//
// Each agent has a job with one rank, which takes batches of BATCH samples of the dataset `rows` in
// an order of its own. RATE 0: each batch is asked for as soon as the one before is there.
// Otherwise all ranks together ask for RATE batches a second, at even times, whether those before
// have come or not, and each says that it computes for as long as the others need to ask once.
// Prints, as JSON: seconds, batches, blocks, samples_per_block, and with a rate
// the latencies in us, from when a batch was due to be asked for to when it is there.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/log/event_codec.h"
#include "fmt/format.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/records.h"
#include "runtime/remote/remote_options.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/cluster/node_messages.h"

namespace batchflow::bench {
namespace {

using Clock = std::chrono::steady_clock;
using remote::RemoteKind;
using remote::TcpChannel;
using service::RankWord;

constexpr std::uint32_t kWorkers = 4;  // of each agent
constexpr std::uint32_t kCredits = 4;  // of each rank that asks for what it can get

struct Plan {
  std::string port, token;
  std::uint32_t agents = 1;
  std::uint32_t batch = 16;
  double seconds = 1;
  double rate = 0;
};

struct Counts {
  std::uint64_t batches = 0, blocks = 0, samples = 0;
};

class FakeAgent {
 public:
  FakeAgent(const Plan& plan, std::uint32_t number, Counts& counts)
      : plan_(plan), number_(number), counts_(counts) {
    std::string problem;
    channel_ = TcpChannel::connect({"127.0.0.1", plan.port, false}, nullptr,
                                   TcpChannel::Clock::now() + std::chrono::seconds(10), problem);
    if (!channel_) throw std::runtime_error(problem);
    channel_->write_text(remote::token_message(plan.token, remote::kAgent));
    service::AgentGreeting greeting;
    greeting.version = "of a benchmark";
    greeting.name = fmt::format("fake-{}", number);
    greeting.state = greeting.name;
    greeting.cores = kWorkers;
    greeting.memory = Bytes{1} << 30;
    greeting.address = "tcp://127.0.0.1:" + plan.port;  // the coordinator's: it can be reached
    channel_->write_text(encode(greeting));
  }

  int socket() const { return channel_->socket(); }
  bool is_admitted() const { return admitted_; }
  std::vector<double>& latencies() { return latencies_; }

  void join() {
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.job = fmt::format("job-{}", number_);
    request.pid = static_cast<std::uint64_t>(getpid());
    request.batch_samples = plan_.batch;
    request.shuffle_seed = number_;
    request.order = Order::strict;
    request.credits = kCredits;
    service::RankMessage message;
    message.rank = rank_;
    message.frame = protocol::encode(request);
    message.user = getuid();
    message.shown = {DatasetId(0)};
    channel_->write_text(encode(message));
  }

  void ask(std::uint32_t credits, Clock::time_point due) {
    for (std::uint32_t i = 0; i < credits; ++i) due_.push_back(due);
    send({protocol::JobRecordKind::wanted, credits, 0, 0, 0});
  }

  void say_nothing() { channel_->write_text(""); }

  // Everything that has come.
  void read() {
    TcpChannel::Head head;
    bool came = true;
    do {
      if (!channel_->look_for_head(head, came)) throw std::runtime_error(channel_->problem());
      if (!came) break;
      bytes_.resize(head.bytes);
      if (!channel_->read(bytes_)) throw std::runtime_error(channel_->problem());
      if (bytes_.empty()) continue;
      switch (head.kind) {
        case RemoteKind::text:
          take_message();
          break;
        case RemoteKind::payload:
          take_commands();
          break;
        case RemoteKind::record:
          take_record();
          break;
      }
    } while (channel_->has_pending());
  }

 private:
  void send(const protocol::JobRecord& record) {
    channel_->write(RemoteKind::record, service::rank_record({rank_, RankWord::record, 0, 0},
                                                             protocol::bytes_of(record)));
  }

  // What it would compute with a batch, were the ranks to keep to the rate.
  std::uint64_t compute_ns() const {
    return plan_.rate > 0 ? static_cast<std::uint64_t>(1e9 * plan_.agents / plan_.rate) : 1000;
  }

  void take_message() {
    const service::NodeMessage message(
        std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size()));
    if (message.type() == "refused") throw std::runtime_error(message.text("message"));
    if (message.type() == "dataset")
      channel_->write_text(service::encode_opened(message.dataset().id, ""));
    if (message.type() != "rank") return;
    const service::RankMessage rank = message.rank();
    std::string problem;
    if (rank.rank != rank_) return;  // of a connection before
    if (rank.frame.empty()) throw std::runtime_error("the rank is let go");
    if (const auto refused = protocol::decode_refused(rank.frame, problem)) {
      if (refused->why != "not_yet") throw std::runtime_error(refused->message);
      usleep(20'000);
      ++rank_;
      return join();
    }
    if (rank.rings_of) admitted_ = true;
  }

  void take_commands() {
    const auto commands = decoder_.commands(bytes_);
    if (!commands) throw std::runtime_error("commands that cannot be read");
    for (const engine::Command& command : *commands) {
      if (const auto* read = std::get_if<engine::Read>(&command)) {
        events_.push_back(engine::ReadDone{read->request, engine::Outcome::done, {}});
      } else if (const auto* prepare = std::get_if<engine::Prepare>(&command)) {
        ++counts_.blocks;
        counts_.samples += prepare->samples();
        events_.push_back(engine::PreparationDone{prepare->request, engine::Outcome::done, {}});
      } else if (const auto* transfer = std::get_if<engine::Transfer>(&command)) {
        events_.push_back(engine::TransferDone{transfer->request, engine::Outcome::done});
      } else if (const auto* workers = std::get_if<engine::SetWorkers>(&command)) {
        for (; workers_ < workers->workers; ++workers_)
          events_.push_back(engine::WorkerJoined{WorkerId(workers_), NodeId(0)});
      }
    }
    if (events_.empty()) return;
    std::vector<std::byte> out;
    log::EventEncoder().step(Instant{}, events_, out);
    events_.clear();
    channel_->write(RemoteKind::payload, out);
  }

  void take_record() {
    const auto head = service::rank_record_head(bytes_);
    if (!head || head->word != RankWord::record) return;
    protocol::BatchRecord batch;
    const auto record = std::span(bytes_).subspan(sizeof *head);
    if (record.size() < sizeof batch) return;  // the end of an epoch
    std::memcpy(&batch, record.data(), sizeof batch);
    if (batch.kind != protocol::ServiceRecordKind::batch) return;
    ++counts_.batches;
    const auto now = Clock::now();
    if (!due_.empty()) {
      if (plan_.rate > 0)
        latencies_.push_back(std::chrono::duration<double, std::micro>(now - due_.front()).count());
      due_.pop_front();
    }
    send({protocol::JobRecordKind::consumed, 0, batch.step, compute_ns(), 0});
    send({protocol::JobRecordKind::released, 0, batch.step, 0, 0});
    if (plan_.rate == 0) ask(1, now);
  }

  const Plan& plan_;
  const std::uint32_t number_;
  Counts& counts_;
  std::unique_ptr<TcpChannel> channel_;
  log::CommandDecoder decoder_;
  std::vector<std::byte> bytes_;
  std::vector<engine::Event> events_;
  std::deque<Clock::time_point> due_;
  std::vector<double> latencies_;
  std::uint32_t workers_ = 0;
  std::uint32_t rank_ = 0;
  bool admitted_ = false;
};

class Fleet {
 public:
  explicit Fleet(const Plan& plan) : plan_(plan) {
    for (std::uint32_t i = 0; i < plan.agents; ++i)
      agents_.push_back(std::make_unique<FakeAgent>(plan_, i, counts_));
    for (const auto& agent : agents_) sockets_.push_back({agent->socket(), POLLIN, 0});
  }

  void run() {
    for (const auto& agent : agents_) agent->join();
    const auto all_are_in = [this] {
      return std::all_of(agents_.begin(), agents_.end(),
                         [](const auto& agent) { return agent->is_admitted(); });
    };
    const auto give_up = Clock::now() + std::chrono::seconds(60);
    while (!all_are_in()) {
      if (Clock::now() > give_up) throw std::runtime_error("not all jobs were admitted");
      turn(kTurn);
    }
    if (plan_.rate == 0) {
      for (const auto& agent : agents_) agent->ask(kCredits, Clock::now());
    }
    ask_for(1);  // until all is warm
    const Counts before = counts_;
    for (const auto& agent : agents_) agent->latencies().clear();
    const double took = ask_for(plan_.seconds);
    report(before, took);
  }

 private:
  // Waits for messages, and for at most so long.
  void turn(Clock::duration wait) {
    // A side that says nothing is lost.
    if (const auto now = Clock::now(); now - said_ > std::chrono::milliseconds(500)) {
      for (const auto& agent : agents_) agent->say_nothing();
      said_ = now;
    }
    const auto ns = std::chrono::nanoseconds(std::clamp(wait, Clock::duration(0), kTurn)).count();
    const timespec most{0, ns};
    if (ppoll(sockets_.data(), sockets_.size(), &most, nullptr) <= 0) return;
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      if (sockets_[i].revents != 0) agents_[i]->read();
    }
  }

  double ask_for(double seconds) {
    const auto begin = Clock::now();
    const auto end =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    const auto every = plan_.rate > 0 ? std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(1 / plan_.rate))
                                      : Clock::duration(0);
    for (auto due = begin; Clock::now() < end;) {
      for (; plan_.rate > 0 && due <= Clock::now(); due += every)
        agents_[next_++ % agents_.size()]->ask(1, due);
      turn(plan_.rate > 0 ? due - Clock::now() : kTurn);
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void report(const Counts& before, double took) {
    const auto blocks = counts_.blocks - before.blocks;
    std::vector<double> all;
    for (const auto& agent : agents_)
      all.insert(all.end(), agent->latencies().begin(), agent->latencies().end());
    std::sort(all.begin(), all.end());
    const auto part = [&](double of) {
      return all.empty() ? 0.0
                         : all[static_cast<std::size_t>(of * static_cast<double>(all.size() - 1))];
    };
    fmt::print(
        "{{\"seconds\": {}, \"batches\": {}, \"blocks\": {}, \"samples_per_block\": {}, "
        "\"p50_us\": {}, \"p99_us\": {}, \"p999_us\": {}}}\n",
        took, counts_.batches - before.batches, blocks,
        blocks > 0
            ? static_cast<double>(counts_.samples - before.samples) / static_cast<double>(blocks)
            : 0.0,
        part(0.5), part(0.99), part(0.999));
  }

  static constexpr Clock::duration kTurn = std::chrono::milliseconds(10);

  const Plan plan_;
  Counts counts_;
  std::vector<std::unique_ptr<FakeAgent>> agents_;
  std::vector<pollfd> sockets_;
  std::size_t next_ = 0;
  Clock::time_point said_{};
};

}  // namespace
}  // namespace batchflow::bench

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "fleet PORT TOKEN-FILE AGENTS BATCH SECONDS RATE\n");
    return 2;
  }
  try {
    batchflow::bench::Plan plan;
    plan.port = argv[1];
    std::vector<std::string> tokens;
    if (const std::string problem = batchflow::remote::read_tokens(argv[2], tokens);
        !problem.empty())
      throw std::runtime_error(problem);
    plan.token = tokens.front();
    plan.agents = static_cast<std::uint32_t>(std::stoul(argv[3]));
    plan.batch = static_cast<std::uint32_t>(std::stoul(argv[4]));
    plan.seconds = std::stod(argv[5]);
    plan.rate = std::stod(argv[6]);
    // Batches are asked for when they are due. To look for that without a pause would take a core.
    prctl(PR_SET_TIMERSLACK, 1);
    batchflow::bench::Fleet(plan).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fleet: %s\n", error.what());
    return 1;
  }
}
