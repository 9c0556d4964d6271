#include "runtime/feeds/feed_settings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/random.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/feed_wire.h"

namespace batchflow::feeds {
namespace {

constexpr Bytes kSegmentLeast = 1 << 16;
constexpr Bytes kSegmentMost = Bytes{1} << 30;
// Of the file. A service that does not know kafka_settings would connect without passwords and TLS,
// so it must not take the file for one that it knows.
constexpr int kSettingsVersion = 1;
constexpr int kSettingsVersionOfKafka = 2;

std::string problem_of(int error) {
  return std::generic_category().message(error);
}

}  // namespace

batch::BatchSpec fields_of(const FeedSettings& settings) {
  batch::BatchSpec spec;
  if (settings.schema == "bytes") return spec;
  const std::string_view text = settings.schema;
  const std::size_t open = text.find('[');
  const auto type = batch::element_from(text.substr(0, open));
  const auto refuse = [&] {
    throw FeedError(
        fmt::format("'{}' is no schema of records; write bytes, or numbers such as f32[16]", text));
  };
  if (!type || (open != text.npos && text.back() != ']')) refuse();
  batch::Field field;
  field.name = "value";
  field.type = *type;
  std::string_view rest = open == text.npos ? "" : text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    std::uint64_t size = 0;
    const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (end.ec != std::errc() || size == 0) refuse();
    field.shape.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(end.ptr - rest.data()));
    if (!rest.empty() && (rest.front() != ',' || rest.size() == 1)) refuse();
    if (!rest.empty()) rest.remove_prefix(1);
  }
  spec.fields.push_back(std::move(field));
  if (const std::string problem = spec.problem(); !problem.empty())
    throw FeedError(fmt::format("no batch can have records of '{}': {}", text, problem));
  return spec;
}

void complete(FeedSettings& settings) {
  const batch::BatchSpec spec = fields_of(settings);
  if (!spec.fields.empty()) settings.record_bytes = spec.fields.front().row_bytes();
  if (settings.record_bytes == 0 || settings.record_bytes > protocol::kFeedRecordMost)
    throw FeedError(fmt::format("records of {} bytes; a feed has records of 1 to {}",
                                settings.record_bytes, protocol::kFeedRecordMost));
  if (settings.segment_bytes == 0) settings.segment_bytes = settings.keep_bytes / 8;
  settings.segment_bytes = std::min(std::max(settings.segment_bytes, kSegmentLeast), kSegmentMost);
  if (settings.keep_bytes < 4 * settings.segment_bytes ||
      settings.keep_bytes / 4 < settings.record_bytes)
    throw FeedError(
        fmt::format("a feed that keeps {} bytes, in files of {} bytes, with records of up to {}; "
                    "let it keep at "
                    "least four times as much as a file and a record have",
                    settings.keep_bytes, settings.segment_bytes, settings.record_bytes));
  while (settings.id == 0) {
    if (getrandom(&settings.id, sizeof settings.id, 0) != sizeof settings.id)
      throw FeedError("the system gives no random numbers: " + problem_of(errno));
  }
}

void set_kafka(FeedSettings& settings, std::string_view text) {
  const std::size_t slash = text.rfind('/');
  settings.kafka_brokers = text.substr(0, slash);
  settings.kafka_topic = slash == text.npos ? "" : text.substr(slash + 1);
  constexpr std::string_view kOfTopics =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  const bool is_topic = !settings.kafka_topic.empty() && settings.kafka_topic.size() <= 249 &&
                        settings.kafka_topic.find_first_not_of(kOfTopics) == std::string::npos;
  if (settings.kafka_brokers.empty() || !is_topic)
    throw FeedError(
        fmt::format("'{}' is no topic of Kafka; write HOST:PORT[,HOST:PORT...]/TOPIC", text));
}

void set_kafka_settings(FeedSettings& settings, std::string_view path) {
  if (settings.kafka_topic.empty())
    throw FeedError(
        fmt::format("settings of Kafka in '{}', but no topic; write --kafka "
                    "HOST:PORT[,HOST:PORT...]/TOPIC, too",
                    path));
  if (!path.starts_with('/'))
    throw FeedError(
        fmt::format("'{}': a feed names its file of Kafka's settings by its path from / on", path));
  settings.kafka_settings = path;
}

Digest version_of(const FeedSettings& settings) {
  return hash(0x6665656473, settings.id);  // no folder of files has it
}

std::string to_json(const FeedSettings& settings) {
  nlohmann::ordered_json json;
  json["v"] = settings.kafka_settings.empty() ? kSettingsVersion : kSettingsVersionOfKafka;
  json["id"] = fmt::format("{:016x}", settings.id);
  json["schema"] = settings.schema;
  json["record_bytes"] = settings.record_bytes;
  json["labelled"] = settings.labelled;
  json["keep_bytes"] = settings.keep_bytes;
  json["segment_bytes"] = settings.segment_bytes;
  json["late_after_ns"] = settings.late_after.count();
  if (!settings.kafka_topic.empty())
    json["kafka"] = settings.kafka_brokers + "/" + settings.kafka_topic;
  if (!settings.kafka_settings.empty()) json["kafka_settings"] = settings.kafka_settings;
  return json.dump(2) + "\n";
}

FeedSettings settings_from_json(std::string_view text, std::string_view name) {
  FeedSettings settings;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    const int version = json.at("v").get<int>();
    if (version != kSettingsVersion && version != kSettingsVersionOfKafka)
      throw FeedError(fmt::format("{}: it was written by another version", name));
    if (json.contains("kafka_settings") != (version == kSettingsVersionOfKafka))
      throw FeedError(fmt::format("{}: kafka_settings and \"v\": {} go together", name,
                                  kSettingsVersionOfKafka));
    const std::string id = json.at("id").get<std::string>();
    const auto end = std::from_chars(id.data(), id.data() + id.size(), settings.id, 16);
    if (end.ec != std::errc() || end.ptr != id.data() + id.size() || settings.id == 0)
      throw FeedError(fmt::format("{}: '{}' is no id of a feed", name, id));
    settings.schema = json.at("schema").get<std::string>();
    settings.record_bytes = json.at("record_bytes").get<Bytes>();
    settings.labelled = json.at("labelled").get<bool>();
    settings.keep_bytes = json.at("keep_bytes").get<Bytes>();
    settings.segment_bytes = json.at("segment_bytes").get<Bytes>();
    settings.late_after = Duration(json.at("late_after_ns").get<std::int64_t>());
    if (json.contains("kafka")) set_kafka(settings, json.at("kafka").get<std::string>());
    if (json.contains("kafka_settings"))
      set_kafka_settings(settings, json.at("kafka_settings").get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    throw FeedError(fmt::format("{}: {}", name, error.what()));
  }
  complete(settings);
  return settings;
}

bool is_feed(const std::string& folder) {
  return ::access((folder + "/" + std::string(kSettingsFile)).c_str(), F_OK) == 0;
}

FeedSettings read_settings(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kSettingsFile);
  std::string problem;
  const protocol::Descriptor file = protocol::open_regular(path, O_RDONLY, problem);
  if (!file) throw FeedError(fmt::format("{}: {}", path, problem));
  std::string text(65'536, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) throw FeedError(fmt::format("{}: {}", path, problem_of(errno)));
  text.resize(static_cast<std::size_t>(size));
  FeedSettings settings = settings_from_json(text, path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    throw FeedError(fmt::format("{}: {}", path, problem_of(errno)));
  if ((status.st_mode & 022) == 0) settings.sole_writer = status.st_uid;
  return settings;
}

void create_feed(const std::string& folder, FeedSettings settings) {
  complete(settings);
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    throw FeedError(fmt::format("{} cannot be made: {}", folder, problem_of(errno)));
  const std::string path = folder + "/" + std::string(kSettingsFile);
  const std::string text = to_json(settings);
  // It is whole before it has its name, which only one of two can give it.
  const std::string made = fmt::format("{}.{:016x}", path, settings.id);
  // Whoever may write it could send the passwords in Kafka's settings to other brokers.
  const mode_t mode = settings.kafka_settings.empty() ? 0666 : 0644;
  const protocol::Descriptor file(
      ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) throw FeedError(fmt::format("{}: {}", made, problem_of(errno)));
  int error = 0;
  errno = 0;
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0 || ::link(made.c_str(), path.c_str()) != 0)
    error = errno != 0 ? errno : ENOSPC;
  ::unlink(made.c_str());
  const protocol::Descriptor within(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (error == 0 && (!within || ::fsync(within.get()) != 0)) error = errno;
  if (error == EEXIST) throw FeedError(fmt::format("{} is a feed already", folder));
  if (error != 0) throw FeedError(fmt::format("{}: {}", path, problem_of(error)));
}

}  // namespace batchflow::feeds
