// batchflowctl feed: makes feeds, and sends records to them (docs/live.md).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "runtime/client/c_interface.h"
#include "runtime/client/feed_producer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/folder_sender.h"
#include "runtime/feeds/feed_settings.h"
#include "runtime/feeds/kafka_settings.h"
#include "runtime/protocol/channel.h"

namespace batchflow::ctl {
namespace {

struct FeedCommandOptions {
  std::string folder;
  feeds::FeedSettings settings;
  std::string record_bytes;  // empty: the default
  std::string keep = "1gib";
  std::string late_after;
  std::string kafka;
  std::string kafka_settings;
  std::string producer;
  std::string sent_schema;
  std::string from;
  std::uint64_t size = 0;
  bool cannot_wait = false;
  bool end = false;
  bool once = false;
  double settle_s = 1;
};

Bytes bytes_of(std::string_view option, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes)
    throw ConfigError(fmt::format("{} {}: it is not a size; write 1gib or 500mb", option, text));
  return *bytes;
}

// The service reads the file, maybe as another user or at another node, so it need not be here. If
// it is, what is wrong with it is said at once.
void name_kafka_settings(FeedCommandOptions& options) {
  feeds::FeedSettings& settings = options.settings;
  const std::string path =
      std::filesystem::absolute(options.kafka_settings).lexically_normal().string();
  feeds::set_kafka_settings(settings, path);
  if (::access(path.c_str(), R_OK) != 0) {
    fmt::print(stderr, "batchflowctl: {}: {}; the service needs it\n", path, std::strerror(errno));
    return;
  }
  settings.sole_writer = ::geteuid();  // as it will be
  std::vector<feeds::KafkaSetting> all;
  const std::string problem = feeds::read_kafka_settings(options.folder, settings, all);
  if (!problem.empty()) throw ConfigError(problem);
}

int create(FeedCommandOptions& options) {
  if (!options.record_bytes.empty()) {
    options.settings.record_bytes = bytes_of("--record-bytes", options.record_bytes);
    if (options.settings.schema != "bytes")
      throw ConfigError(fmt::format(
          "--record-bytes {}: it is for records of bytes, and the size of those of '{}' follows "
          "from the schema; leave it out",
          options.record_bytes, options.settings.schema));
  }
  options.settings.keep_bytes = bytes_of("--keep", options.keep);
  if (!options.late_after.empty()) {
    const auto late = parse_duration(options.late_after);
    if (!late)
      throw ConfigError(
          fmt::format("--late-after {}: it is no time; write 5s or 10m", options.late_after));
    options.settings.late_after = *late;
  }
  try {
    if (!options.kafka.empty()) feeds::set_kafka(options.settings, options.kafka);
    if (!options.kafka_settings.empty()) name_kafka_settings(options);
    feeds::create_feed(options.folder, options.settings);
  } catch (const feeds::FeedError& error) {
    throw ConfigError(error.what());
  }
  fmt::print("{} is a feed of {} now; serve it with --dataset NAME={}\n", options.folder,
             options.settings.schema, options.folder);
  return 0;
}

void check(bf_status status) {
  if (status != BF_OK) throw std::runtime_error(client::last_error());
}

std::string schema_of(const FeedCommandOptions& options) {
  if (protocol::is_remote(options.folder) || !options.sent_schema.empty())
    return options.sent_schema.empty() ? "bytes" : options.sent_schema;
  try {
    return feeds::read_settings(options.folder).schema;
  } catch (const feeds::FeedError& error) {
    throw ConfigError(error.what());
  }
}

std::unique_ptr<client::FeedProducer> producer_of(const FeedCommandOptions& options) {
  bf_feed_options asked{};
  asked.folder = options.folder.c_str();
  asked.producer = options.producer.c_str();
  const std::string schema = schema_of(options);
  asked.schema = schema.c_str();
  asked.cannot_wait = options.cannot_wait ? 1 : 0;
  std::unique_ptr<client::FeedProducer> feed;
  check(client::FeedProducer::open(asked, feed));
  return feed;
}

// What comes on standard input: lines, or records of one size.
class InputRecords {
 public:
  // `size` 0: each line is one. `bytes_most`: of a record.
  InputRecords(std::uint64_t size, std::uint64_t bytes_most)
      : size_(size), bytes_most_(bytes_most) {
    if (size > bytes_most)
      throw ConfigError(
          fmt::format("--size {}: the feed takes records of at most {} bytes; cut smaller ones",
                      size, bytes_most));
  }

  // False: there are no more. Throws std::runtime_error for a last one that is cut short, and for a
  // line that is too long, however much of it is to come.
  bool next(std::string& record) {
    for (;;) {
      const std::size_t end = size_ > 0 ? at_ + size_ : text_.find('\n', at_);
      if (end != std::string::npos && end <= text_.size()) {
        record.assign(text_, at_, end - at_);
        at_ = size_ > 0 ? end : end + 1;
        if (record.empty()) continue;  // an empty line is no record
        return true;
      }
      text_.erase(0, at_);
      at_ = 0;
      if (size_ == 0 && text_.size() > bytes_most_)
        throw std::runtime_error(fmt::format(
            "a line of more than {} bytes, and the feed takes records of at most {}; if these are "
            "no lines, --size cuts records by their number of bytes",
            bytes_most_, bytes_most_));
      char part[65'536];
      const ssize_t got = ::read(STDIN_FILENO, part, sizeof part);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw std::runtime_error("standard input cannot be read");
      if (got == 0) break;
      text_.append(part, static_cast<std::size_t>(got));
    }
    if (text_.empty()) return false;
    if (size_ > 0)
      throw std::runtime_error(
          fmt::format("standard input ends after {} of {} bytes of a record, which was left out",
                      text_.size(), size_));
    record = std::move(text_);
    text_.clear();
    return true;
  }

 private:
  std::uint64_t size_;
  std::uint64_t bytes_most_;
  std::string text_;
  std::size_t at_ = 0;
};

// Why the feed has left records out.
std::string left_out_text(const protocol::FeedCounts& counts) {
  std::vector<std::string> all;
  const auto add = [&](std::uint64_t records, std::string_view why) {
    if (records > 0) all.push_back(fmt::format("{} {}", records, why));
  };
  add(counts.malformed,
      "malformed (of another size, without a class that the feed asks for, or after its end)");
  add(counts.late, "late (older than --late-after lets them be)");
  add(counts.thinned, "thinned (for want of room)");
  return fmt::format("{}", fmt::join(all, ", "));
}

std::uint64_t left_out(const protocol::FeedCounts& counts) {
  return counts.late + counts.thinned + counts.malformed;
}

// What became of records that are acknowledged, all of which may have been left out. Throws
// std::runtime_error where the feed took none of them.
std::string fate_text(const client::FeedProducer& feed, std::uint64_t records,
                      std::string_view what) {
  const auto counts = feed.counts();
  if (!counts)
    return fmt::format(
        "{} {} are acknowledged; the feed's service was started anew meanwhile, or is of an older "
        "version, so how many of them it left out is not known here: ask batchflowctl datasets",
        records, what);
  if (left_out(*counts) == 0) return fmt::format("{} {} are acknowledged", records, what);
  if (counts->taken == 0)
    throw std::runtime_error(
        fmt::format("the feed took none of {} {}: {}", records, what, left_out_text(*counts)));
  return fmt::format("{} {} are acknowledged: the feed took {} and left {} out: {}", records, what,
                     counts->taken, left_out(*counts), left_out_text(*counts));
}

int send(const FeedCommandOptions& options) {
  const std::unique_ptr<client::FeedProducer> feed = producer_of(options);
  bf_feed_info info{};
  feed->info(info);
  InputRecords input(options.size, info.record_bytes_most);
  std::string record;
  std::uint64_t records = 0;
  std::string problem;
  try {
    while (input.next(record)) {
      bf_record one{};
      one.bytes = record.data();
      one.count = record.size();
      one.key = records++;
      patiently([&] { return feed->put(one); });
    }
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  patiently([&] { return feed->flush(0); });
  if (!problem.empty()) throw std::runtime_error(problem);
  const std::string fate = fate_text(*feed, records, "records");
  if (options.end) patiently([&] { return feed->end(); });
  fmt::print("{}\n", fate);
  return 0;
}

int watch(const FeedCommandOptions& options) {
  const std::unique_ptr<client::FeedProducer> feed = producer_of(options);
  const std::string to = protocol::is_remote(options.folder)
                             ? options.folder
                             : std::filesystem::absolute(options.folder).string();
  FolderSender sender(
      *feed, options.producer + " " + to, options.from,
      std::chrono::milliseconds(static_cast<std::int64_t>(options.settle_s * 1000)));
  std::uint64_t said = 0;
  do {
    const std::uint64_t sent = sender.send_some();
    if (const auto counts = feed->counts(); counts && left_out(*counts) > said) {
      said = left_out(*counts);
      fmt::print(stderr, "batchflowctl: the feed left out {} files so far: {}\n", said,
                 left_out_text(*counts));
    }
    if (sent > 0) continue;
    if (options.once && sender.soon_whole() == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (true);
  const std::string fate = fate_text(*feed, sender.sent(), "files");
  if (options.end) patiently([&] { return feed->end(); });
  fmt::print("{}; {} could not be sent\n", fate, sender.left_out());
  if (sender.of_the_future() > 0)
    fmt::print(stderr,
               "batchflowctl: {} files stay where they are: their time is in the future, so they "
               "are not known to be whole\n",
               sender.of_the_future());
  return 0;
}

}  // namespace

void add_feed_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("feed", "Make a feed, and send records to it")
                          ->fallthrough()
                          ->require_subcommand(1);
  const auto options = std::make_shared<FeedCommandOptions>();
  CLI::App* made = command->add_subcommand("create", "Make a folder that takes records");
  made->add_option("FOLDER", options->folder, "A new folder, on a local drive")->required();
  made->add_option("--schema", options->settings.schema,
                   "What a record is: bytes, or numbers such as f32[16]; default: bytes");
  made->add_option("--record-bytes", options->record_bytes,
                   "The most that a record of bytes may have; default: 1mib");
  made->add_flag("--labelled", options->settings.labelled, "Records have classes");
  made->add_option("--keep", options->keep, "How much the log may keep; default: 1gib");
  made->add_option("--late-after", options->late_after,
                   "Leave out records that are so much older than the newest one, such as 10m");
  made->add_option("--kafka", options->kafka,
                   "HOST:PORT[,HOST:PORT...]/TOPIC: its records come into the feed, too");
  made->add_option("--kafka-settings", options->kafka_settings,
                   "A file with more settings of Kafka, such as passwords and TLS, in lines "
                   "name=value; the service reads it")
      ->check([](const std::string& path) {
        return std::string(path.empty() ? "write the path of a file" : "");
      });
  made->callback([&action, options] { action = [options] { return create(*options); }; });

  CLI::App* sent = command->add_subcommand("send", "Send what comes on standard input");
  CLI::App* watched =
      command->add_subcommand("watch", "Send the files of a folder, as they come, each once");
  for (CLI::App* one : {sent, watched}) {
    one->add_option("FOLDER", options->folder,
                    "The folder of the feed, or tcp://HOST:PORT/NAME of one on another machine")
        ->required();
    one->add_option("--schema", options->sent_schema,
                    "What a record is, as the feed has it; default: as its folder says, or bytes "
                    "on another machine");
    one->add_option("--producer", options->producer,
                    "A name that no other producer of the feed has; default: batchflowctl, or "
                    "batchflowctl-watch");
    one->add_flag("--cannot-wait", options->cannot_wait,
                  "Where the feed has no room, let it leave records out, and count them");
    one->add_flag("--end", options->end, "Say at the end that the feed ends, for all producers");
  }
  sent->add_option("--size", options->size,
                   "Records have so many bytes; default: each line is one, without its end");
  const auto name = [options](const char* producer) {
    if (options->producer.empty()) options->producer = producer;
  };
  sent->callback([&action, options, name] {
    name("batchflowctl");
    action = [options] { return send(*options); };
  });
  watched->add_option("--from", options->from, "The folder that grows")->required();
  watched
      ->add_option("--settle", options->settle_s,
                   "A file is whole when nothing has written to it for so many seconds; "
                   "default: 1")
      ->check(CLI::Range(0.0, 86'400.0));
  watched->add_flag("--once", options->once, "End when all files that are there are sent");
  // Each has a sequence of its own: what one has sent must not count as sent by the other.
  watched->callback([&action, options, name] {
    name("batchflowctl-watch");
    action = [options] { return watch(*options); };
  });
}

}  // namespace batchflow::ctl
