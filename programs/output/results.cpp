#include "programs/output/results.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <vector>

#include "core/base/config_value.h"
#include "programs/output/json_writer.h"
#include "programs/output/result_fields.h"

namespace batchflow::output {

namespace {

using Json = nlohmann::ordered_json;

// Visits the fields; a field of a nested struct gets both names: `waited_storage_s`.
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

bool contains(std::span<const std::string> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A run without series or bottlenecks has no such key: series go to reports alone, and few users
// ask for bottlenecks.
template <class T>
bool left_out(const std::string_view name, const T& field, bool with_series) {
  if constexpr (requires { field.empty(); }) {
    return (name == "series" && !with_series) || (name == "bottlenecks" && field.empty());
  }
  return false;
}

class ResultWriter {
 public:
  ResultWriter(const Sink& sink, JsonWriter::Layout layout, bool with_series)
      : json_(sink, layout), with_series_(with_series) {}
  JsonWriter& json() { return json_; }

  void put_run(const RunResult& run) {
    not_measured_ = run.not_measured;
    put(run);
    not_measured_ = {};
  }
  template <class T>
  void put(const std::vector<T>& values) {
    json_.begin_array();
    for (const T& value : values) put(value);
    json_.end_array();
  }
  template <class T>
  void put(const std::optional<T>& value) {
    value ? put(*value) : json_.leaf("null");
  }
  void put(const Pairs& pairs) {
    json_.begin_object();
    for (const auto& [key, value] : pairs) {
      json_.key(key);
      json_.value(value);
    }
    json_.end_object();
  }
  template <class T>
  void put(const T& value) {
    if constexpr (kHasFields<const T>) {
      json_.begin_object();
      for_each_field(value, [this](const char* name, const auto& field) {
        if (left_out(name, field, with_series_)) return;
        json_.key(name);
        const std::size_t before = path_.size();
        path_ += (before == 0 ? "" : ".");
        path_ += name;
        contains(not_measured_, path_) ? json_.leaf("null") : put(field);
        path_.resize(before);
      });
      json_.end_object();
    } else {
      json_.value(value);
    }
  }
  void put_json(const Json& value) {
    if (value.is_object()) {
      json_.begin_object();
      put_items(value);
      json_.end_object();
    } else if (value.is_array()) {
      json_.begin_array();
      for (const Json& entry : value) put_json(entry);
      json_.end_array();
    } else {
      json_.leaf(value.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
  void put_items(const Json& object) {
    for (const auto& [key, value] : object.items()) {
      json_.key(key);
      put_json(value);
    }
  }

 private:
  JsonWriter json_;
  bool with_series_;
  std::span<const std::string> not_measured_;
  std::string path_;  // of the field that is written, in its run
};

// Declared first, because each needs the others.
template <class T>
void read(const Json& json, std::vector<T>& values);
template <class T>
void read(const Json& json, std::optional<T>& value);
void read(const Json& json, Pairs& pairs);

template <class T>
void read(const Json& json, T& value) {
  if constexpr (kHasFields<T>) {
    // A file of another version may lack a field, or have more. What was not measured is null.
    for_each_field(value, [&](const char* name, auto& field) {
      const auto found = json.find(name);
      if (found != json.end() && !found->is_null()) read(*found, field);
    });
  } else {
    json.get_to(value);
  }
}
template <class T>
void read(const Json& json, std::vector<T>& values) {
  for (const Json& entry : json) read(entry, values.emplace_back());
}
template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) read(json, value.emplace());
}
void read(const Json& json, Pairs& pairs) {
  for (const auto& [key, value] : json.items()) pairs.emplace_back(key, value.get<std::string>());
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

// Empty where the run has not measured it. `flat` is the name of the column: `waited_storage_s` is
// a part of `waited`.
template <class Field>
void csv_figure(std::string& row, const RunResult& run, std::string_view figure,
                const std::string& flat, const Field& field) {
  const bool missing =
      std::any_of(run.not_measured.begin(), run.not_measured.end(), [&](std::string_view name) {
        if (!name.starts_with(figure)) return false;
        name.remove_prefix(figure.size());
        return flat == name || (flat.starts_with(name) && flat[name.size()] == '_');
      });
  missing ? csv_field(row, std::string()) : csv_field(row, field);
}

}  // namespace

bool is_measured(const RunResult& run, std::string_view field) {
  return !contains(run.not_measured, field);
}

Content results_json(std::span<const RunResult> runs, const std::string& command,
                     const std::string& version, const std::string& more) {
  return [=](const Sink& sink) {
    ResultWriter writer(sink, JsonWriter::Layout::lines, false);
    JsonWriter& json = writer.json();
    json.begin_object();
    json.key("command");
    json.value(command);
    json.key("version");
    json.value(version);
    writer.put_items(Json::parse(more));
    json.key("runs");
    json.begin_array();
    for (const RunResult& run : runs) writer.put_run(run);
    json.end_array();
    json.end_object();
    json.finish();
    sink("\n");
  };
}

Content jobs_csv(std::span<const RunResult> runs) {
  return [=](const Sink& sink) {
    std::string row = "run,seed";
    const JobResult none;
    visit_flat(none, "", [&](const std::string& name, const auto&) { row += "," + name; });
    sink(row + "\n");
    for (const RunResult& run : runs) {
      for (const JobResult& job : run.jobs) {
        row.clear();
        csv_field(row, run.label.empty() ? std::string("run") : run.label);
        csv_field(row, run.seed);
        visit_flat(job, "", [&](const std::string& name, const auto& field) {
          csv_figure(row, run, "jobs.", name, field);
        });
        sink(row + "\n");
      }
    }
  };
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
    visit_flat(runs[i].aggregate, "", [&](const std::string& name, const auto& field) {
      csv_figure(row, runs[i], "aggregate.", name, field);
    });
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
        throw ConfigError(path +
                          ": larger than 256 MiB; if it holds results, name results of fewer jobs");
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
  return text_of([&](const Sink& sink) {
    ResultWriter writer(sink, JsonWriter::Layout::one_line, true);
    writer.put_run(run);
    writer.json().finish();
  });
}

RunResult decode_run(const std::string& text) {
  RunResult run;
  try {
    const Json json = Json::parse(text);
    json.at("aggregate");  // the least that a run must have
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

double mean_au(std::span<const JobResult> jobs) {
  double compute_s = 0;
  double time_s = 0;
  for (const JobResult& job : jobs) {
    const double after_first_s = job.time_s - job.first_step_s;
    const double looked_at_s = after_first_s > 0 ? after_first_s : job.time_s;
    compute_s += job.au * looked_at_s * static_cast<double>(job.ranks);
    time_s += looked_at_s * static_cast<double>(job.ranks);
  }
  return time_s > 0 ? compute_s / time_s : 0;
}

double hit_ratio(std::uint64_t read, std::uint64_t requested) {
  if (requested == 0) return 0;
  return std::max(0., 1 - static_cast<double>(read) / static_cast<double>(requested));
}

double quantile(std::span<const double> sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size(), static_cast<std::size_t>(std::max(1., rank))) - 1];
}

double jain_index(std::span<const double> values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

std::vector<double> user_slowdowns(std::span<const JobResult> jobs) {
  struct Served {
    double time_s = 0;
    double compute_s = 0;
  };
  std::map<std::string_view, Served> users;
  for (const JobResult& job : jobs) {
    if (job.state != "done" || job.user.empty()) continue;
    Served& user = users[job.user];
    user.time_s += job.time_s;
    user.compute_s += job.compute_s;
  }
  std::vector<double> slowdowns;
  for (const auto& [name, user] : users)
    if (user.compute_s > 0 && user.time_s > 0) slowdowns.push_back(user.time_s / user.compute_s);
  std::sort(slowdowns.begin(), slowdowns.end());
  return slowdowns;
}

void count_completions(std::span<const JobResult> jobs, Aggregate& sum, double ended_after_s) {
  std::vector<double> times;
  std::vector<double> speeds;
  double slowdowns = 0;
  for (const JobResult& job : jobs) {
    if (job.state != "done" && job.state != "left") continue;
    if (job.ended_s < ended_after_s) continue;
    times.push_back(job.ended_s - job.arrived_s);
    if (job.compute_s <= 0 || times.back() <= 0) continue;
    speeds.push_back(job.compute_s / times.back());
    slowdowns += 1 / speeds.back();
  }
  if (!times.empty()) {
    std::sort(times.begin(), times.end());
    sum.jct_s =
        std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    sum.jct_p95_s = quantile(times, 0.95);
  }
  if (!speeds.empty()) {
    sum.slowdown = slowdowns / static_cast<double>(speeds.size());
    sum.fairness = jain_index(speeds);
  }
  std::vector<double> of_users = user_slowdowns(jobs);
  for (double& value : of_users) value = 1 / value;
  sum.user_fairness = jain_index(of_users);
}

void count_records(const RunResult& run, Aggregate& sum) {
  std::uint64_t made = 0;
  std::uint64_t thinned = 0;
  std::uint64_t samples = 0;
  std::uint64_t fills = 0;
  for (const SourceResult& source : run.sources) {
    made += source.made;
    thinned += source.thinned;
    for (const JobResult& job : run.jobs) {
      if (job.dataset != source.dataset) continue;
      fills += job.rehearsed;
      samples += job.samples + job.rehearsed;
      sum.lag_p50_s = std::max(sum.lag_p50_s, job.live.lag_p50_s);
      sum.lag_p99_s = std::max(sum.lag_p99_s, job.live.lag_p99_s);
    }
  }
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  sum.fill_ratio = ratio(fills, samples);
  sum.thinned_ratio = ratio(thinned, made);
}

void count_buffers(std::span<const JobResult> jobs, Aggregate& sum) {
  double buffers = 0;
  for (const JobResult& job : jobs) {
    if (job.buffer.exemplars == 0) continue;
    ++buffers;
    sum.buffer_classes += static_cast<double>(job.buffer.classes);
    sum.buffer_evenness +=
        static_cast<double>(job.buffer.class_least) / static_cast<double>(job.buffer.class_most);
    sum.buffer_age += job.buffer.age;
  }
  if (buffers == 0) return;
  sum.buffer_classes /= buffers;
  sum.buffer_evenness /= buffers;
  sum.buffer_age /= buffers;
}

}  // namespace batchflow::output
