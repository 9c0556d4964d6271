#include "sim/cache_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>

#include "core/base/config_value.h"
#include "programs/output/terminal.h"
#include "sim/numbers.h"

namespace batchflow::sim {
namespace {

std::vector<std::string_view> split_lists(const std::vector<std::string>& texts) {
  std::vector<std::string_view> parts;
  for (const std::string& whole : texts) {
    std::string_view text = whole;
    for (;;) {
      const std::size_t comma = text.find(',');
      const std::string_view part = text.substr(0, comma);
      if (part.empty()) {
        throw ConfigError(
            fmt::format("an empty name or size in '{}'; write them separated by one comma", whole));
      }
      parts.push_back(part);
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
  }
  return parts;
}

// `kind` stands before the equals sign in `text`.
std::optional<engine::PolicyKind> kind_before(std::string_view kind, std::string_view text) {
  if (kind == "preset") return std::nullopt;
  try {
    return engine::policy_kind(kind);
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("{} (a parameter follows its policy, as s3fifo:{})", error.what(), text));
  }
}

// The kind may be left out: only eviction policies are allowed here.
engine::PolicyChoice parse_policy(const engine::PolicyList& list, std::string_view text) {
  const std::optional<engine::KindAndText> named = engine::find_kind(text);
  if (!named) return list.choose(engine::PolicyKind::eviction, text);
  if (kind_before(named->kind, text) != engine::PolicyKind::eviction) {
    throw ConfigError(
        fmt::format("'{}': cache compares eviction policies only; write eviction=NAME", text));
  }
  return list.choose(engine::PolicyKind::eviction, named->text);
}

}  // namespace

std::vector<engine::PolicyChoice> parse_policies(const engine::PolicyList& list,
                                                 const std::vector<std::string>& texts) {
  std::vector<engine::PolicyChoice> choices;
  for (std::string_view text : split_lists(texts)) {
    engine::PolicyChoice choice = parse_policy(list, text);
    const bool named_before = std::any_of(
        choices.begin(), choices.end(),
        [&](const engine::PolicyChoice& other) { return other.text() == choice.text(); });
    if (!named_before) choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<AskedSize> parse_sizes(const std::vector<std::string>& texts) {
  std::vector<AskedSize> sizes;
  for (std::string_view text : split_lists(texts)) sizes.push_back(ask_for_size(text));
  return sizes;
}

std::vector<CacheSize> sizes_in_bytes(const std::vector<AskedSize>& asked, Bytes working_set) {
  std::vector<CacheSize> sizes;
  for (const AskedSize& size : asked) {
    const Bytes bytes = size_in_bytes(size, working_set);
    const bool named_before = std::any_of(
        sizes.begin(), sizes.end(), [&](const CacheSize& other) { return other.bytes == bytes; });
    if (!named_before) sizes.push_back({size.text, bytes});
  }
  return sizes;
}

std::vector<CacheSize> usual_sizes(Bytes working_set) {
  std::vector<AskedSize> asked = parse_sizes({kUsualSizes});
  std::erase_if(asked, [&](const AskedSize& size) { return size.size.bytes_of(working_set) == 0; });
  if (asked.empty()) asked = parse_sizes({"100%"});
  return sizes_in_bytes(asked, working_set);
}

void run_cache_study(CacheStudy& study, unsigned threads, Replayer replayer) {
  const std::size_t runs = study.policies.size() * study.sizes.size();
  study.results.assign(runs, {});
  const double all = static_cast<double>(runs) * static_cast<double>(study.trace.requests());
  output::ProgressBar bar(fmt::format("replaying {} runs", runs));
  std::atomic<std::uint64_t> done{0};
  const AccessReplayOptions options{study.seed, study.nodes, [&](std::uint64_t requests) {
                                      output::check_interrupted();
                                      bar.show(static_cast<double>(done += requests) / all);
                                    }};
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < runs && !failed; i = next++) {
        const std::size_t sizes = study.sizes.size();
        study.results[i] =
            replayer(study.trace, study.policies[i / sizes], study.sizes[i % sizes].bytes, options);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    const std::size_t others = std::min<std::size_t>(std::max(threads, 1u), runs) - 1;
    try {
      for (std::size_t i = 0; i < others; ++i) pool.emplace_back(work);
    } catch (const std::system_error&) {
      // The machine has no more threads; the threads that were started do the work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

int cache_exit_code(const CacheStudy& study) {
  const bool refused = std::any_of(study.results.begin(), study.results.end(),
                                   [](const ReplayCounts& counts) { return counts.refused != 0; });
  return refused ? 1 : 0;
}

}  // namespace batchflow::sim
