#include "core/log/journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/byte_codec.h"
#include "core/base/check.h"
#include "core/engine/engine.h"
#include "core/log/event_codec.h"

namespace batchflow::log {

namespace {

// The kind of a frame; its first byte.
enum class RecordKind : std::uint8_t { step, catalogue, pipeline, policies, answers };

void put(ByteWriter& writer, const std::string& text) {
  writer.count(text.size());
  for (const char c : text) writer.u8(static_cast<std::uint8_t>(c));
}

std::string text(ByteReader& reader) {
  const std::vector<std::uint8_t> bytes = reader.bytes(reader.count());
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encoded(const JournalHeader& header) {
  std::vector<std::byte> out;
  ByteWriter writer(out);
  writer.u64(header.seed);
  put(writer, header.configuration);
  put(writer, header.version);
  return out;
}

std::optional<JournalHeader> decoded(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  JournalHeader header;
  header.seed = reader.u64();
  header.configuration = text(reader);
  header.version = text(reader);
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return header;
}

// Leaves out names, dimensions and labels, which decide nothing.
void put(DatasetId id, const engine::Catalogue& catalogue, std::vector<std::byte>& out) {
  engine::Catalogue::Parts parts;
  parts.version = catalogue.version();
  parts.samples = catalogue.samples();
  if (catalogue.is_uniform()) {
    parts.uniform_bytes = catalogue.mean_bytes();
  } else {
    for (SampleId sample(0); sample.value < catalogue.samples(); ++sample.value)
      parts.bytes.push_back(catalogue.bytes(sample));
  }
  parts.bundle_shift = catalogue.bundle_shift();
  parts.bundle_bytes = catalogue.listed_bundles();
  ByteWriter(out).count(id.value);
  std::string problem;
  engine::encode(*engine::Catalogue::from(std::move(parts), problem), out);
}

bool add_catalogue(std::span<const std::byte> bytes, engine::Catalogues& catalogues) {
  ByteReader reader(bytes);
  const DatasetId id(reader.count32());
  std::string problem;
  auto catalogue = engine::decode_catalogue(bytes.last(reader.left()), problem);
  if (!reader.ok() || !catalogue) return false;
  catalogues.add(id, std::move(*catalogue));
  return true;
}

void put(PipelineId id, const engine::PipelineInfo& pipeline, std::vector<std::byte>& out) {
  ByteWriter writer(out);
  writer.count(id.value);
  writer.u64(pipeline.hash);
  writer.u64(pipeline.prefix_hash);
  writer.u8(pipeline.has_random ? 1 : 0);
  writer.count(pipeline.decoded_bytes);
  writer.count(pipeline.prepared_bytes);
  writer.count(static_cast<std::uint64_t>(pipeline.decode_cost.count()));
  writer.count(static_cast<std::uint64_t>(pipeline.augment_cost.count()));
}

bool add_pipeline(std::span<const std::byte> bytes, engine::Catalogues& catalogues) {
  ByteReader reader(bytes);
  const auto duration = [&reader] {
    const auto most = static_cast<std::uint64_t>(Duration::max().count());
    return Duration(static_cast<std::int64_t>(reader.count(most)));
  };
  const PipelineId id(reader.count32());
  engine::PipelineInfo pipeline;
  pipeline.hash = reader.u64();
  pipeline.prefix_hash = reader.u64();
  pipeline.has_random = reader.u8() != 0;
  pipeline.decoded_bytes = reader.count();
  pipeline.prepared_bytes = reader.count();
  pipeline.decode_cost = duration();
  pipeline.augment_cost = duration();
  if (!reader.ok() || !reader.at_end()) return false;
  catalogues.add(id, pipeline);
  return true;
}

std::vector<std::byte> encoded(std::uint64_t digest) {
  std::vector<std::byte> out;
  ByteWriter(out).u64(digest);
  return out;
}

constexpr std::size_t kDigestBytes = 4;

}  // namespace

// --------------------------------------------------------------------------------- writing ----

Journal::Journal(const JournalHeader& header, const engine::Catalogues& catalogues, Bytes bytes_max)
    : catalogues_(catalogues),
      frames_(LogKind::journal, JournalReader::kVersion, encoded(header), bytes_max, pending_) {}

void Journal::record_events(Instant now, std::span<const engine::Event> events) {
  ++steps_;
  if (frames_.ended()) return;
  record_catalogues(events);
  payload_ = {static_cast<std::byte>(RecordKind::step)};
  for (std::size_t i = 0; i < kDigestBytes; ++i) {
    payload_.push_back(static_cast<std::byte>(digest_.value() >> (8 * i)));
  }
  encoder_.step(now, events, payload_);
  append();
}

void Journal::record_catalogues(std::span<const engine::Event> events) {
  const auto record_once = [this](RecordKind kind, auto id, const auto* what) {
    // The engine refuses what is not in Catalogues, in a replay as in the run.
    if (!what || !recorded_.insert({what, id.value}).second) return;
    payload_ = {static_cast<std::byte>(kind)};
    put(id, *what, payload_);
    append();
  };
  for (const engine::Event& event : events) {
    if (const auto* known = std::get_if<engine::CatalogueKnown>(&event))
      record_once(RecordKind::catalogue, known->dataset,
                  catalogues_.find(known->dataset, known->version));
    if (const auto* known = std::get_if<engine::PipelineKnown>(&event))
      record_once(RecordKind::pipeline, known->pipeline,
                  catalogues_.find(known->pipeline, known->hash));
  }
}

void Journal::record_policies(std::span<const std::byte> description) {
  record_bytes(static_cast<std::uint8_t>(RecordKind::policies), description);
}

void Journal::record_answers(std::span<const std::byte> answers) {
  record_bytes(static_cast<std::uint8_t>(RecordKind::answers), answers);
}

void Journal::record_bytes(std::uint8_t kind, std::span<const std::byte> bytes) {
  if (frames_.ended() || bytes.empty()) return;
  payload_ = {static_cast<std::byte>(kind)};
  payload_.insert(payload_.end(), bytes.begin(), bytes.end());
  append();
}

void Journal::append() {
  frames_.append(payload_, encoded(digest_.value()), pending_);
}

void Journal::record_commands(std::span<const engine::Command> commands) {
  digest_.add(commands);
}

void Journal::close() {
  frames_.close(encoded(digest_.value()), pending_);
}

// --------------------------------------------------------------------------------- reading ----

JournalReader::JournalReader(std::span<const std::byte> log, std::string_view name)
    : frames_(log, name, LogKind::journal, kVersion) {
  if (!frames_.has_header()) return;
  auto header = decoded(frames_.header());
  if (!header) frames_.refuse("its header cannot be read", "restore it from a copy");
  header_ = std::move(*header);
}

std::optional<JournalReader::EngineStep> JournalReader::next() {
  constexpr std::string_view kRemedy = "read it with the program that wrote it";
  std::span<const std::byte> payload;
  const auto next_frame = [&] {
    if (!read_ahead_) return frames_.next(payload);
    payload = *std::exchange(read_ahead_, std::nullopt);
    return true;
  };
  const auto is = [](std::span<const std::byte> frame, RecordKind kind) {
    return !frame.empty() && static_cast<RecordKind>(frame.front()) == kind;
  };
  while (next_frame()) {
    if (is(payload, RecordKind::policies)) {
      described_.push_back(payload.subspan(1));
      continue;
    }
    const auto record = payload.empty() ? UINT8_MAX : static_cast<std::uint8_t>(payload.front());
    payload = payload.subspan(std::min<std::size_t>(1, payload.size()));
    if (record == static_cast<std::uint8_t>(RecordKind::catalogue)) {
      if (!add_catalogue(payload, catalogues_)) frames_.refuse("a catalogue is no such", kRemedy);
    } else if (record == static_cast<std::uint8_t>(RecordKind::pipeline)) {
      if (!add_pipeline(payload, catalogues_)) frames_.refuse("a pipeline is no such", kRemedy);
    } else {
      std::uint32_t digest = 0;
      for (std::size_t i = 0; i < std::min(kDigestBytes, payload.size()); ++i) {
        digest |= static_cast<std::uint32_t>(payload[i]) << (8 * i);
      }
      const bool is_step =
          record == static_cast<std::uint8_t>(RecordKind::step) && payload.size() >= kDigestBytes;
      const auto step = is_step ? decoder_.step(payload.subspan(kDigestBytes)) : std::nullopt;
      if (!step) frames_.refuse("a step that cannot be read", kRemedy);
      EngineStep read{step->now, step->events, digest, {}};
      if (frames_.next(payload)) {
        if (is(payload, RecordKind::answers)) {
          read.answers = payload.subspan(1);
        } else {
          read_ahead_ = payload;
        }
      }
      return read;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> JournalReader::final_digest() const {
  ByteReader reader(frames_.end_payload());
  const std::uint64_t digest = reader.u64();
  return reader.ok() ? std::optional(digest) : std::nullopt;
}

// --------------------------------------------------------------------------------- replays ----

namespace {

void differs(ReplayResult& result, std::uint64_t step, std::string report) {
  result.first_difference = step;
  result.report = std::move(report);
}

std::string list(std::span<const engine::Command> commands) {
  std::string text;
  for (const engine::Command& command : commands) text += fmt::format("\n  {}", describe(command));
  return text.empty() ? "\n  (none)" : text;
}

}  // namespace

ReplayResult replay(JournalReader& journal, const StepFunction& step) {
  ReplayResult result;
  CommandDigest digest;
  std::uint64_t digest_before = 0;  // the last step
  Instant last_now{};
  std::vector<engine::Command> commands;
  while (const auto next = journal.next()) {
    if (result.steps == 0 && next->digest_before != 0) {
      differs(result, 0, "step 0: the journal says that commands came before it");
      return result;
    }
    if (static_cast<std::uint32_t>(digest.value()) != next->digest_before) {
      // The commands belong to the engine until its next step, which has not been called yet.
      differs(result, result.steps - 1,
              fmt::format("step {} at {} ns: other commands than recorded; now:{}",
                          result.steps - 1, last_now.time_since_epoch().count(), list(commands)));
      return result;
    }
    digest_before = digest.value();
    const auto now_sent = step(*next);
    commands.assign(now_sent.begin(), now_sent.end());
    digest.add(now_sent);
    last_now = next->now;
    ++result.steps;
    result.events += next->events.size();
    result.digest = digest.value();
  }
  const auto final_digest = journal.final_digest();
  // Of the last step, the answers of policies in other processes may not have fitted.
  const bool cut = journal.end() == LogEnd::at_bound && !journal.described().empty() &&
                   final_digest == digest_before;
  if (final_digest && *final_digest != digest.value() && !cut) {
    differs(result, result.steps > 0 ? result.steps - 1 : 0,
            fmt::format("step {} (the last): other commands than recorded; now:{}",
                        result.steps - 1, list(commands)));
  }
  return result;
}

}  // namespace batchflow::log
