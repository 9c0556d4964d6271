#include "programs/config/engine_config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "programs/config/engine_settings.h"

namespace batchflow::config {

namespace {

std::string value_of(const std::string& text) {
  return text;
}
std::string value_of(bool flag) {
  return flag ? "true" : "false";
}
std::string value_of(Ratio ratio) {
  return fmt::format("{}.{:012}", ratio.parts / Ratio::kWhole, ratio.parts % Ratio::kWhole);
}
std::string value_of(Duration duration) {
  return fmt::format("{}ns", duration.count());
}
template <class Number>
std::string value_of(Number number) {
  return fmt::format("{}", number);
}

}  // namespace

std::string text_of(const engine::EngineConfig& config) {
  // A setting that is added to EngineConfig and not here does not compile: each needs a name.
  const auto& [preset, policies, seed, credits, ready_window, generation_epochs, block_bytes,
               blocks_least, item_slot_bytes, corrupt_ratio_max, rank_timeout, read_attempts,
               delivery_attempts, retry_wait, share_streams, share_nodes, helper_nodes,
               workers_per_rank, workers_held_during_reads, hold_ingredients, count_staging,
               staging_bytes, staging_sector_bytes, blocks_in_flight_per_worker, look_ahead_most,
               late_after_p99, journal_bytes_max, promise_log_bytes_max] = config;
  const auto& [allocation, eviction, selection, dispatch, scaling] = policies;
  std::string text;
  const auto put = [&text](std::string_view key, const auto& value) {
    text += fmt::format("{}={}\n", key, value_of(value));
  };
  put("preset", preset);
  put("policies.allocation", allocation);
  put("policies.eviction.encoded", eviction[0]);
  put("policies.eviction.decoded", eviction[1]);
  put("policies.eviction.prepared", eviction[2]);
  put("policies.selection", selection);
  put("policies.dispatch", dispatch);
  put("policies.scaling", scaling);
  put("seed", seed);
  put("credits", credits);
  put("ready_window", ready_window);
  put("generation_epochs", generation_epochs);
  put("block_bytes", block_bytes);
  put("blocks_least", blocks_least);
  put("item_slot_bytes", item_slot_bytes);
  put("corrupt_ratio_max", corrupt_ratio_max);
  put("rank_timeout", rank_timeout);
  put("read_attempts", read_attempts);
  put("delivery_attempts", delivery_attempts);
  put("retry_wait", retry_wait);
  put("share_streams", share_streams);
  put("share_nodes", share_nodes);
  put("helper_nodes", helper_nodes);
  put("workers_per_rank", workers_per_rank);
  put("workers_held_during_reads", workers_held_during_reads);
  put("hold_ingredients", hold_ingredients);
  put("count_staging", count_staging);
  put("staging_bytes", staging_bytes);
  put("staging_sector_bytes", staging_sector_bytes);
  put("blocks_in_flight_per_worker", blocks_in_flight_per_worker);
  put("look_ahead_most", look_ahead_most);
  put("late_after_p99", late_after_p99);
  put("journal_bytes_max", journal_bytes_max);
  put("promise_log_bytes_max", promise_log_bytes_max);
  return text;
}

engine::EngineConfig engine_config_of(std::string_view text, std::string_view name) {
  const auto file = std::make_shared<const std::string>(name);
  ConfigNode root;
  root.place = {file, 1};
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t equals = std::min(one.find('='), one.size());
    ConfigNode value;
    value.place = {file, line};
    value.kind = ConfigNode::Kind::scalar;
    value.scalar = one.substr(std::min(one.size(), equals + 1));
    root.set(one.substr(0, equals), std::move(value));
  }
  engine::EngineConfig config;
  read_config(root, [&](ConfigSection& section) { config = read_engine_config(section); });
  return config;
}

}  // namespace batchflow::config
