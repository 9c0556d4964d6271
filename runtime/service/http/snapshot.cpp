#include "runtime/service/http/snapshot.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "core/base/names.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/config/engine_settings.h"
#include "runtime/service/control/node_config.h"
#include "runtime/service/http/figures.h"

namespace batchflow::service {
namespace {

using Json = nlohmann::json;

Json json_of(const StageTimes& times) {
  Json all;
  for (std::size_t i = 0; i < kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    all[std::string(stage_name(stage))] = seconds(times[stage]);
  }
  return all;
}

Json json_of(const CacheShare& one) {
  return {{"share", one.share.value}, {"form", name_of(one.form)}, {"tier", name_of(one.tier)},
          {"dataset", one.dataset},   {"pipeline", one.pipeline},  {"items", one.items},
          {"room", one.room},         {"bytes", one.bytes}};
}

Json json_of(const std::vector<LinkTraffic>& links) {
  Json all = Json::array();
  for (const LinkTraffic& one : links)
    all.push_back({{"node", one.node}, {"bytes", one.bytes}, {"busy_ns", one.busy_ns}});
  return all;
}

Json json_of(const NodeStatus& one) {
  Json all{{"node", one.node},       {"name", one.name},   {"address", one.address},
           {"version", one.version}, {"cores", one.cores}, {"memory", one.memory},
           {"ranks", one.ranks},     {"ready", one.ready}, {"drive", one.drive}};
  NodeCounters::each(one.counters,
                     [&](const char* name, std::uint64_t value) { all[name] = value; });
  all["links"] = json_of(one.counters.links);
  return all;
}

}  // namespace

std::string to_json(const AgentSnapshot& now) {
  return Json{
      {"version", now.version},          {"pid", now.process}, {"up_s", now.up_s},
      {"coordinator", now.coordinator},  {"page", now.page},   {"connections", now.connections},
      {"nodes", Json{json_of(now.node)}}}
      .dump();
}

namespace {

Json json_of(const StepReport& one) {
  return {{"pipeline", one.pipeline},
          {"dataset", one.dataset},
          {"step", one.step},
          {"version", one.version},
          {"file", one.file},
          {"random", one.random},
          {"broken", one.broken},
          {"folder_problem", one.folder_problem},
          {"samples", one.counters.samples},
          {"corrupt", one.counters.corrupt},
          {"starts", one.counters.starts},
          {"crashes", one.counters.crashes},
          {"late", one.counters.late},
          {"busy_s", seconds(one.counters.busy)}};
}

Json json_of(const failpoint::FailpointCount& one) {
  return {{"name", one.name}, {"reached", one.reached}, {"acted", one.acted}};
}

Json json_of(const engine::PolicyTexts& policies) {
  Json all;
  engine::visit_policies(policies, [&](std::string_view name, const std::string& text) {
    all[std::string(name)] = text;
  });
  return all;
}

Json settings_of(std::string_view text) {
  Json all;
  config::visit_settings(text, [&](std::string_view key, std::string_view value) {
    if (!key.starts_with("policies.")) all[std::string(key)] = value;
  });
  return all;
}

Json json_of(const JournalState& journal) {
  return {{"is_kept", journal.is_kept}, {"has_ended", journal.has_ended},
          {"path", journal.path},       {"bytes", journal.bytes},
          {"steps", journal.steps},     {"events", journal.events}};
}

// What a simulation of the job needs to know beside the rest.
Json model_of(const Snapshot& now, const Jobs::Status& job) {
  Json all = {{"order", name_of(job.order)},
              {"shuffle_seed", nullptr},
              {"drop_last", job.drop_last},
              {"keyed", job.order_options.keyed},
              {"node_local", job.order_options.node_local},
              {"runs", job.order_options.runs},
              {"rehearsed", job.order_options.rehearsed},
              {"exemplars", job.exemplars},
              {"credits", job.credits},
              {"weight", job.weight},
              {"latency_target_s", job.latency_target_s},
              {"steps_to_go", job.steps_to_go},
              {"consumed_batches", job.consumed},
              {"compute_squares_s2", job.compute_squares_s2}};
  if (job.shuffle_seed) all["shuffle_seed"] = *job.shuffle_seed;
  const auto found = now.job_pipelines.find(job.pipeline_id.value);
  if (found == now.job_pipelines.end()) return all;
  all["decoded_bytes"] = found->second.decoded_bytes;
  all["prepared_bytes"] = found->second.prepared_bytes;
  all["decode_s"] = seconds(found->second.decode_cost);
  all["augment_s"] = seconds(found->second.augment_cost);
  return all;
}

// The path of a folder that a job has brought is only for its user.
void hide(std::string& dataset, const Snapshot& all) {
  if (!is_brought_name(dataset)) return;
  const auto known = all.brought.find(dataset);
  dataset = known == all.brought.end() ? "a folder" : fmt::format("folder {}", known->second);
}

void hide_folders(Snapshot& all) {
  all.state.clear();
  for (CacheShare& one : all.cache) hide(one.dataset, all);
  for (StepReport& one : all.step_reports) {
    if (is_brought_name(one.dataset)) one.file.clear();
    hide(one.dataset, all);
  }
  for (std::string& name : all.opening) hide(name, all);
}

}  // namespace

Snapshot as_seen_by(uid_t user, Snapshot all) {
  if (user == 0 || user == geteuid()) return all;
  all.page_key.clear();
  for (const Jobs::Status& job : all.jobs) {
    if (job.user == user) continue;
    ++all.others.jobs;
    all.others.samples += job.samples;
    all.others.waited += job.waited;
    all.others.computed += job.computed;
  }
  std::erase_if(all.jobs, [&](const Jobs::Status& job) { return job.user != user; });
  all.returning.clear();
  std::erase_if(all.datasets, [](const auto& one) { return one.brought; });
  hide_folders(all);
  std::erase_if(all.opening, is_brought_name);
  return all;
}

Snapshot as_seen_by_any_program(Snapshot all) {
  all.page_key.clear();
  for (Jobs::Status& job : all.jobs) {
    if (job.user != geteuid()) job.name = fmt::format("job {}", job.id.value);
    job.from.clear();
    hide(job.dataset, all);
  }
  for (Snapshot::Dataset& one : all.datasets) {
    hide(one.name, all);
    if (one.brought) one.path.clear();
  }
  hide_folders(all);
  all.returning.clear();
  return all;
}

std::string to_json(const Snapshot& now, bool with_models) {
  Json all = {{"type", "answer"},
              {"version", now.version},
              {"page", now.page},
              {"storage", now.storage},
              {"stall_s", json_of(now.stalls)},
              {"cache", Json::array()},
              {"plugins", Json::array()},
              {"preset", now.preset},
              {"policies", json_of(now.policies)},
              {"settings", settings_of(now.settings)},
              {"seed", now.seed},
              {"digest", fmt::format("{:016x}", now.digest)},
              {"journal", json_of(now.journal)},
              {"opening", now.opening},
              {"returning", now.returning},
              {"draining", now.draining},
              {"state", now.state},
              {"others",
               {{"jobs", now.others.jobs},
                {"samples", now.others.samples},
                {"wait_s", seconds(now.others.waited)},
                {"compute_s", seconds(now.others.computed)}}},
              {"failpoints", Json::array()},
              {"links", json_of(now.links)},
              {"nodes", Json::array()},
              {"jobs", Json::array()},
              {"datasets", Json::array()}};
  all["page_with_all_names"] = now.page_key.empty() ? "" : now.page + "?key=" + now.page_key;
  visit_figures(now, [&](const char* name, auto value, Metric) { all[name] = value; });
  for (const NodeStatus& one : now.nodes) all["nodes"].push_back(json_of(one));
  for (const CacheShare& one : now.cache) all["cache"].push_back(json_of(one));
  for (const StepReport& one : now.step_reports) all["plugins"].push_back(json_of(one));
  for (const failpoint::FailpointCount& one : now.failpoints)
    all["failpoints"].push_back(json_of(one));
  for (const Jobs::Status& job : now.jobs) {
    Json one = {{"id", job.id.value},
                {"name", job.name},
                {"user", job.user},
                {"dataset", job.dataset},
                {"pipeline", job.pipeline},
                {"running", job.running},
                {"left", job.left},
                {"from", job.from},
                {"stall_s", json_of(job.stalls)},
                {"waits_for", stage_name(job.waits_for)}};
    visit_figures(job, [&](const char* name, auto value, Metric) { one[name] = value; });
    if (with_models) one["model"] = model_of(now, job);
    all["jobs"].push_back(std::move(one));
  }
  for (const Snapshot::Dataset& one : now.datasets) {
    all["datasets"].push_back({{"name", one.name},
                               {"path", one.path},
                               {"samples", one.samples},
                               {"bytes", one.bytes},
                               {"version", fmt::format("{:016x}", one.version)},
                               {"classes", one.classes},
                               {"format", one.format},
                               {"tokens", one.tokens},
                               {"packing", one.sequences.packing},
                               {"column", one.column},
                               {"label", one.label},
                               {"pinned", one.pinned},
                               {"bundle_samples", one.bundle_samples},
                               {"pipelines", Json::array()}});
    if (one.feed)
      all["datasets"].back()["feed"] = {{"first", one.feed->state.first},
                                        {"end", one.feed->state.end},
                                        {"kept_bytes", one.feed->state.kept},
                                        {"exemplars", one.feed->exemplars.exemplars},
                                        {"exemplar_bytes", one.feed->exemplars.bytes},
                                        {"ended", one.feed->state.ended},
                                        {"producers", one.feed->producers},
                                        {"known_producers", one.feed->known},
                                        {"waits", one.feed->waits},
                                        {"taken", one.feed->counts.taken},
                                        {"doubled", one.feed->counts.doubled},
                                        {"late", one.feed->counts.late},
                                        {"thinned", one.feed->counts.thinned},
                                        {"malformed", one.feed->counts.malformed},
                                        {"problem", one.feed->problem}};
    for (const Snapshot::Pipeline& pipeline : one.pipelines)
      all["datasets"].back()["pipelines"].push_back({{"name", pipeline.name},
                                                     {"decoded_bytes", pipeline.decoded_bytes},
                                                     {"prepared_bytes", pipeline.prepared_bytes}});
  }
  // Names come from users and paths from disks: what is not UTF-8 is replaced.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace batchflow::service
