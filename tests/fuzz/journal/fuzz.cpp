// Journals in replay: a damaged journal is refused with a message, and with any events of a whole
// journal the engine goes on.
//
// An input is a journal, or the contents of its frames, since checksums would find damage to a
// journal: four bytes of length and as many bytes for each, the header first. They are put into
// frames here.
#include <cstring>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "core/engine/engine.h"
#include "core/log/journal.h"
#include "policies/registry.h"
#include "programs/config/engine_settings.h"
#include "programs/config/replay_journal.h"

namespace batchflow::test {

namespace {

constexpr std::uint64_t kStepsMost = 2000;

std::vector<std::byte> framed(std::span<const std::byte> input) {
  const auto next = [&input] {
    std::uint32_t length = 0;
    std::memcpy(&length, input.data(), std::min(input.size(), sizeof length));
    input = input.subspan(std::min(input.size(), sizeof length));
    const auto payload = input.first(std::min<std::size_t>(input.size(), length));
    input = input.subspan(payload.size());
    return payload;
  };
  std::vector<std::byte> log;
  log::FrameWriter frames(log::LogKind::journal, log::JournalReader::kVersion, next(),
                          log::FrameWriter::kNoBound, log);
  while (!input.empty()) frames.append(next(), {}, log);
  frames.close({}, log);
  return log;
}

// It goes on beyond the first difference: an attacker who makes a journal can make its digests,
// too.
void replay_all(std::span<const std::byte> log) {
  log::JournalReader journal(log, "journal");
  if (!journal.has_header()) return;
  engine::Engine engine(
      config::engine_config_of(journal.header().configuration, "its configuration"),
      policies::policy_list(), journal.catalogues());
  for (std::uint64_t steps = 0; steps < kStepsMost; ++steps) {
    const auto step = journal.next();
    if (!step) break;
    engine.step(step->now, step->events);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const bool is_log = size >= 5 && std::memcmp(data, "BFLOG", 5) == 0;
  const std::vector<std::byte> log =
      is_log ? std::vector(bytes.begin(), bytes.end()) : framed(bytes);
  try {
    log::JournalReader journal(log, "journal");
    if (journal.has_header()) config::replay_journal(journal, policies::policy_list());
    replay_all(log);
  } catch (const ConfigError&) {
  }
  return 0;
}

}  // namespace batchflow::test
