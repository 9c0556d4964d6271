#include "sim/setup_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "programs/output/result_fields.h"

namespace batchflow::sim {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string value_of(const Pairs& pairs, const std::string& key) {
  const auto found =
      std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == key; });
  return found == pairs.end() ? "-" : found->second;
}

void add(const Pairs& a, const Pairs& b, std::vector<Difference>& all) {
  if (a.empty() || b.empty()) return;  // notes_of() says that it is not known
  for (const auto& [key, value] : a) {
    if (std::string other = value_of(b, key); other != value)
      all.push_back({key, value, std::move(other)});
  }
  for (const auto& [key, value] : b)
    if (value_of(a, key) == "-") all.push_back({key, "-", value});
}

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> cluster_of(const output::RunResult& run) {
  Pairs pairs;
  output::for_each_field(run.cluster, [&](const char* name, const auto& size) {
    const std::string key = fmt::format("cluster.{}", name);
    const bool is_rate = std::string_view(name).ends_with("_per_s");
    pairs.emplace_back(key, !output::is_measured(run, key) ? "not measured"
                            : is_rate && size == 0         ? "no limit"
                                                           : fmt::format("{}", size));
  });
  return pairs;
}

std::vector<Difference> workload_differences(const output::RunResult& a,
                                             const output::RunResult& b) {
  std::vector<Difference> all;
  add(a.workload, b.workload, all);
  return all;
}

std::vector<Difference> settings_differences(const output::RunResult& a,
                                             const output::RunResult& b) {
  std::vector<Difference> all;
  add(a.policies, b.policies, all);
  add(a.settings, b.settings, all);
  add(cluster_of(a), cluster_of(b), all);
  return all;
}

std::vector<RefusedJob> refused_jobs(std::span<const output::RunResult* const> runs) {
  std::vector<RefusedJob> all;
  for (const output::RunResult* run : runs) {
    for (const output::JobResult& job : run->jobs) {
      if (job.state != "refused") continue;
      auto found = std::find_if(all.begin(), all.end(),
                                [&](const RefusedJob& other) { return other.name == job.name; });
      if (found == all.end()) found = all.insert(all.end(), {job.name, job.refusal, 0});
      ++found->runs;
    }
  }
  return all;
}

std::vector<std::string> notes_of(std::span<const output::RunResult* const> runs) {
  std::vector<std::string> notes;
  for (const output::RunResult* run : runs) {
    if (!run->remark.empty()) add_once(notes, run->remark);
    if (!run->failure.empty()) add_once(notes, "failed: " + run->failure);
    if (run->interrupted) add_once(notes, "interrupted; these are its results so far");
    if (run->workload.empty() || run->settings.empty())
      add_once(notes, "written by an older version: its jobs or settings are not known");
  }
  return notes;
}

}  // namespace batchflow::sim
