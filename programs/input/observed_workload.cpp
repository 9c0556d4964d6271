#include "programs/input/observed_workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/names.h"
#include "programs/config/engine_settings.h"
#include "programs/input/cluster_model.h"

namespace batchflow::input {
namespace {

// A name that needs no care in YAML, in tables and on command lines.
std::string plain(std::string_view name, std::string_view otherwise) {
  std::string text;
  for (const char c : name.substr(name.size() > 64 ? name.size() - 64 : 0)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '/';
    text += is_plain ? c : '_';
  }
  return text.empty() ? std::string(otherwise) : text;
}

// TakenNames as `plain` makes them, each once.
class TakenNames {
 public:
  std::string add(std::string_view name, std::string_view otherwise) {
    const std::string first = plain(name, otherwise);
    std::string text = first;
    for (int i = 2; !taken_.insert(text).second; ++i) text = fmt::format("{}-{}", first, i);
    return text;
  }

 private:
  std::set<std::string> taken_;
};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

std::string yaml_of(const config::ConfigNode& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case config::ConfigNode::Kind::empty:
      return "~";
    case config::ConfigNode::Kind::scalar:
      return in_quotes(node.scalar);
    case config::ConfigNode::Kind::list:
      for (const config::ConfigNode& one : node.list) parts.push_back(yaml_of(one));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case config::ConfigNode::Kind::map:
      for (const config::ConfigEntry& entry : node.map)
        parts.push_back(fmt::format("{}: {}", in_quotes(entry.key), yaml_of(entry.value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  return "~";
}

std::string nanoseconds(double seconds) {
  constexpr double kMost = 3600. * 24 * 366;
  return fmt::format("{:.0f}ns", 1e9 * std::clamp(seconds, 0., kMost));
}

std::string jitter_text(std::string_view key, double jitter) {
  return jitter < 0.005 ? "" : fmt::format(", {}_jitter: {:.4f}", key, std::min(jitter, 5.));
}

// -------------------------------------------------------------------------------- the parts ----

using Settings = std::map<std::string, std::string, std::less<>>;

Settings settings_of(std::string_view text) {
  Settings all;
  config::visit_settings(text, [&](std::string_view key, std::string_view value) {
    all.insert_or_assign(std::string(key), std::string(value));
  });
  return all;
}

bool is_known_preset(std::string_view name) {
  const auto all = engine::presets();
  return std::any_of(all.begin(), all.end(),
                     [&](const engine::Preset* preset) { return preset->name == name; });
}

// Only what differs from the preset, so that a candidate that names another preset gets its
// settings.
std::string engine_text(const ObservedWorkload& observed, DerivedScenario& derived) {
  Settings recorded = settings_of(observed.configuration);
  std::string preset = recorded["preset"];
  if (!is_known_preset(preset)) {
    if (!preset.empty())
      derived.assumed.push_back(
          fmt::format("preset {} is of a plugin that is not loaded; its settings stand one by one",
                      plain(preset, "?")));
    preset = "default";
  }
  engine::EngineConfig usual;
  engine::apply_preset(usual, preset);
  const Settings base = settings_of(config::text_of(usual));
  const auto differs = [&](const std::string& key, const std::string& value) {
    const auto found = base.find(key);
    return found == base.end() || found->second != value;
  };
  std::string policies, evictions, settings;
  for (const auto& [key, value] : recorded) {
    if (key == "preset" || key == "seed" || key.ends_with("log_bytes_max") ||
        key == "journal_bytes_max" || !differs(key, value))
      continue;
    constexpr std::string_view kPolicies = "policies.", kEviction = "policies.eviction.";
    if (key.starts_with(kEviction)) {
      evictions += fmt::format("      {}: {}\n", key.substr(kEviction.size()), in_quotes(value));
    } else if (key.starts_with(kPolicies)) {
      policies += fmt::format("    {}: {}\n", key.substr(kPolicies.size()), in_quotes(value));
    } else {
      settings += fmt::format("  {}: {}\n", key, in_quotes(value));
    }
  }
  // What scenarios have otherwise than services have, unless they say so.
  if (const auto staging = recorded.find("count_staging");
      staging != recorded.end() && settings.find("count_staging") == std::string::npos)
    settings += fmt::format("  count_staging: {}\n", in_quotes(staging->second));
  if (!evictions.empty()) policies += "    eviction:\n" + evictions;
  return fmt::format("engine:\n  preset: {}\n{}{}{}", in_quotes(preset),
                     policies.empty() ? "" : "  policies:\n", policies, settings);
}

[[noreturn]] void refuse_cluster(const config::ConfigNode& cluster, const std::string& wrong) {
  throw ConfigError(
      fmt::format("{}: {}: this was measured on another machine; measure this one with "
                  "`batchflowctl calibrate DATASET --cluster=FILE`, or leave --cluster out and "
                  "change the hardware by --set cluster.nodes.0.cores=N",
                  cluster.source.text(), wrong));
}

// Rates of a node that no journal tells.
std::string rates_of(const config::ConfigNode* cluster, std::size_t node) {
  if (cluster == nullptr) return "";
  const config::ConfigNode* nodes = cluster->find("nodes");
  if (nodes == nullptr || nodes->list.empty()) return "";
  const config::ConfigNode& from = nodes->list[std::min(node, nodes->list.size() - 1)];
  std::string text;
  for (const config::ConfigEntry& entry : from.map) {
    for (const char* key :
         {"core_speed", "gpu_speed", "memory_bytes_per_s", "pcie_bytes_per_s", "nic_bytes_per_s",
          "nic_latency", "processors", "workers_help", "overhead", "gpu_memory"})
      if (entry.key == key) text += fmt::format(", {}: {}", key, yaml_of(entry.value));
  }
  return text;
}

void check_cluster(const ObservedWorkload& observed, const config::ConfigNode& cluster,
                   DerivedScenario& derived) {
  ClusterModel model;
  config::read_config(cluster, [&](config::ConfigSection& section) {
    const std::string kind = section.text("kind", "cluster");
    if (kind != "cluster")
      section.refuse("kind", fmt::format("this is a {}", kind), "name a file of kind: cluster");
    model = read_cluster(section);
  });
  if (model.nodes.size() < observed.nodes.size())
    refuse_cluster(cluster, fmt::format("it has {} nodes, and {} were recorded", model.nodes.size(),
                                        observed.nodes.size()));
  for (std::size_t i = 0; i < observed.nodes.size(); ++i) {
    const NodeModel& measured = model.nodes[i];
    const ObservedNode& seen = observed.nodes[i];
    if (measured.cores < seen.cores)
      refuse_cluster(cluster, fmt::format("node {} has {} cores, and {} workers were recorded", i,
                                          measured.cores, seen.cores));
    if (measured.memory > 0 && measured.memory < seen.cache)
      refuse_cluster(
          cluster, fmt::format("node {} has {} bytes of memory, and a cache of {} was recorded", i,
                               measured.memory, seen.cache));
    if (measured.cores > seen.cores)
      derived.assumed.push_back(
          fmt::format("node {} of the cluster has {} cores; {} prepare, as recorded", i,
                      measured.cores, seen.cores));
  }
}

std::string cluster_text(const ObservedWorkload& observed, const config::ConfigNode* cluster,
                         DerivedScenario& derived) {
  std::uint64_t gpus = 0;
  for (const ObservedJob& job : observed.jobs) gpus += job.ranks;
  // No journal says how much a machine has beside its cache.
  constexpr Bytes kMemories = 64;
  derived.assumed.push_back(
      fmt::format("nodes have memory for {} times the cache, for what-ifs of it", kMemories));
  std::string text = "cluster:\n  name: recorded\n  nodes:\n";
  for (std::size_t i = 0; i < observed.nodes.size(); ++i) {
    const ObservedNode& node = observed.nodes[i];
    text += fmt::format("    - {{name: node-{}, cores: {}, gpus: {}, memory: {}, cache: {}{}{}}}\n",
                        i, std::max(1U, node.cores), std::max<std::uint64_t>(1, gpus),
                        kMemories * std::max<Bytes>(1, node.cache), node.cache,
                        node.nvme > 0 ? fmt::format(", nvme: {{size: {}}}", node.nvme) : "",
                        cluster != nullptr  ? rates_of(cluster, i)
                        : node.workers_help ? ", workers_help: true"
                                            : "");
  }
  derived.assumed.push_back("there are GPUs enough, so that no job waits for one");
  if (cluster != nullptr) {
    if (const config::ConfigNode* links = cluster->find("links"))
      text += fmt::format("  links: {}\n", yaml_of(*links));
    if (const config::ConfigNode* store = cluster->find("store")) {
      derived.known.push_back(
          fmt::format("store and copies: as measured, of {}", cluster->source.text()));
      return text + fmt::format("  store: {}\n", yaml_of(*store));
    }
  }
  if (!observed.store) {
    derived.assumed.push_back(
        "store: nothing was read, so it is taken as without limits; name --cluster FILE");
    return text + "  store: {latency: 0s}\n";
  }
  const ObservedStore& store = *observed.store;
  const std::string rate =
      store.bytes_per_s > 0 ? fmt::format("bytes_per_s: {:.0f}, ", std::max(1., store.bytes_per_s))
                            : "";
  derived.assumed.push_back(
      store.bytes_per_s > 0
          ? fmt::format("store: {} of latency and {:.4g} bytes/s, estimated from times of reads",
                        nanoseconds(store.latency_s), store.bytes_per_s)
          : fmt::format("store: {} of latency, estimated from times of reads; its rate never was "
                        "the limit, so none is known; name --cluster FILE to have one",
                        nanoseconds(store.latency_s)));
  return text + fmt::format("  store: {{{}latency: {}}}\n", rate, nanoseconds(store.latency_s));
}

struct NamedData {
  std::vector<std::string> datasets;
  std::vector<std::string> pipelines;
};

std::string data_text(const ObservedWorkload& observed, NamedData& named,
                      DerivedScenario& derived) {
  std::string text = "datasets:\n";
  TakenNames datasets, pipelines;
  for (const ObservedDataset& one : observed.datasets) {
    named.datasets.push_back(datasets.add(one.name, "data"));
    std::string bundle;
    if (one.bundle_shift >= 2) {
      bundle = fmt::format(", bundle: {}", one.bytes << one.bundle_shift);
    } else if (one.bundle_shift > 0) {
      derived.assumed.push_back(fmt::format("samples of {} are read one by one, not two at a time",
                                            named.datasets.back()));
    }
    text += fmt::format(
        "  - {{name: {}, samples: {}, bytes: {}{}{}}}\n", in_quotes(named.datasets.back()),
        one.samples, std::max<Bytes>(1, one.bytes), jitter_text("bytes", one.bytes_jitter), bundle);
  }
  text += "pipelines:\n";
  for (const ObservedPipeline& one : observed.pipelines) {
    named.pipelines.push_back(pipelines.add(one.name, "pipeline"));
    (one.was_measured ? derived.known : derived.assumed)
        .push_back(fmt::format("pipeline {}: {} a sample on one core as stored, {} as decoded{}",
                               named.pipelines.back(), nanoseconds(one.decode_s + one.augment_s),
                               nanoseconds(one.augment_s),
                               one.was_measured ? ", measured" : ", as the service expected"));
    text += fmt::format("  - name: {}{}\n    steps:\n", in_quotes(named.pipelines.back()),
                        one.jitter < 0.005
                            ? ""
                            : fmt::format("\n    cost_jitter: {:.4f}", std::min(one.jitter, 5.)));
    if (one.decoded_bytes > 0)
      text += fmt::format("      - {{name: decode, cost: {}, output: {}}}\n",
                          nanoseconds(one.decode_s), one.decoded_bytes);
    // A random step ends what is kept decoded. Whether it draws matters to no decision.
    const double rest_s = one.augment_s + (one.decoded_bytes > 0 ? 0 : one.decode_s);
    text += fmt::format("      - {{name: augment, random: true, cost: {}, output: {}}}\n",
                        nanoseconds(rest_s), std::max<Bytes>(1, one.prepared_bytes));
  }
  return text;
}

std::string jobs_text(const ObservedWorkload& observed, const NamedData& named,
                      DerivedScenario& derived) {
  std::string text = "jobs:\n";
  TakenNames names;
  for (const ObservedJob& job : observed.jobs) {
    Order order = job.order;
    const std::string name = names.add(job.name, "job");
    if (order == Order::listed) {
      derived.assumed.push_back(fmt::format(
          "job {} names its samples itself, which no scenario can; it is taken as strict", name));
      order = Order::strict;
    }
    if (order == Order::live) {
      derived.assumed.push_back(fmt::format(
          "job {} {}, which no scenario has; it is taken as sequential", name,
          job.keyed ? "is a store, and asks for samples by their keys" : "reads a feed"));
      order = Order::sequential;
    }
    if (order == Order::mixed) {
      derived.assumed.push_back(fmt::format(
          "job {} reads a mixture, and its sources are not known here; all samples weigh the same",
          name));
      order = Order::weighted;
    } else if (order == Order::weighted)
      derived.assumed.push_back(
          fmt::format("job {} draws by scores that are not known here; all count the same", name));
    if (job.step_s <= 0)
      derived.assumed.push_back(
          fmt::format("job {} told no times of steps; it is taken to compute nothing", name));
    std::string more;
    if (job.shuffle_seed) more += fmt::format(", shuffle_seed: {}", *job.shuffle_seed);
    if (job.drop_last) more += ", drop_last: true";
    if (job.node_local && order == Order::relaxed) more += ", node_local: true";
    const bool has_bundles = observed.datasets[job.dataset].bundle_shift >= 2;
    if (job.runs && order == Order::relaxed && has_bundles) more += ", runs: true";
    const bool rehearses = job.rehearsed > 0 && job.rehearsed < job.batch && job.exemplars > 0;
    if (rehearses && order == Order::weighted) {
      derived.assumed.push_back(fmt::format("what job {} rehearses is left out", name));
    } else if (rehearses) {
      more += fmt::format(
          ", rehearsal: {{samples: {}, exemplars: {}}}", job.rehearsed,
          std::min<std::uint64_t>(job.exemplars, observed.datasets[job.dataset].samples));
    }
    if (job.credits > 0) more += fmt::format(", credits: {}", job.credits);
    if (job.weight != 1) more += fmt::format(", weight: {}", job.weight);
    if (job.latency_target > Duration(0))
      more += fmt::format(", latency_target: {}ns", job.latency_target.count());
    if (observed.nodes.size() > 1 && !job.nodes.empty()) {
      std::vector<std::string> nodes;
      for (const std::uint32_t node : job.nodes) nodes.push_back(fmt::format("node-{}", node));
      more += fmt::format(", nodes: [{}]", fmt::join(nodes, ", "));
    }
    if (job.steps > 0) more += fmt::format(", steps: {}", job.steps);
    text += fmt::format(
        "  - {{name: {}, user: {}, dataset: {}, pipeline: {}, order: {}, batch: {}, ranks: {}, "
        "epochs: {}, step: {}{}, arrives: {}ns{}}}\n",
        in_quotes(name), in_quotes(plain(job.user, "user")), in_quotes(named.datasets[job.dataset]),
        in_quotes(named.pipelines[job.pipeline]), name_of(order), job.batch, job.ranks,
        std::max(1U, job.epochs), nanoseconds(std::max(1e-9, job.step_s)),
        jitter_text("step", job.step_jitter), std::max<std::int64_t>(0, job.arrives.count()), more);
  }
  return text;
}

std::string comment(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    std::string one;
    for (const char c : line) one += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    text += fmt::format("#   {}\n", one);
  }
  return text;
}

}  // namespace

CalibrationFiles calibration_of(const ObservedWorkload& observed) {
  DerivedScenario derived;
  // Its cluster and its data, indented as in a scenario, are files of their own without that.
  const auto unindented = [](const std::string& text, std::size_t from) {
    std::string all;
    for (std::size_t at = from; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size() - 1);
      const std::size_t begin = text.compare(at, 2, "  ") == 0 ? at + 2 : at;
      all += text.substr(begin, end + 1 - begin);
      at = end + 1;
    }
    return all;
  };
  const std::string cluster = cluster_text(observed, nullptr, derived);
  NamedData named;
  CalibrationFiles files;
  files.workload = data_text(observed, named, derived);
  files.cluster = "kind: cluster\n" + unindented(cluster, cluster.find('\n') + 1);
  files.assumed = derived.assumed;
  const std::string head =
      fmt::format("# Learnt from the journal of {}. Assumed or estimated:\n{}",
                  in_quotes(plain(observed.name, "a run")), comment(derived.assumed));
  files.cluster = head + files.cluster;
  files.workload = head + files.workload;
  return files;
}

DerivedScenario derive_scenario(const ObservedWorkload& observed,
                                const config::ConfigNode* cluster) {
  if (observed.jobs.empty())
    throw ConfigError(
        fmt::format("{}: no job has run, so there is no workload to simulate", observed.name));
  DerivedScenario derived;
  derived.known.push_back(
      "datasets, jobs, their arrivals and step times, workers, memory, policies: as recorded");
  if (cluster != nullptr) check_cluster(observed, *cluster, derived);
  NamedData named;
  std::string body = cluster_text(observed, cluster, derived);
  body += data_text(observed, named, derived);  // it names what jobs name
  body += jobs_text(observed, named, derived);
  body += engine_text(observed, derived);
  derived.text = fmt::format(
      "# A workload that ran, as a scenario. Recorded or measured:\n{}# Assumed or estimated:\n"
      "{}{}{}kind: scenario\nname: {}\nseed: {}\nends_after: {}ns\n"
      "jitter: {{arrival: 0s, step: 0}}\n{}",
      comment(derived.known), comment(derived.assumed),
      observed.notes.empty() ? "" : "# Left out:\n", comment(observed.notes),
      in_quotes(plain(observed.name, "recorded")), observed.seed, observed.ends_after.count(),
      body);
  return derived;
}

}  // namespace batchflow::input
