#include "runtime/ctl/network_costs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/measuring.h"
#include "runtime/ctl/peer_messages.h"
#include "runtime/ctl/service_client.h"
#include "runtime/remote/remote_options.h"

namespace batchflow::ctl {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using remote::RemoteKind;
using remote::TcpChannel;

constexpr unsigned kStreams = 4;
constexpr std::size_t kSmall = 64;  // bytes of a message, about those of a record
constexpr std::size_t kRoundTripsMost = 1'000'000;
constexpr auto kAnswerWithin = 10s;

class NetworkMeasurement {
 public:
  explicit NetworkMeasurement(const NetworkCostsOptions& options) : options_(options) {
    std::string problem;
    if (!remote::parse_remote("tcp://" + options.peer, address_, problem))
      throw ConfigError(fmt::format("--peer {}: not an address; write HOST:PORT", options.peer));
    std::vector<std::string> tokens;
    if (problem = remote::read_tokens(options.token_file, tokens); !problem.empty())
      throw ConfigError("--token " + problem);
    token_ = tokens.front();
    for (unsigned i = 0; i < kStreams; ++i) channels_.push_back(enter());
  }

  void round_trips(NetworkCosts& costs) {
    TcpChannel& channel = *channels_.front();
    wait_at_most(channel);
    std::array<std::byte, kSmall> message{};
    std::vector<double> took;
    const auto begin = Clock::now();
    while ((since(begin) < options_.seconds / 2 || took.size() < 20) &&
           took.size() < kRoundTripsMost && !stops()) {
      const auto sent = Clock::now();
      TcpChannel::Head head;
      if (!channel.write(RemoteKind::record, message) ||
          !channel.read_head(head, TcpChannel::kNever) || head.bytes != kSmall ||
          !channel.read(message))
        throw cut_off(channel.problem());
      took.push_back(since(sent));
    }
    if (stops()) throw output::Interrupted();
    costs.p50_s = percentile(took, 0.5);
    costs.p99_s = percentile(took, 0.99);
  }

  // The receiver has all bytes before the clock stops, so it is never more than the link carries.
  NetworkRate rate(unsigned streams, bool is_sent) {
    std::vector<std::future<Stream>> running;
    const auto begin = Clock::now();
    for (unsigned i = 0; i < streams; ++i)
      running.push_back(std::async(std::launch::async, [this, i, is_sent] {
        return is_sent ? send(*channels_[i]) : receive(*channels_[i]);
      }));
    for (const std::future<Stream>& stream : running) {
      while (stream.wait_for(50ms) != std::future_status::ready) {
        if (!stops()) continue;
        for (const auto& channel : channels_) channel->shut("interrupted");
      }
    }
    const double whole_s = since(begin);
    if (stops()) throw output::Interrupted();
    NetworkRate rate{streams, is_sent};
    Moved own, peer;
    for (unsigned i = 0; i < streams; ++i) {
      const Stream stream = running[i].get();
      if (!stream.is_whole) throw cut_off(channels_[i]->problem());
      own.bytes += stream.own.bytes;
      own.cpu_s += stream.own.cpu_s;
      peer.bytes += stream.peer.bytes;
      peer.cpu_s += stream.peer.cpu_s;
    }
    if (own.bytes != peer.bytes || own.bytes <= 0)
      throw Failure(fmt::format("{}: it says that {} bytes were moved, and it were {}",
                                options_.peer, peer.bytes, own.bytes));
    rate.bytes_per_s = own.bytes / whole_s;
    rate.own_s_per_byte = own.cpu_s / own.bytes;
    rate.peer_s_per_byte = peer.cpu_s / own.bytes;
    return rate;
  }

  void end() { write_message(*channels_.front(), {{"type", "end"}}); }

 private:
  struct Stream {
    Moved own, peer;
    bool is_whole = false;
  };

  bool has_begun() const { return !session_.empty(); }
  bool stops() const { return options_.stop && options_.stop(); }

  Failure cut_off(const std::string& problem) const {
    return Failure(fmt::format("{}: the measurement was cut off: {}", options_.peer,
                               output::printable(problem)));
  }

  void wait_at_most(TcpChannel& channel) const {
    channel.end_at(TcpChannel::Clock::now() + kAnswerWithin +
                   std::chrono::milliseconds(static_cast<std::int64_t>(options_.seconds * 1000)));
  }

  // The answer, which is of that type.
  json ask(TcpChannel& channel, const json& question, std::string_view type) const {
    write_message(channel, question);
    json answer = read_message(channel);
    if (type_of(answer) == "refused") {
      const std::string why = text_of(answer, "message");
      throw has_begun() ? cut_off(why)
                        : Failure(fmt::format("{}: {}", options_.peer, output::printable(why)));
    }
    if (type_of(answer) == type) return answer;
    if (has_begun() && !channel.is_open()) throw cut_off(channel.problem());
    throw Failure(
        fmt::format("{}: what listens there is no batchflowctl calibrate --listen{}", options_.peer,
                    channel.is_open() ? "" : " (" + output::printable(channel.problem()) + ")"));
  }

  std::unique_ptr<TcpChannel> enter() {
    std::string problem;
    const auto deadline = TcpChannel::Clock::now() + kAnswerWithin;
    auto channel = TcpChannel::connect(
        address_, nullptr, deadline, problem,
        "start batchflowctl calibrate --listen ADDRESS:PORT --token FILE there");
    if (!channel) throw has_begun() ? cut_off(problem) : Failure(problem);
    channel->end_at(deadline);
    const json greeting = ask(*channel, peer_greeting(), kPeerMagic);
    if (number(greeting, "version") != kPeerVersion)
      throw Failure(fmt::format(
          "{}: it has version {} of the protocol, and this program version {}; run the same "
          "BatchFlow on both",
          options_.peer, number(greeting, "version"), kPeerVersion));
    const json token = {
        {"type", "token"}, {"token", token_}, {"session", session_}, {"seconds", options_.seconds}};
    session_ = text_of(ask(*channel, token, "session"), "session");
    channel->end_at(TcpChannel::kNever);
    return channel;
  }

  static void take_moved(TcpChannel& channel, Stream& stream) {
    const json answer = read_message(channel);
    stream.is_whole = type_of(answer) == "moved";
    if (!stream.is_whole) return channel.shut("it does not say how many bytes it moved");
    stream.peer = {number(answer, "bytes"), number(answer, "cpu_s")};
  }

  Stream send(TcpChannel& channel) const {
    Stream stream;
    wait_at_most(channel);
    if (write_message(channel, {{"type", "take"}}) &&
        give_bytes(channel, options_.seconds / 2, stream.own))
      take_moved(channel, stream);
    return stream;
  }
  Stream receive(TcpChannel& channel) const {
    Stream stream;
    wait_at_most(channel);
    if (write_message(channel, {{"type", "give"}, {"seconds", options_.seconds / 2}}) &&
        take_bytes(channel, stream.own))
      take_moved(channel, stream);
    return stream;
  }

  const NetworkCostsOptions& options_;
  remote::RemoteAddress address_;
  std::string token_;
  std::string session_;
  std::vector<std::unique_ptr<TcpChannel>> channels_;
};

}  // namespace

double NetworkCosts::most_bytes_per_s(bool is_sent) const {
  double most = 0;
  for (const NetworkRate& rate : rates)
    if (rate.is_sent == is_sent) most = std::max(most, rate.bytes_per_s);
  return most;
}

double NetworkCosts::cpu_s_per_byte(bool is_sent) const {
  for (const NetworkRate& rate : rates)
    if (rate.is_sent == is_sent) return rate.own_s_per_byte;
  return 0;
}

NetworkCosts measure_network(const NetworkCostsOptions& options) {
  constexpr double kParts = 5;
  double done = 0;
  const auto begin_part = [&](std::string_view what) {
    if (options.progress) options.progress(done++ / kParts, what);
  };
  begin_part("the network: messages");
  NetworkMeasurement measurement(options);
  NetworkCosts costs;
  costs.peer = options.peer;
  measurement.round_trips(costs);
  for (const unsigned streams : {1u, kStreams}) {
    for (const bool is_sent : {true, false}) {
      begin_part(fmt::format("the network: {} by {}", is_sent ? "sending" : "receiving", streams));
      costs.rates.push_back(measurement.rate(streams, is_sent));
    }
  }
  measurement.end();
  return costs;
}

}  // namespace batchflow::ctl
