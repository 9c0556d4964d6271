#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "programs/output/terminal.h"
#include "sim/cache_study.h"
#include "sim/numbers.h"

namespace batchflow::sim {
namespace {

using Ratio = double (ReplayCounts::*)() const;

bool competes(const engine::PolicyChoice& policy) {
  return !policy.entry->clairvoyant;
}

// Whether several policies that do not know the future compete: a single policy is not marked as
// the best.
bool has_competitors(const CacheStudy& study) {
  return std::count_if(study.policies.begin(), study.policies.end(), competes) > 1;
}

// The lowest value of a column.
double best_of(const CacheStudy& study, std::size_t size, Ratio ratio) {
  double best = 2;
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    if (!competes(study.policies[p])) continue;
    best = std::min(best, (study.result(p, size).*ratio)());
  }
  return best;
}

std::string heading(const CacheSize& size) {
  const bool percent = size.text.ends_with('%');
  return percent ? fmt::format("{} = {}", size.text, size_text(size.bytes)) : size_text(size.bytes);
}

// `contest`: the best of several policies is marked.
std::string ratio_table(const CacheStudy& study, std::string_view title, Ratio ratio,
                        bool contest) {
  std::size_t names = title.size();
  for (const engine::PolicyChoice& policy : study.policies)
    names = std::max(names, policy.text().size());
  std::vector<std::size_t> widths;
  std::string text = fmt::format("{:<{}}", title, names);
  for (const CacheSize& size : study.sizes) {
    widths.push_back(std::max<std::size_t>(heading(size).size() + 3, 11));
    text += fmt::format("{:>{}} ", heading(size), widths.back() - 1);
  }
  text += "\n";
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    text += fmt::format("{:<{}}", study.policies[p].text(), names);
    for (std::size_t s = 0; s < study.sizes.size(); ++s) {
      const double value = (study.result(p, s).*ratio)();
      const bool best = contest && competes(study.policies[p]) && value == best_of(study, s, ratio);
      text += fmt::format("{:>{}.4f}{}", value, widths[s] - 1, best ? '*' : ' ');
    }
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  return text;
}

// Only a policy that may leave a newcomer out, with items of one size, has a bound that nothing can
// pass.
std::string legend(const CacheStudy& study) {
  const auto runs = [&](auto condition) {
    return std::any_of(
        study.policies.begin(), study.policies.end(),
        [&](const engine::PolicyChoice& policy) { return condition(*policy.entry); });
  };
  std::string text = has_competitors(study) ? "* best at this size" : "";
  const std::string separator = text.empty() ? "" : "; ";
  if (study.trace.one_size != 0 &&
      runs([](const engine::PolicyEntry& entry) { return entry.name == "belady-bypass"; })) {
    text += separator + "belady-bypass knows the future, and nothing can miss less";
  } else if (runs([](const engine::PolicyEntry& entry) { return entry.clairvoyant; })) {
    text += separator + "policies that know the future do not compete";
  }
  return text.empty() ? "" : "\n" + text + "\n";
}

}  // namespace

std::string cache_table(const CacheStudy& study) {
  const traces::AccessTrace& trace = study.trace;
  std::string text =
      fmt::format("{}: {} requests, {} items, working set {}\n", output::printable(trace.name),
                  count_text(trace.requests()), count_text(trace.distinct_items()),
                  size_text(trace.working_set_bytes));
  if (trace.requests_of_size_zero > 0) {
    text += fmt::format("{} requests of size zero were left out\n",
                        count_text(trace.requests_of_size_zero));
  }
  if (study.nodes > 1) {
    text += fmt::format("{} nodes with equal parts of the cache make the requests in turn\n",
                        study.nodes);
  }
  const bool contest = has_competitors(study);
  text += "\n" + ratio_table(study, "miss ratio", &ReplayCounts::miss_ratio, contest);
  if (trace.one_size == 0) {
    text += "\n" + ratio_table(study, "byte miss ratio", &ReplayCounts::byte_miss_ratio, contest);
  }
  if (study.nodes > 1)
    text += "\n" + ratio_table(study, "fetch ratio", &ReplayCounts::fetch_ratio, false);
  text += legend(study);
  for (std::size_t i = 0; i < study.results.size(); ++i) {
    if (study.results[i].refused == 0) continue;
    text += fmt::format("warning: {} proposals of {} broke a rule and were refused\n",
                        study.results[i].refused, study.policies[i / study.sizes.size()].text());
  }
  return text;
}

std::string cache_json(const CacheStudy& study) {
  using Json = nlohmann::ordered_json;
  const traces::AccessTrace& trace = study.trace;
  Json json;
  json["command"] = "cache";
  json["version"] = BATCHFLOW_VERSION;
  json["seed"] = study.seed;
  json["nodes"] = study.nodes;
  json["trace"] = {{"name", trace.name},
                   {"requests", trace.requests()},
                   {"requests_of_size_zero", trace.requests_of_size_zero},
                   {"distinct_items", trace.distinct_items()},
                   {"working_set_bytes", trace.working_set_bytes},
                   {"bytes_requested", trace.bytes_requested}};
  json["runs"] = Json::array();
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    for (std::size_t s = 0; s < study.sizes.size(); ++s) {
      const ReplayCounts& counts = study.result(p, s);
      json["runs"].push_back({{"policy", study.policies[p].text()},
                              {"size", study.sizes[s].bytes},
                              {"size_text", study.sizes[s].text},
                              {"requests", counts.requests},
                              {"misses", counts.misses},
                              {"fetches", counts.fetches},
                              {"bytes_requested", counts.bytes_requested},
                              {"bytes_missed", counts.bytes_missed},
                              {"miss_ratio", counts.miss_ratio()},
                              {"byte_miss_ratio", counts.byte_miss_ratio()},
                              {"evictions", counts.evictions},
                              {"refused_proposals", counts.refused}});
    }
  }
  // A trace may be named in any encoding; what is no UTF-8 in it is replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string cache_csv(const CacheStudy& study) {
  std::string text =
      "policy,size,requests,misses,bytes_requested,bytes_missed,miss_ratio,byte_miss_ratio,"
      "fetches\n";
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    for (std::size_t s = 0; s < study.sizes.size(); ++s) {
      const ReplayCounts& counts = study.result(p, s);
      text += fmt::format("{},{},{},{},{},{},{:.6f},{:.6f},{}\n", study.policies[p].text(),
                          study.sizes[s].bytes, counts.requests, counts.misses,
                          counts.bytes_requested, counts.bytes_missed, counts.miss_ratio(),
                          counts.byte_miss_ratio(), counts.fetches);
    }
  }
  return text;
}

}  // namespace batchflow::sim
