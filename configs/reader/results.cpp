#include "configs/reader/results.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/config_error.h"

namespace batchflow {

namespace {

using Json = nlohmann::ordered_json;

// The fields, in the order in which they are written. `visit(name, field)`.
template <class Job, class Visit>
void visit_job(Job& job, Visit visit) {
  visit("name", job.name);
  visit("user", job.user);
  visit("dataset", job.dataset);
  visit("state", job.state);
  visit("refusal", job.refusal);
  visit("ranks", job.ranks);
  visit("epochs", job.epochs);
  visit("batches", job.batches);
  visit("samples", job.samples);
  visit("fillers", job.fillers);
  visit("arrived_s", job.arrived_s);
  visit("started_s", job.started_s);
  visit("ended_s", job.ended_s);
  visit("time_s", job.time_s);
  visit("compute_s", job.compute_s);
  visit("stall_s", job.stall_s);
  visit("idle_s", job.idle_s);
  visit("first_batch_s", job.first_batch_s);
  visit("first_step_s", job.first_step_s);
  visit("samples_per_s", job.samples_per_s);
  visit("au", job.au);
}

template <class Sum, class Visit>
void visit_aggregate(Sum& sum, Visit visit) {
  visit("samples_per_s", sum.samples_per_s);
  visit("stall_fraction", sum.stall_fraction);
  visit("au", sum.au);
  visit("hit_ratio", sum.hit_ratio);
  visit("storage_bytes", sum.storage_bytes);
  visit("preparations", sum.preparations);
  visit("repeats", sum.repeats);
  visit("network_bytes", sum.network_bytes);
  visit("samples", sum.samples);
  visit("samples_requested", sum.samples_requested);
  visit("samples_read", sum.samples_read);
  visit("storage_reads", sum.storage_reads);
  visit("nvme_bytes", sum.nvme_bytes);
  visit("pcie_bytes", sum.pcie_bytes);
  visit("prepared_blocks", sum.prepared_blocks);
  visit("remade_blocks", sum.remade_blocks);
  visit("preparation_s", sum.preparation_s);
}

template <class Point, class Visit>
void visit_point(Point& point, Visit visit) {
  visit("time_s", point.time_s);
  visit("samples", point.samples);
  visit("samples_requested", point.samples_requested);
  visit("samples_read", point.samples_read);
  visit("storage_bytes", point.storage_bytes);
  visit("nvme_bytes", point.nvme_bytes);
  visit("network_bytes", point.network_bytes);
  visit("pcie_bytes", point.pcie_bytes);
  visit("preparations", point.preparations);
  visit("preparation_s", point.preparation_s);
  visit("compute_s", point.compute_s);
  visit("stall_s", point.stall_s);
  visit("idle_s", point.idle_s);
}

template <class Run, class Visit>
void visit_run(Run& run, Visit visit) {
  visit("label", run.label);
  visit("scenario", run.scenario);
  visit("seed", run.seed);
  visit("digest", run.digest);
  visit("interrupted", run.interrupted);
  visit("failure", run.failure);
  visit("makespan_s", run.makespan_s);
  visit("wall_s", run.wall_s);
  visit("steps", run.steps);
  visit("stale_completions", run.stale_completions);
  visit("protocol_errors", run.protocol_errors);
  visit("refused_proposals", run.refused_proposals);
}

Json run_json(const RunResult& run) {
  Json json;
  const auto into = [](Json& object) {
    return [&object](const char* name, const auto& field) { object[name] = field; };
  };
  json["policies"] = Json::object();
  for (const auto& [kind, policy] : run.policies) json["policies"][kind] = policy;
  visit_run(run, into(json));
  visit_aggregate(run.aggregate, into(json["aggregate"]));
  json["jobs"] = Json::array();
  for (const JobResult& job : run.jobs) {
    Json& object = json["jobs"].emplace_back(Json::object());
    visit_job(job, into(object));
  }
  return json;
}

std::string text_of(const Json& json, int indent) {
  // Names may be in any encoding; what is no UTF-8 in them is replaced.
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <class Field>
void csv_field(std::string& row, const Field& field) {
  if (!row.empty()) row += ',';
  if constexpr (std::is_same_v<Field, std::string>) {
    if (field.find_first_of(",\"\n") == std::string::npos) {
      row += field;
      return;
    }
    row += '"';
    for (const char c : field) row += c == '"' ? std::string("\"\"") : std::string(1, c);
    row += '"';
  } else {
    row += fmt::format("{}", field);
  }
}

}  // namespace

std::string results_json(std::span<const RunResult> runs, const std::string& command,
                         const std::string& version) {
  Json json;
  json["command"] = command;
  json["version"] = version;
  json["runs"] = Json::array();
  for (const RunResult& run : runs) json["runs"].push_back(run_json(run));
  return text_of(json, 2) + "\n";
}

std::string jobs_csv(std::span<const RunResult> runs) {
  std::string header = "run,seed";
  JobResult none;
  visit_job(none, [&](const char* name, const auto&) { header += fmt::format(",{}", name); });
  std::string text = header + "\n";
  for (const RunResult& run : runs) {
    for (const JobResult& job : run.jobs) {
      std::string row;
      csv_field(row, run.label.empty() ? std::string("run") : run.label);
      csv_field(row, run.seed);
      visit_job(job, [&](const char*, const auto& field) { csv_field(row, field); });
      text += row + "\n";
    }
  }
  return text;
}

std::string encode_run(const RunResult& run) {
  Json json = run_json(run);
  json["series"] = Json::array();
  for (const SeriesPoint& point : run.series) {
    Json& object = json["series"].emplace_back(Json::object());
    visit_point(point, [&](const char* name, const auto& field) { object[name] = field; });
  }
  return text_of(json, -1);
}

RunResult decode_run(const std::string& text) {
  RunResult run;
  const auto from = [](const Json& object) {
    return [&object](const char* name, auto& field) { object.at(name).get_to(field); };
  };
  try {
    const Json json = Json::parse(text);
    visit_run(run, from(json));
    visit_aggregate(run.aggregate, from(json.at("aggregate")));
    for (const auto& [kind, policy] : json.at("policies").items()) {
      run.policies.emplace_back(kind, policy.get<std::string>());
    }
    for (const Json& object : json.at("jobs")) {
      visit_job(run.jobs.emplace_back(), from(object));
    }
    for (const Json& object : json.at("series")) {
      visit_point(run.series.emplace_back(), from(object));
    }
  } catch (const Json::exception& error) {
    throw ConfigError(fmt::format("not the result of a run ({}); run it again", error.what()));
  }
  return run;
}

}  // namespace batchflow
