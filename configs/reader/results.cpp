#include "configs/reader/results.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/config_error.h"
#include "core/event_fields.h"

namespace batchflow {

namespace {

// for_each_field(value, visit) calls visit("name", field) for each field, in order.
#define BATCHFLOW_RESULT(Type, ...)                        \
  template <class Self, class Visit>                       \
  requires std::is_same_v<std::remove_const_t<Self>, Type> \
  void for_each_field(Self& self, const Visit& visit) {    \
    auto& [__VA_ARGS__] = self;                            \
    BATCHFLOW_EACH(BATCHFLOW_VISIT, __VA_ARGS__)           \
  }

BATCHFLOW_RESULT(Waits, storage_s, drive_s, network_s, cores_s, preparation_s, delivery_s, other_s)
BATCHFLOW_RESULT(CachedBytes, encoded_dram, decoded_dram, prepared_dram, encoded_nvme, decoded_nvme)
BATCHFLOW_RESULT(ClusterSizes, nodes, gpus, cores, cache_bytes, nvme_bytes, store_bytes_per_s,
                 network_bytes_per_s, pcie_bytes_per_s)
BATCHFLOW_RESULT(JobResult, name, user, dataset, state, refusal, ranks, epochs, batches, samples,
                 fillers, rehearsed, restarts, preemptions, lost_samples, arrived_s, started_s,
                 ended_s, time_s, compute_s, stall_s, idle_s, down_s, first_batch_s, first_step_s,
                 samples_per_s, au, bottleneck, waited)
BATCHFLOW_RESULT(Aggregate, samples_per_s, stall_fraction, au, hit_ratio, cached_bytes_most,
                 samples, samples_requested, samples_read, storage_bytes, storage_reads, nvme_bytes,
                 nvme_written_bytes, network_bytes, pcie_bytes, preparations, prepared_blocks,
                 remade_blocks, repeats, preparation_s, cancelled_read_bytes,
                 cancelled_preparation_s, failed_reads, replaced_samples, lost_samples)
BATCHFLOW_RESULT(StepResult, pipeline, dataset, step, core_s)
BATCHFLOW_RESULT(FaultResult, kind, target, struck, from_s, until_s, parts)
BATCHFLOW_RESULT(JobPoint, samples, stall_s)
BATCHFLOW_RESULT(SeriesPoint, time_s, samples, samples_requested, samples_read, storage_bytes,
                 nvme_bytes, network_bytes, pcie_bytes, preparations, preparation_s, busy_s,
                 compute_s, stall_s, idle_s, waited, cached, ranks, stalling, reading, preparing,
                 workers, jobs)
BATCHFLOW_RESULT(JobGain, name, time_s, speedup)
BATCHFLOW_RESULT(Gain, resource, makespan_s, samples_per_s, speedup, jobs)
BATCHFLOW_RESULT(RunResult, label, scenario, policies, seed, digest, interrupted, failure, remark,
                 makespan_s, wall_s, steps, stale_completions, protocol_errors, refused_proposals,
                 aggregate, cluster, jobs, faults, preparation_steps, bottlenecks, series)

using Json = nlohmann::ordered_json;

template <class T>
constexpr bool kHasFields = requires(T& value) {
  for_each_field(value, [](const char*, auto&) {});
};

// Visits the fields; those of a struct in a struct by both names: `waited_storage_s`.
template <class Self, class Visit>
void visit_flat(Self& self, const std::string& prefix, const Visit& visit) {
  for_each_field(self, [&](const char* name, auto& field) {
    if constexpr (kHasFields<decltype(field)>) {
      visit_flat(field, prefix + name + "_", visit);
    } else {
      visit(prefix + name, field);
    }
  });
}

using Pairs = std::vector<std::pair<std::string, std::string>>;
// Declared first, since each needs the others.
template <class T>
Json json_of(const std::vector<T>& values);
template <class T>
Json json_of(const std::optional<T>& value);
Json json_of(const Pairs& pairs);
template <class T>
void read(const Json& json, std::vector<T>& values);
template <class T>
void read(const Json& json, std::optional<T>& value);
void read(const Json& json, Pairs& pairs);

template <class T>
Json json_of(const T& value) {
  Json json = Json::object();
  if constexpr (kHasFields<const T>) {
    for_each_field(value,
                   [&](const char* name, const auto& field) { json[name] = json_of(field); });
  } else {
    json = value;
  }
  return json;
}
template <class T>
Json json_of(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(json_of(value));
  return json;
}
template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : Json(nullptr);
}
Json json_of(const Pairs& pairs) {
  Json json = Json::object();
  for (const auto& [key, value] : pairs) json[key] = value;
  return json;
}

template <class T>
void read(const Json& json, T& value) {
  if constexpr (kHasFields<T>) {
    // A file of another version may lack a field, or have more.
    for_each_field(value, [&](const char* name, auto& field) {
      if (json.contains(name)) read(json[name], field);
    });
  } else {
    json.get_to(value);
  }
}
template <class T>
void read(const Json& json, std::vector<T>& values) {
  for (const Json& one : json) read(one, values.emplace_back());
}
template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) read(json, value.emplace());
}
void read(const Json& json, Pairs& pairs) {
  for (const auto& [key, value] : json.items()) pairs.emplace_back(key, value.get<std::string>());
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
                         const std::string& version, const std::string& more) {
  Json json;
  json["command"] = command;
  json["version"] = version;
  if (!more.empty()) json.update(Json::parse(more));
  json["runs"] = Json::array();
  for (const RunResult& run : runs) {
    json["runs"].push_back(json_of(run));
    json["runs"].back().erase("series");
    if (run.bottlenecks.empty()) json["runs"].back().erase("bottlenecks");
  }
  return text_of(json, 2) + "\n";
}

std::string jobs_csv(std::span<const RunResult> runs) {
  std::string text = "run,seed";
  const JobResult none;
  visit_flat(none, "", [&](const std::string& name, const auto&) { text += "," + name; });
  text += "\n";
  for (const RunResult& run : runs) {
    for (const JobResult& job : run.jobs) {
      std::string row;
      csv_field(row, run.label.empty() ? std::string("run") : run.label);
      csv_field(row, run.seed);
      visit_flat(job, "", [&](const std::string&, const auto& field) { csv_field(row, field); });
      text += row + "\n";
    }
  }
  return text;
}

std::string runs_csv(std::span<const RunResult> runs, const std::vector<std::string>& names,
                     const std::vector<std::vector<std::string>>& values) {
  std::string text;
  for (const std::string& name : names) csv_field(text, name);
  text += text.empty() ? "seed,makespan_s" : ",seed,makespan_s";
  const Aggregate none;
  visit_flat(none, "", [&](const std::string& name, const auto&) { text += "," + name; });
  text += "\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string row;
    for (const std::string& value : values[i]) csv_field(row, value);
    csv_field(row, runs[i].seed);
    csv_field(row, runs[i].makespan_s);
    visit_flat(runs[i].aggregate, "",
               [&](const std::string&, const auto& field) { csv_field(row, field); });
    text += row + "\n";
  }
  return text;
}

std::string read_results_file(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{256} << 20;
  std::error_code error;
  std::string text;
  if (!std::filesystem::is_directory(path, error)) {
    std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
    text.resize(4096);
    std::size_t size = 0;
    while (file.read(text.data() + size, static_cast<std::streamsize>(text.size() - size)),
           file.gcount() > 0) {
      size += static_cast<std::size_t>(file.gcount());
      if (size > kMost) {
        throw ConfigError(path + ": larger than 256 MiB; name a file with results");
      }
      if (size == text.size()) text.resize(2 * size);
    }
    text.resize(size);
  }
  if (text.empty()) {
    throw ConfigError(path + ": cannot be read, or is empty; name a file with results");
  }
  return text;
}

std::string encode_run(const RunResult& run) {
  return text_of(json_of(run), -1);
}

RunResult decode_run(const std::string& text) {
  RunResult run;
  try {
    const Json json = Json::parse(text);
    json.at("aggregate");  // the least that is asked of a run
    read(json, run);
  } catch (const Json::exception& error) {
    throw ConfigError(fmt::format("not the result of a run ({}); run it again", error.what()));
  }
  return run;
}

std::vector<RunResult> parse_results(const std::string& text, const std::string& name) {
  const auto refuse = [&](const std::string& wrong) {
    throw ConfigError(
        fmt::format("{}: {}; name a file that `run --json=FILE` or `sweep --json=FILE` has written",
                    name, wrong));
  };
  std::vector<RunResult> runs;
  try {
    const Json json = Json::parse(text);
    if (!json.is_object() || !json.contains("runs") || !json["runs"].is_array()) {
      refuse("not results: there is no list of runs");
    }
    const std::string command = json.value("command", "?");
    if (command != "run" && command != "sweep") refuse(fmt::format("results of `{}`", command));
    for (const Json& run : json["runs"]) {
      if (!run.contains("aggregate")) refuse("not results: a run has no figures");
      read(run, runs.emplace_back());
    }
  } catch (const Json::exception& error) {
    refuse(fmt::format("not results ({})", error.what()));
  }
  if (runs.empty()) refuse("results of no run");
  return runs;
}

}  // namespace batchflow
