#include "runtime/service/datasets/feeds.h"

#include <algorithm>
#include <utility>

#include "core/engine/growing_sources.h"
#include "core/order/rehearsal.h"
#include "fmt/format.h"
#include "runtime/feeds/feed_index.h"

namespace batchflow::service {
namespace {

constexpr Bytes kRecordLeast = 46;  // what one of a byte takes of the log: frame, head and byte

}  // namespace

void Feeds::added(const ServedDataset& dataset, const Post& post, const Say& say) {
  const auto* const index = dynamic_cast<const feeds::FeedIndex*>(dataset.index.get());
  if (!index || servers_.contains(dataset.id.value)) return;
  Served served;
  served.log = index->log();
  // The threads of a server end before this does, but what they have posted may come later.
  const DatasetId id = dataset.id;
  served.server = std::make_unique<feeds::FeedServer>(
      served.log, [this, id, post](const feeds::FeedState&) { post([this, id] { report(id); }); });
  {
    const std::lock_guard lock(folders_mutex_);
    folders_[dataset.name] = served.log->folder();
  }
  Served& kept = servers_[id.value] = std::move(served);
  if (!kept.log->settings().kafka_topic.empty())
    kept.kafka = std::make_unique<feeds::KafkaSource>(
        kept.log->folder(), kept.log->settings(),
        [this, id, post, say](const std::string& problem) {
          post([this, id, problem, say] { kafka_changed(id, problem, say); });
        });
  report(id);
}

void Feeds::kafka_changed(DatasetId dataset, const std::string& problem, const Say& say) {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return;
  Served& served = found->second;
  if (problem.empty() && served.kafka_problem.empty()) return;
  served.kafka_problem = problem;
  const std::string& topic = served.log->settings().kafka_topic;
  say({fmt::format("feed {}: topic '{}': {}", served.log->folder(), topic,
                   problem.empty() ? "its records come again" : problem),
       problem.empty() ? LogLevel::info : LogLevel::warning});
}

void Feeds::report(DatasetId dataset) {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return;
  const feeds::FeedState state = found->second.server->state();
  found->second.reported = state.end;
  inbox_.add(engine::SourceGrew{dataset, state.first, state.end, state.kept,
                                found->second.log->settings().keep_bytes, state.ended});
}

void Feeds::paced(const engine::SourcePaced& command) {
  const auto found = servers_.find(command.dataset.value);
  if (found == servers_.end()) return;
  feeds::FeedServer& server = *found->second.server;
  const std::uint64_t before = server.state().first;
  server.pace(command.needed_from, command.waits, command.taken_part, command.reservoirs);
  if (server.state().first != before) report(command.dataset);
}

std::uint64_t Feeds::next_record(DatasetId dataset) {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return 0;
  const std::uint64_t next = found->second.server->state().end;
  if (next > found->second.reported) report(dataset);
  return next;
}

std::string Feeds::begin_problem(DatasetId dataset, std::uint64_t record, bool goes_on) {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return "";
  const feeds::FeedState state = found->second.server->state();
  if (state.end > found->second.reported) report(dataset);
  if (record >= state.first && record <= state.end) return "";
  const bool is_gone = record < state.first;
  const std::string what =
      fmt::format("it {} with record {}, {} {}", goes_on ? "goes on" : "begins", record,
                  is_gone ? "which is gone: the first record kept is" : "and the next to come is",
                  is_gone ? state.first : state.end);
  if (goes_on) return what + "; begin anew, without a state";
  return what + (is_gone ? "; ask for that or a later one, or for the oldest (in Python "
                           "begin=\"oldest\" of Live, position=\"oldest\" of subscribe)"
                         : "; ask for that or an earlier one");
}

std::string Feeds::exemplars_problem(DatasetId dataset,
                                     const order::ReservoirName& reservoir) const {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return "";
  const feeds::FeedLog& log = *found->second.log;
  const std::uint64_t most =
      engine::exemplars_most(log.settings().keep_bytes, log.settings().record_bytes);
  if (reservoir.most > most)
    return fmt::format(
        "{} exemplars are more than the feed has room for, which is {}: as many as a quarter of "
        "its log, and no more than {}; ask for fewer, or make the feed with a larger --keep",
        reservoir.most, most, order::kExemplarsMost);
  if (log.can_rehearse(reservoir)) return "";
  return fmt::format(
      "the feed does not keep {} exemplars of the records from {} on for it, and these are gone: "
      "the first record kept is {}; ask for as many exemplars as before, or begin anew, without a "
      "state",
      reservoir.most, reservoir.first, found->second.server->state().first);
}

std::uint64_t Feeds::window_most(DatasetId dataset) const {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return 1;
  const feeds::FeedSettings& settings = found->second.log->settings();
  return engine::window_most(settings.keep_bytes, settings.record_bytes);
}

std::string Feeds::step_problem(DatasetId dataset, std::uint64_t records) const {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return "";
  const feeds::FeedSettings& settings = found->second.log->settings();
  const bool has_any_size = settings.schema == "bytes";
  const std::uint64_t most =
      has_any_size ? settings.keep_bytes / kRecordLeast
                   : engine::records_in(settings.keep_bytes / 2, settings.record_bytes);
  if (records <= most) return "";
  return fmt::format(
      "a step of all ranks has {} records, and {}the feed's log, which keeps {} bytes, has room "
      "for {}{}; so it would never come, and a job has a whole step before others are filled: let "
      "batches be smaller, or short (in Python fill=\"short\"), or make the feed with a larger "
      "--keep",
      records, has_any_size ? "" : "half of ", settings.keep_bytes, most,
      has_any_size ? " of one byte" : "");
}

std::string Feeds::folder_of(const std::string& name) const {
  const std::lock_guard lock(folders_mutex_);
  const auto found = folders_.find(name);
  return found == folders_.end() ? "" : found->second;
}

bool Feeds::has(DatasetId dataset, std::uint64_t record) {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return true;
  const feeds::FeedState state = found->second.server->state();
  if (record < state.first || record >= state.end) return false;
  if (record >= found->second.reported) report(dataset);
  return true;
}

bool Feeds::has_producers() const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [](const auto& one) { return one.second.server->status().producers > 0; });
}

std::optional<feeds::FeedStatus> Feeds::status(DatasetId dataset) const {
  const auto found = servers_.find(dataset.value);
  if (found == servers_.end()) return std::nullopt;
  feeds::FeedStatus status = found->second.server->status();
  if (status.problem.empty()) status.problem = found->second.kafka_problem;
  return status;
}

}  // namespace batchflow::service
