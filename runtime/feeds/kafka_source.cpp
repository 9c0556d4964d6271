#include "runtime/feeds/kafka_source.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "runtime/feeds/kafka_library.h"
#include "runtime/feeds/kafka_settings.h"
#include "runtime/protocol/feed_hello.h"
#include "runtime/protocol/feed_socket.h"
#include "runtime/protocol/feed_wire.h"

namespace batchflow::feeds {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using protocol::FeedFrame;

constexpr int kPartitionsMost = 512;
constexpr std::size_t kUnsentMost = std::size_t{4} << 20;  // of a partition
constexpr int kMessagesAtOnce = 512;
constexpr auto kLookEvery = 5s;  // for brokers and partitions
constexpr int kTopicMs = 2000;
constexpr auto kAgainAfter = 500ms;
constexpr auto kAnewAfter = 5s;  // if no partitions are found and a file has settings
constexpr int kWaitMs = 50;

// One partition's connection to the feed.
class PartitionFeed {
 public:
  bool open(const std::string& folder, const protocol::FeedHello& hello, std::string& problem) {
    socket_ = protocol::connect_to_feed(folder, problem);
    if (!socket_) return false;
    protocol::put_feed_text(FeedFrame::hello, protocol::encode(hello), out_);
    const auto until = Clock::now() + 10s;
    while (!welcomed_ && Clock::now() < until) {
      if (!exchange(problem)) return false;
      pollfd answers{socket_.get(), POLLIN, 0};
      if (!welcomed_) ::poll(&answers, 1, kWaitMs);
    }
    if (!welcomed_) problem = "the feed does not answer";
    return welcomed_;
  }

  // The offset that comes next.
  std::int64_t next_offset() const { return static_cast<std::int64_t>(durable_); }
  bool has_room() const { return !is_to_wait_ && out_.size() < kUnsentMost; }

  void put(const protocol::FeedRecordHead& head, std::span<const std::byte> bytes) {
    protocol::put_feed_record(head, bytes, out_);
  }

  // Sends and receives what is possible now. False: the connection is lost, with the reason.
  bool exchange(std::string& problem) {
    while (!out_.empty()) {
      const ssize_t put =
          ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put <= 0) break;
      out_.erase(out_.begin(), out_.begin() + put);
    }
    for (;;) {
      std::byte part[4096];
      const ssize_t got = ::recv(socket_.get(), part, sizeof part, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return take_answers(problem);
      if (got <= 0) {
        problem = "the feed has closed the connection";
        take_answers(problem);  // it may have said why
        return false;
      }
      in_.insert(in_.end(), part, part + got);
    }
  }

 private:
  bool take_answers(std::string& problem) {
    std::span<const std::byte> rest(in_);
    bool well = true;
    while (rest.size() > protocol::kFeedLength) {
      std::span<const std::byte> at = rest;
      const auto length = protocol::take_feed<std::uint32_t>(at);
      if (length == 0 || at.size() < length) break;
      const auto kind = static_cast<FeedFrame>(protocol::take_feed<std::uint8_t>(at));
      std::span<const std::byte> body = at.first(length - 1);
      rest = rest.subspan(protocol::kFeedLength + length);
      if (kind == FeedFrame::refused) {
        problem.assign(reinterpret_cast<const char*>(body.data()), body.size());
        well = false;
      }
      if (body.size() < 9 || (kind != FeedFrame::welcome && kind != FeedFrame::ack)) continue;
      durable_ = protocol::take_feed<std::uint64_t>(body);
      if (kind == FeedFrame::welcome) welcomed_ = true;
      if (kind == FeedFrame::ack)
        is_to_wait_ = (protocol::take_feed<std::uint8_t>(body) & protocol::kFeedWaits) != 0;
    }
    in_.erase(in_.begin(), in_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    return well;
  }

  protocol::Descriptor socket_;
  std::vector<std::byte> in_, out_;
  std::uint64_t durable_ = 0;
  bool welcomed_ = false;
  bool is_to_wait_ = false;
};

}  // namespace

class KafkaSource::Parts {
 public:
  Parts(std::string folder, FeedSettings settings, Changed changed)
      : folder_(std::move(folder)), settings_(std::move(settings)), changed_(std::move(changed)) {
    if (getrandom(&instance_, sizeof instance_, 0) != sizeof instance_) instance_ = 0;
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "bf-kafka");
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      while (!ends_) {
        say(run());
        for (int i = 0; i < 10 && !ends_; ++i) std::this_thread::sleep_for(kAgainAfter / 10);
      }
    });
  }
  ~Parts() {
    ends_ = true;
    thread_.join();
  }

 private:
  void say(const std::string& problem) {
    if (std::exchange(said_, problem) != problem) changed_(problem);
  }

  // Until it ends, or something must begin anew. Answers what is wrong.
  std::string run() {
    std::string problem;
    // What the last client did not hear is of earlier settings.
    if (!std::exchange(is_refused_, false)) refusal_.clear();
    const KafkaLibrary* const library = KafkaLibrary::find(problem);
    if (!library) return problem;
    library_ = library;
    KafkaLibrary::Client* const made = make_client(problem);
    if (!made) return problem;
    problem = consume(made);
    feeds_.clear();
    library_->destroy_flags(made, KafkaLibrary::kDestroyAtOnce);
    return problem;
  }

  // Those of the file, and over them those that the feed relies on.
  bool set_all(KafkaLibrary::Settings* all, std::string& problem) {
    std::vector<KafkaSetting> in_file;
    problem = read_kafka_settings(folder_, settings_, in_file);
    if (!problem.empty()) return false;
    char why[KafkaLibrary::kTextMost] = "";
    const auto set = [&](const char* name, const std::string& value) {
      return library_->conf_set(all, name, value.c_str(), why, sizeof why) == KafkaLibrary::kSet;
    };
    for (const KafkaSetting& one : in_file) {
      if (set(one.name.c_str(), one.value)) continue;
      problem = fmt::format("{}:{}: Kafka: {}", settings_.kafka_settings, one.line, why);
      return false;
    }
    // With Kerberos the library would run `kinit` by a shell. A library without it may know neither
    // of these names.
    if (!in_file.empty()) {
      set("sasl.kerberos.kinit.cmd", "true");
      set("sasl.kerberos.min.time.before.relogin", "0");
    }
    const std::pair<const char*, std::string> wanted[] = {
        {"bootstrap.servers", settings_.kafka_brokers},
        {"group.id", fmt::format("batchflow-{:016x}", settings_.id)},  // nothing is kept for it
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"auto.offset.reset", "earliest"},
        {"queued.max.messages.kbytes", "16384"},
        {"max.poll.interval.ms", "86400000"},
        {"reconnect.backoff.max.ms", "2000"}};
    for (const auto& [name, value] : wanted) {
      if (set(name, value)) continue;
      problem = fmt::format("Kafka: {}", why);
      return false;
    }
    return true;
  }

  KafkaLibrary::Client* make_client(std::string& problem) {
    char why[KafkaLibrary::kTextMost] = "";
    KafkaLibrary::Settings* const all = library_->conf_new();
    if (!set_all(all, problem)) {
      library_->conf_destroy(all);
      return nullptr;
    }
    library_->conf_set_opaque(all, this);
    library_->conf_set_error_cb(all, [](KafkaLibrary::Client*, int, const char* text, void* parts) {
      static_cast<Parts*>(parts)->hear(text);
    });
    library_->conf_set_log_cb(all, [](const KafkaLibrary::Client*, int, const char*, const char*) {
    });  // what is wrong is said by `changed`, once
    KafkaLibrary::Client* const client =
        library_->create(KafkaLibrary::kConsumer, all, why, sizeof why);
    if (!client) {
      // Settings that do not go together, or a file that cannot be read.
      problem = settings_.kafka_settings.empty()
                    ? fmt::format("Kafka: {}", why)
                    : fmt::format("{}: Kafka: {}", settings_.kafka_settings, why);
      library_->conf_destroy(all);
      return nullptr;
    }
    library_->poll_set_consumer(client);
    return client;
  }

  // Called while the library is polled. Of its errors, those of passwords and TLS count: others
  // pass, or follow from them.
  void hear(std::string_view text) {
    // As in "ssl://HOST:PORT/1: SSL handshake failed: ... (after 5ms in state SSL_HANDSHAKE)". The
    // same refusal must read the same each time, or the log would have it each time.
    const std::size_t broker = text.find(": ");
    if (broker != text.npos && text.substr(0, broker).find('/') != text.npos)
      text.remove_prefix(broker + 2);
    text = text.substr(0, text.rfind(" (after "));
    // A broker that ends also says "Disconnected: ... (connecting to a SSL listener?)".
    if (text.starts_with("Disconnected") ||
        (text.find("SSL") == text.npos && text.find("SASL") == text.npos))
      return;
    refusal_ = text;
    is_refused_ = true;
  }

  // Why no broker answers.
  const std::string& why_silent(KafkaLibrary::Client* client, int error) {
    // Without partitions nothing else polls, and nothing is heard.
    if (feeds_.empty())
      if (KafkaLibrary::Message* const message = library_->consumer_poll(client, 0))
        library_->message_destroy(message);
    if (silence_.empty()) silence_ = library_->error_text(error);
    return refusal_.empty() ? silence_ : refusal_;
  }

  // The number of partitions; nothing, with the reason.
  std::optional<int> look(KafkaLibrary::Client* client, std::string& problem) {
    KafkaLibrary::Topic* const topic =
        library_->topic_new(client, settings_.kafka_topic.c_str(), nullptr);
    const KafkaLibrary::Metadata* known = nullptr;
    const int error = topic ? library_->metadata(client, 0, topic, &known, kTopicMs) : -1;
    std::optional<int> partitions;
    if (error != 0) {
      problem = fmt::format("no broker of {} answers ({}); it goes on trying",
                            settings_.kafka_brokers, why_silent(client, error));
    } else if (known->topics != 1 || known->topic_list[0].error != 0 ||
               known->topic_list[0].partitions < 1) {
      problem =
          fmt::format("the brokers at {} have no topic '{}'{}; it goes on looking",
                      settings_.kafka_brokers, settings_.kafka_topic,
                      known->topics == 1
                          ? fmt::format(" ({})", library_->error_text(known->topic_list[0].error))
                          : "");
    } else if (known->topic_list[0].partitions > kPartitionsMost) {
      problem =
          fmt::format("topic '{}' has {} partitions; a feed takes {} at most",
                      settings_.kafka_topic, known->topic_list[0].partitions, kPartitionsMost);
    } else {
      partitions = known->topic_list[0].partitions;
    }
    if (error == 0) {
      silence_.clear();
      refusal_.clear();
    }
    if (known) library_->metadata_destroy(known);
    if (topic) library_->topic_destroy(topic);
    return partitions;
  }

  std::string begin(KafkaLibrary::Client* client, int partitions) {
    std::string problem;
    KafkaLibrary::Places* const places = library_->places_new(partitions);
    feeds_ = std::vector<PartitionFeed>(static_cast<std::size_t>(partitions));
    for (int i = 0; i < partitions && problem.empty(); ++i) {
      PartitionFeed& feed = feeds_[static_cast<std::size_t>(i)];
      const std::string name = fmt::format("kafka {}/{}", settings_.kafka_topic, i);
      if (!feed.open(folder_, {name, settings_.schema, true, instance_, false}, problem)) break;
      library_->places_add(places, settings_.kafka_topic.c_str(), i);
      library_->places_set_offset(places, settings_.kafka_topic.c_str(), i, feed.next_offset());
    }
    if (const int error = problem.empty() ? library_->assign(client, places) : 0; error != 0)
      problem = fmt::format("Kafka: {}", library_->error_text(error));
    library_->places_destroy(places);
    return problem;
  }

  std::string consume(KafkaLibrary::Client* client) {
    std::string problem;
    auto look_at = Clock::now();
    std::optional<Clock::time_point> lost_at;  // since then there are no partitions to be found
    while (!ends_) {
      if (Clock::now() >= look_at) {
        look_at = Clock::now() + kLookEvery;
        const std::optional<int> partitions = look(client, problem);
        // Without brokers nothing changes: what was read goes on, and brokers are looked for again.
        if (!partitions) {
          say(problem);
          look_at = Clock::now() + kAgainAfter;
          if (!lost_at) lost_at = Clock::now();
          // A client keeps its settings, and the file may have a new password.
          if (!settings_.kafka_settings.empty() && Clock::now() > *lost_at + kAnewAfter)
            return problem;
        } else if (feeds_.size() != static_cast<std::size_t>(*partitions)) {
          if (problem = begin(client, *partitions); !problem.empty()) return problem;
        }
        if (partitions) {
          say("");
          lost_at.reset();
        }
      }
      const bool has_room =
          !feeds_.empty() &&
          std::all_of(feeds_.begin(), feeds_.end(), [](auto& one) { return one.has_room(); });
      if (has_room) {
        int wait = kWaitMs;
        for (int i = 0; i < kMessagesAtOnce; ++i) {
          KafkaLibrary::Message* const message =
              library_->consumer_poll(client, std::exchange(wait, 0));
          if (!message) break;
          take(*message);
          library_->message_destroy(message);
        }
      } else {
        std::this_thread::sleep_for(5ms);
      }
      for (PartitionFeed& one : feeds_)
        if (!one.exchange(problem)) return problem;
    }
    return "";
  }

  // Errors of brokers are found by looking, and the library tries again by itself.
  void take(const KafkaLibrary::Message& message) {
    if (message.error != 0 || message.partition < 0 ||
        static_cast<std::size_t>(message.partition) >= feeds_.size() || message.offset < 0)
      return;
    protocol::FeedRecordHead head;
    head.sequence = static_cast<std::uint64_t>(message.offset) + 1;
    const std::string_view key(static_cast<const char*>(message.key),
                               message.key ? message.key_bytes : 0);
    head.key = hash(key.size());
    for (const char byte : key) head.key = hash(head.key, static_cast<unsigned char>(byte));
    int kind = 0;
    const std::int64_t ms = library_->message_timestamp(&message, &kind);
    head.time_ns =
        ms >= 0 && ms < INT64_MAX / 1'000'000 ? ms * 1'000'000 : protocol::record_time_ns();
    if (settings_.labelled) {
      const auto end = std::from_chars(key.data(), key.data() + key.size(), head.label);
      if (end.ec != std::errc() || end.ptr != key.data() + key.size()) head.label = -1;
    }
    // To the feed a message that is too large is malformed, as an empty one is.
    const bool fits = message.payload && message.bytes <= settings_.record_bytes;
    feeds_[static_cast<std::size_t>(message.partition)].put(
        head, {static_cast<const std::byte*>(message.payload), fits ? message.bytes : 0});
  }

  const std::string folder_;
  const FeedSettings settings_;
  const Changed changed_;
  std::uint64_t instance_ = 0;
  const KafkaLibrary* library_ = nullptr;
  std::vector<PartitionFeed> feeds_;  // by partition
  std::string said_;
  std::string silence_;      // what asking said first, since no broker answers
  std::string refusal_;      // what was heard of passwords and TLS since then
  bool is_refused_ = false;  // this client has heard a refusal
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

KafkaSource::KafkaSource(std::string folder, FeedSettings settings, Changed changed)
    : parts_(std::make_unique<Parts>(std::move(folder), std::move(settings), std::move(changed))) {}
KafkaSource::~KafkaSource() = default;

}  // namespace batchflow::feeds
