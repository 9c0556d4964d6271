#include "runtime/feeds/kafka_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/protocol/secret_file.h"

namespace batchflow::feeds {
namespace {

constexpr std::string_view kOfNames =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
constexpr std::string_view kSpace = " \t\r";

struct ReservedName {
  std::string_view name, why;
};

constexpr std::string_view kOfBrokers = "the feed itself says which brokers it reads (--kafka)";
constexpr std::string_view kOfOffsets =
    "the feed's log says where to go on, so that each record comes once, and commits nothing";
constexpr std::string_view kOfWaiting =
    "the feed sets it, so that what is read ahead has a bound and lost brokers are tried again";
constexpr std::string_view kOfCode = "it loads code into the service";
constexpr std::string_view kOfKinit =
    "the service runs no command such as kinit; renew the ticket of its user beside it";
constexpr std::string_view kOfReports =
    "it is for programs that use the library's log, events or signals, and a feed does not";

constexpr ReservedName kReservedNames[] = {
    {"bootstrap.servers", kOfBrokers},
    {"metadata.broker.list", kOfBrokers},
    {"test.mock.num.brokers", kOfBrokers},
    {"auto.commit.enable", kOfOffsets},
    {"auto.commit.interval.ms", kOfOffsets},
    {"auto.offset.reset", kOfOffsets},
    {"enable.auto.commit", kOfOffsets},
    {"enable.auto.offset.store", kOfOffsets},
    {"group.id", kOfOffsets},
    {"group.instance.id", kOfOffsets},
    {"offset.store.method", kOfOffsets},
    {"offset.store.path", kOfOffsets},
    {"offset.store.sync.interval.ms", kOfOffsets},
    {"max.poll.interval.ms", kOfWaiting},
    {"queued.max.messages.kbytes", kOfWaiting},
    {"reconnect.backoff.max.ms", kOfWaiting},
    {"plugin.library.paths", kOfCode},
    {"ssl.engine.id", kOfCode},
    {"ssl.engine.location", kOfCode},
    {"ssl.providers", kOfCode},
    {"sasl.kerberos.keytab", kOfKinit},
    {"sasl.kerberos.kinit.cmd", kOfKinit},
    {"sasl.kerberos.min.time.before.relogin", kOfKinit},
    {"sasl.kerberos.principal", kOfKinit},
    {"debug", kOfReports},
    {"enabled_events", kOfReports},
    {"internal.termination.signal", kOfReports},
    {"log.queue", kOfReports},
    {"statistics.interval.ms", kOfReports},
};

// Why the feed does not take a setting of that name; empty: it does.
std::string_view why_reserved(std::string_view name) {
  // librdkafka takes settings of topics with this in front, too.
  constexpr std::string_view kOfTopic = "topic.";
  if (name.starts_with(kOfTopic)) name.remove_prefix(kOfTopic.size());
  if (name.ends_with("_cb")) return "it is a function of a program, and no file has one";
  const auto* const found = std::find_if(std::begin(kReservedNames), std::end(kReservedNames),
                                         [&](const ReservedName& one) { return one.name == name; });
  return found == std::end(kReservedNames) ? std::string_view() : found->why;
}

std::string_view without_space_around(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char one) {
    const auto byte = static_cast<unsigned char>(one);
    return (byte < 0x20 && one != '\t') || byte == 0x7f;
  });
}

// A line that is neither empty nor a comment. Answers what is wrong.
std::string parse_line(std::string_view line, KafkaSetting& setting) {
  const std::size_t equals = line.find('=');
  setting.name = without_space_around(line.substr(0, equals));
  // What has no name may be a part of a secret, so it is not repeated.
  if (equals == line.npos || setting.name.empty() ||
      setting.name.find_first_not_of(kOfNames) != std::string::npos)
    return "it is no name=value";
  setting.value = without_space_around(line.substr(equals + 1));
  if (has_control_character(setting.value))
    return fmt::format("{}: its value has a control character", setting.name);
  if (setting.value.ends_with('\\'))
    return fmt::format("{}: its value ends with a backslash; write all of it in one line",
                       setting.name);
  const std::string_view why = why_reserved(setting.name);
  return why.empty() ? "" : fmt::format("{} may not stand here: {}", setting.name, why);
}

}  // namespace

std::string parse_kafka_settings(std::string_view text, std::string_view path,
                                 std::vector<KafkaSetting>& all) {
  all.clear();
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_space_around(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    KafkaSetting setting;
    setting.line = number;
    if (const std::string problem = parse_line(line, setting); !problem.empty())
      return fmt::format("{}:{}: {}", path, number, problem);
    all.push_back(std::move(setting));
  }
  return "";
}

std::string read_kafka_settings(const std::string& folder, const FeedSettings& feed,
                                std::vector<KafkaSetting>& all) {
  all.clear();
  if (feed.kafka_settings.empty()) return "";
  protocol::SecretFile file;
  if (std::string problem = protocol::read_secret_file(
          feed.kafka_settings, "a file of Kafka's settings", kKafkaSettingsMost, file);
      !problem.empty())
    return problem;
  // A password goes to the brokers that the feed names. So whoever can say which these are must be
  // a user who can read the password, too.
  const std::string names = folder + "/" + std::string(kSettingsFile);
  if (!feed.sole_writer)
    return fmt::format("{}: others can write it, and it names {}, a secret; chmod 644", names,
                       feed.kafka_settings);
  if (*feed.sole_writer != 0 && *feed.sole_writer != file.owner)
    return fmt::format(
        "{}: it belongs to another user than {}, so the feed may not use it; let its user "
        "make the feed",
        feed.kafka_settings, names);
  return parse_kafka_settings(file.text, feed.kafka_settings, all);
}

}  // namespace batchflow::feeds
