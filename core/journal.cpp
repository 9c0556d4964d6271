#include "core/journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/byte_codec.h"
#include "core/check.h"
#include "core/describe.h"

namespace batchflow {

namespace {

std::vector<std::byte> encoded(const JournalHeader& header) {
  std::vector<std::byte> out;
  ByteWriter writer(out);
  writer.u64(header.seed);
  writer.u64(header.configuration);
  writer.count(header.catalogues.size());
  for (const Digest version : header.catalogues) writer.u64(version);
  writer.count(header.version.size());
  for (const char c : header.version) writer.u8(static_cast<std::uint8_t>(c));
  return out;
}

std::optional<JournalHeader> decoded(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  JournalHeader header;
  header.seed = reader.u64();
  header.configuration = reader.u64();
  header.catalogues.resize(static_cast<std::size_t>(reader.count(reader.left() / 8)));
  for (Digest& version : header.catalogues) version = reader.u64();
  for (const std::uint8_t c : reader.bytes(reader.count())) {
    header.version += static_cast<char>(c);
  }
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return header;
}

std::vector<std::byte> encoded(std::uint64_t digest) {
  std::vector<std::byte> out;
  ByteWriter(out).u64(digest);
  return out;
}

constexpr std::size_t kDigestBytes = 4;

}  // namespace

// --------------------------------------------------------------------------------- writing ----

Journal::Journal(const JournalHeader& header, Bytes bytes_max)
    : frames_(LogKind::journal, JournalReader::kVersion, encoded(header), bytes_max, pending_) {}

void Journal::record(Instant now, std::span<const Event> events) {
  ++steps_;
  if (frames_.ended()) return;
  payload_.clear();
  for (std::size_t i = 0; i < kDigestBytes; ++i) {
    payload_.push_back(static_cast<std::byte>(digest_.value() >> (8 * i)));
  }
  encoder_.step(now, events, payload_);
  frames_.append(payload_, encoded(digest_.value()), pending_);
}

void Journal::ordered(std::span<const Command> commands) {
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

std::optional<JournalReader::Step> JournalReader::next() {
  std::span<const std::byte> payload;
  if (!frames_.next(payload)) return std::nullopt;
  std::uint32_t digest = 0;
  for (std::size_t i = 0; i < std::min(kDigestBytes, payload.size()); ++i) {
    digest |= static_cast<std::uint32_t>(payload[i]) << (8 * i);
  }
  const auto step =
      payload.size() < kDigestBytes ? std::nullopt : decoder_.step(payload.subspan(kDigestBytes));
  if (!step) frames_.refuse("a step that cannot be read", "read it with the program that wrote it");
  return Step{step->now, step->events, digest};
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

std::string list(std::span<const Command> commands) {
  std::string text;
  for (const Command& command : commands) text += fmt::format("\n  {}", describe(command));
  return text.empty() ? "\n  (none)" : text;
}

std::string first_difference(std::span<const Command> one, std::span<const Command> other) {
  for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
    const std::string a = i < one.size() ? describe(one[i]) : "(no more)";
    const std::string b = i < other.size() ? describe(other[i]) : "(no more)";
    if (i < one.size() && i < other.size() && digest(one[i]) == digest(other[i])) continue;
    return fmt::format("command {}:\n  {}\n  {}", i, a, b);
  }
  return "no difference";
}

}  // namespace

ReplayResult replay(JournalReader& journal, const StepFunction& step) {
  ReplayResult result;
  CommandDigest digest;
  Instant last_now{};
  std::vector<Command> commands;
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
    const auto ordered = step(next->now, next->events);
    commands.assign(ordered.begin(), ordered.end());
    digest.add(ordered);
    last_now = next->now;
    ++result.steps;
    result.digest = digest.value();
  }
  const auto final_digest = journal.final_digest();
  if (final_digest && *final_digest != digest.value()) {
    differs(result, result.steps > 0 ? result.steps - 1 : 0,
            fmt::format("step {} (the last): other commands than recorded; now:{}",
                        result.steps - 1, list(commands)));
  }
  return result;
}

ReplayResult compare_replays(JournalReader& journal, const StepFunction& one,
                             const StepFunction& other) {
  ReplayResult result;
  CommandDigest of_one, of_other;
  while (const auto next = journal.next()) {
    const auto a = one(next->now, next->events);
    const auto b = other(next->now, next->events);
    of_one.add(a);
    of_other.add(b);
    result.digest = of_one.value();
    if (of_one.value() != of_other.value()) {
      differs(result, result.steps,
              fmt::format("step {} at {} ns, {}", result.steps,
                          next->now.time_since_epoch().count(), first_difference(a, b)));
      return result;
    }
    ++result.steps;
  }
  return result;
}

}  // namespace batchflow
