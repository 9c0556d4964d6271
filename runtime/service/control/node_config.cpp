#include "runtime/service/control/node_config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "policies/description.h"
#include "policies/registry.h"
#include "programs/config/engine_settings.h"
#include "programs/input/find_config.h"
#include "programs/input/scenario.h"
#include "programs/input/yaml.h"
#include "runtime/objects/url.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/http/http.h"
#include "runtime/service/node_sockets.h"

namespace batchflow::service {
namespace {

constexpr Bytes kScratchLeast = Bytes{4} << 20;
constexpr Duration kStepTimeMost = std::chrono::hours(1);

std::filesystem::path from_environment(const char* variable, const char* below) {
  const char* value = std::getenv(variable);
  return value && *value == '/' ? std::filesystem::path(value) / below : std::filesystem::path();
}

// What is wrong is said without a password that may be in it, before anything logs it.
void check_url(std::string_view text) {
  objects::Url url;
  if (const std::string problem = objects::parse_url(text, url); !problem.empty())
    throw ConfigError(fmt::format("{}: {}", objects::without_user(text), problem));
}

// Makes the path absolute, and removes a slash at its end.
std::filesystem::path place_of_data(const std::string& text) {
  if (objects::is_url(text)) {
    check_url(text);
    return text;
  }
  const std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const sources::SourceFormatName& format : sources::source_formats())
    names.emplace_back(format.name);
  return names;
}

std::vector<std::string> pipeline_names(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> names;
  for (const auto& [name, file] : known_pipelines(files)) names.push_back(name);
  return names;
}

// What is wrong with the size of a spill tier; empty: nothing.
std::string spill_problem(Bytes bytes) {
  return bytes >= Spill::kLeast ? "" : fmt::format("{} bytes are too little", bytes);
}

std::string spill_remedy() {
  return fmt::format("write {}mib or more, or leave the spill tier out", Spill::kLeast >> 20);
}

// Empty if the key is not set.
std::string read_name(config::ConfigSection& section, std::string_view key,
                      const std::vector<std::string>& names) {
  if (!section.has(key)) return {};
  return names[section.one_of(key, {names.begin(), names.end()}, 0)];
}

std::vector<std::string> names_of_packing() {
  return {sources::packing_names().begin(), sources::packing_names().end()};
}

sources::SequenceRule read_sequences(config::ConfigSection& section, std::uint64_t tokens) {
  sources::SequenceRule rule;
  rule.packing = read_name(section, "packing", names_of_packing());
  rule.seed = static_cast<std::uint64_t>(section.integer("packing_seed", 0));
  if (section.has("end_token"))
    rule.end_token = static_cast<std::uint32_t>(section.integer("end_token", 0, 0, INT32_MAX));
  rule.rows = static_cast<std::uint32_t>(section.integer("rows", 0, 0, INT32_MAX));
  rule.mixture = section.text("mix", "");
  if (rule.packing.empty()) return rule;
  if (const std::string problem = rule.problem(tokens); !problem.empty())
    section.refuse("packing", problem,
                   fmt::format("write tokens: 2048, or another number up to {}",
                               sources::SequenceRule::kLengthMost));
  return rule;
}

NodeDataset read_dataset(config::ConfigSection& section,
                         const std::vector<std::filesystem::path>& pipelines) {
  NodeDataset dataset;
  constexpr std::string_view kPlace = "the folder or file it is in";
  section.require("path", kPlace);
  dataset.path = place_of_data(section.filled_text("path", "", kPlace));
  dataset.name = section.text("name", dataset.path.filename().string());
  if (dataset.name.empty()) section.refuse("name", "it is empty", "write what jobs call it");
  dataset.format = read_name(section, "format", format_names());
  dataset.pipeline = read_name(section, "pipeline", pipeline_names(pipelines));
  dataset.tokens = static_cast<std::uint64_t>(section.integer("tokens", 0));
  if (dataset.format == "tokens" && dataset.tokens == 0)
    section.refuse("tokens", "a sample's length is not known", "write tokens: 1024");
  dataset.sequences = read_sequences(section, dataset.tokens);
  dataset.column = section.text("column", "");
  dataset.label = section.text("label", "");
  dataset.everyone = section.flag("everyone", false);
  dataset.pin = section.flag("pin", false);
  section.sections("splits", [&](config::ConfigSection& split) {
    dataset.splits.push_back(read_split(split, dataset.splits));
  });
  return dataset;
}

}  // namespace

std::optional<std::string> pipeline_file(const std::vector<std::filesystem::path>& files,
                                         const std::string& name) {
  for (const std::filesystem::path& file : files)
    if (file.stem() == name) return file.string();
  return input::config_named(name, "pipelines");
}

std::map<std::string, std::string> known_pipelines(
    const std::vector<std::filesystem::path>& files) {
  std::map<std::string, std::string> all;
  for (const std::filesystem::path& file : files) all.emplace(file.stem(), file);
  all.merge(input::list_configs("pipelines"));
  return all;
}

NodeConfig default_node_config() {
  NodeConfig config;
  const bool root = geteuid() == 0;
  config.socket = from_environment("XDG_RUNTIME_DIR", "batchflow/batchflow.sock");
  if (config.socket.empty())
    config.socket = root ? "/run/batchflow/batchflow.sock"
                         : fmt::format("/tmp/batchflow-{}/batchflow.sock", geteuid());
  std::array<char, 256> machine{};
  if (gethostname(machine.data(), machine.size() - 1) == 0) config.cluster.name = machine.data();
  config.state = from_environment("XDG_STATE_HOME", "batchflow");
  if (config.state.empty() && !root)
    config.state = from_environment("HOME", ".local/state/batchflow");
  if (config.state.empty()) config.state = "/var/lib/batchflow";
  return config;
}

namespace {

std::string_view cut_at_comma(std::string_view& rest) {
  const std::size_t comma = rest.find(',');
  const std::string_view part = rest.substr(0, comma);
  rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  return part;
}

bool is_number(const std::string& text, std::size_t digits_most) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
         text.size() <= digits_most;
}

// Reads KEY=VALUE,... after a path.
void read_settings(std::string_view text, std::string_view rest,
                   const std::vector<std::filesystem::path>& pipelines, NodeDataset& dataset) {
  const auto one_of = [&](std::string_view key, const std::string& value,
                          const std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), value) == names.end())
      throw ConfigError(fmt::format("dataset '{}': unknown {} '{}'; {}", text, key, value,
                                    input::what_to_write(value, names,
                                                         key == "pipeline"  ? "pipelines"
                                                         : key == "packing" ? "ways of packing"
                                                                            : "formats")));
    return value;
  };
  while (!rest.empty()) {
    const std::string_view part = cut_at_comma(rest);
    const std::size_t at = part.find('=');
    const std::string_view key = part.substr(0, at);
    const std::string value(at == std::string_view::npos ? "" : part.substr(at + 1));
    if (key == "pipeline") {
      dataset.pipeline = one_of(key, value, pipeline_names(pipelines));
    } else if (key == "format") {
      dataset.format = one_of(key, value, format_names());
    } else if (key == "tokens" && is_number(value, 9)) {
      dataset.tokens = std::stoull(value);
    } else if (key == "packing") {
      dataset.sequences.packing = one_of(key, value, names_of_packing());
    } else if (key == "packing_seed" && is_number(value, 19)) {
      dataset.sequences.seed = std::stoull(value);
    } else if (key == "end_token" && is_number(value, 10) && std::stoull(value) <= INT32_MAX) {
      dataset.sequences.end_token = static_cast<std::uint32_t>(std::stoul(value));
    } else if (key == "rows" && is_number(value, 9)) {
      dataset.sequences.rows = static_cast<std::uint32_t>(std::stoul(value));
    } else if (key == "mix" && !value.empty()) {
      dataset.sequences.mixture = value;
    } else if (key == "column" && !value.empty()) {
      dataset.column = value;
    } else if (key == "label" && !value.empty()) {
      dataset.label = value;
    } else if (part == "everyone") {
      dataset.everyone = true;
    } else if (part == "pin") {
      dataset.pin = true;
    } else if (key == "split") {
      dataset.splits.push_back(split_from_argument(value, dataset.splits));
    } else {
      throw ConfigError(
          fmt::format("dataset '{}': '{}' means nothing; write pipeline=NAME, "
                      "format=NAME, tokens=COUNT, packing=NAME, packing_seed=COUNT, "
                      "end_token=TOKEN (at most 2147483647), rows=COUNT, mix=NAME:WEIGHT+..., "
                      "column=NAME, label=NAME, pin, everyone or split=NAME:RULE",
                      text, part));
    }
  }
  if (dataset.format == "tokens" && dataset.tokens == 0)
    throw ConfigError(
        fmt::format("dataset '{}': a sample's length is not known; write tokens=1024", text));
  if (dataset.sequences.packing.empty()) return;
  if (const std::string problem = dataset.sequences.problem(dataset.tokens); !problem.empty())
    throw ConfigError(fmt::format("dataset '{}': {}", text, problem));
}

}  // namespace

NodeDataset dataset_from_argument(std::string_view text,
                                  const std::vector<std::filesystem::path>& pipelines) {
  NodeDataset dataset;
  std::string_view rest = text;
  const std::string_view first = cut_at_comma(rest);
  const std::size_t equals = first.find('=');
  const std::string path(equals == std::string_view::npos ? first : first.substr(equals + 1));
  if (path.empty())
    throw ConfigError(fmt::format("dataset '{}': no path; write --dataset NAME=/path/to/it", text));
  dataset.path = place_of_data(path);
  dataset.name = equals == std::string_view::npos ? dataset.path.filename().string()
                                                  : std::string(first.substr(0, equals));
  if (dataset.name.empty())
    throw ConfigError(fmt::format("dataset '{}': no name; write --dataset NAME=/path/to/it", text));
  read_settings(text, rest, pipelines, dataset);
  return dataset;
}

NodeDataset brought_dataset(const std::filesystem::path& path, std::string_view reading) {
  if (objects::is_url(path.string())) check_url(path.string());
  NodeDataset dataset;
  dataset.path = path;
  dataset.name = path.string();
  if (reading.empty()) return dataset;
  read_settings(reading, reading, {}, dataset);
  const bool reads_a_file =
      std::any_of(dataset.splits.begin(), dataset.splits.end(),
                  [](const NodeSplit& split) { return !split.rule.subset.empty(); });
  if (dataset.splits.size() > 1 || dataset.pin || dataset.everyone || !dataset.pipeline.empty() ||
      reads_a_file)
    throw ConfigError(fmt::format(
        "'{}': with a path a job may say tokens, format, packing, column, label and one split, "
        "not by a subset's file; for more, have it served by a name (--dataset NAME={})",
        reading, path.string()));
  dataset.name += fmt::format("//{}", reading);  // which is in no path
  return dataset;
}

SpillOptions spill_from_argument(std::string_view text) {
  const std::size_t comma = text.rfind(',');
  const std::optional<Bytes> bytes = comma == std::string_view::npos
                                         ? std::nullopt
                                         : parse_bytes(std::string(text.substr(comma + 1)));
  if (!bytes || comma == 0)
    throw ConfigError(
        fmt::format("--spill '{}': write a folder and a size, as "
                    "--spill /nvme/batchflow,500gib",
                    text));
  if (const std::string problem = spill_problem(*bytes); !problem.empty())
    throw ConfigError(fmt::format("--spill '{}': {}; {}", text, problem, spill_remedy()));
  return {std::filesystem::absolute(std::string(text.substr(0, comma))).lexically_normal(), *bytes};
}

void check_policy(std::string_view kind, std::string_view text) {
  const engine::PolicyChoice choice =
      policies::policy_list().choose(engine::policy_name(kind).kind, text);
  if (choice.entry->clairvoyant)
    throw ConfigError(fmt::format(
        "{} '{}' needs to know future requests, and a live service does not; use it in "
        "batchflow-sim cache, and write minio here, or another of batchflowctl policy list",
        kind, text));
  if (choice.entry->simulated_only)
    throw ConfigError(
        fmt::format("{} '{}' changes orders in a way that no client can follow yet; use it in "
                    "batchflow-sim, and write another of batchflowctl policy list here",
                    kind, text));
}

std::string_view policy_note(std::string_view kind, std::string_view text) {
  return policies::may_starve(kind, text) ? ", which may leave a job without data for ever" : "";
}

void listen_remotely(remote::RemoteOptions& tcp, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? text : text.substr(colon + 1);
  std::string_view address = colon == std::string_view::npos ? "" : text.substr(0, colon);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  int number = -1;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number < 0 || number > 65535)
    throw ConfigError(
        fmt::format("--tcp '{}': no port; write --tcp 9838 or --tcp 10.0.0.1:9838", text));
  tcp.port = number;
  if (!address.empty()) tcp.address = address;
}

void choose_policy(engine::EngineConfig& config, std::string_view text) {
  const auto [kind, name] = engine::split_policy(text);
  const std::string allowed = unless_quarantined(kind, std::string(name));
  if (kind == "preset") {
    engine::apply_preset(config, allowed);
  } else {
    check_policy(kind, allowed);
    engine::set_policy(config.policies, kind, allowed);
  }
  engine::name_exactly(config.policies, policies::policy_list());
}

engine::EngineConfig NodeConfig::engine_config() const {
  engine::EngineConfig shown = engine;
  shown.corrupt_ratio_max = std::max(shown.corrupt_ratio_max, corrupt_ratio_allowed);
  shown.staging_bytes = shown_staging();
  shown.staging_sector_bytes = storage::kSector;
  return shown;
}

namespace {

void read_spill(config::ConfigSection& spill, NodeConfig& config) {
  constexpr std::string_view kPlace = "a folder on a local drive";
  spill.require("path", kPlace);
  spill.require("bytes", "how much of the drive");
  config.spill.path = spill.filled_text("path", "", kPlace);
  config.spill.bytes = spill.bytes("bytes", 0);
  if (const std::string problem = spill_problem(config.spill.bytes); !problem.empty())
    spill.refuse("bytes", problem, spill_remedy());
}

void read_tcp(config::ConfigSection& tcp, NodeConfig& config) {
  tcp.require("port", "the port that remote jobs reach");
  constexpr std::string_view kTokens =
      "a file of tokens, one a line; a remote job must show one of them";
  config.tcp.address = tcp.text("address", config.tcp.address);
  config.tcp.port = static_cast<int>(tcp.integer("port", config.tcp.port, 0, 65535));
  config.tcp.token_file = tcp.filled_text("token_file", "", kTokens);
  constexpr std::string_view kPem = "write a file in PEM, or leave both out: certificate and key";
  config.tcp.certificate = tcp.filled_text("certificate", "", kPem);
  config.tcp.key = tcp.filled_text("key", "", kPem);
  config.tcp.feeds = tcp.flag("feeds", config.tcp.feeds);
}

void read_cluster(config::ConfigSection& cluster, NodeConfig& config) {
  constexpr std::string_view kTokens =
      "a file of tokens, one a line, that all nodes of the cluster share";
  cluster.require("token_file", kTokens);
  config.tcp.cluster_token_file = cluster.filled_text("token_file", "", kTokens);
  config.cluster.join = cluster.text("join", "");
  config.cluster.log =
      cluster.filled_text("log", config.cluster.log.string(), "a folder that all candidates share");
  config.cluster.name =
      cluster.filled_text("name", config.cluster.name, "a name that no other agent has");
  config.cluster.authorities = cluster.text("authorities", "");
  config.cluster.lost_after = std::chrono::duration_cast<std::chrono::milliseconds>(
      cluster.duration("lost_after", config.cluster.lost_after));
  config.cluster.unsent_most = cluster.bytes("unsent", config.cluster.unsent_most, Bytes{1} << 20);
}

void read_http(config::ConfigSection& http, NodeConfig& config) {
  config.http_address = http.text("address", config.http_address);
  config.http_port = static_cast<int>(http.integer("port", config.http_port, -1, 65535));
  if (const std::string problem = http_address_problem(config.http_address);
      config.http_port >= 0 && !problem.empty())
    http.refuse("address", problem, kHttpAddressRemedy);
  config.user_labels = http.flag("user_labels", config.user_labels);
  config.http_hosts = http.texts("hosts");
}

void read_storage(config::ConfigSection& storage, NodeConfig& config) {
  const std::vector<std::string_view> engines(storage::kEngines.begin(), storage::kEngines.end());
  config.storage.engine = engines[storage.one_of("engine", engines, 0)];
  config.storage.depth =
      static_cast<unsigned>(storage.integer("depth", config.storage.depth, 1, 4096));
  config.storage.direct = storage.flag("direct", config.storage.direct);
  config.storage.threads =
      static_cast<unsigned>(storage.integer("threads", config.storage.threads, 1, 1024));
  config.storage.staging = storage.bytes("staging", config.storage.staging, Bytes{1} << 20);
}

void read_steps(config::ConfigSection& steps, NodeConfig& config) {
  config.steps.memory =
      steps.bytes("memory", config.steps.memory, step::StepSettings::kMemoryLeast);
  config.steps.timeout =
      steps.duration("timeout", config.steps.timeout, std::chrono::milliseconds(1), kStepTimeMost);
  config.steps.start_timeout = steps.duration("start_timeout", config.steps.start_timeout,
                                              std::chrono::milliseconds(1), kStepTimeMost);
  config.steps.worker = steps.text("worker", "");
  if (steps.has("worker") && access(config.steps.worker.c_str(), X_OK) != 0)
    steps.refuse("worker", fmt::format("'{}' is no program", config.steps.worker.string()),
                 "leave it out: it stands beside batchflowd");
}

void read_user(config::ConfigSection& one, NodeConfig& config) {
  one.require("name", "a user's name or number");
  const std::string name = one.text("name", "");
  const std::optional<uid_t> user = find_user(name);
  if (!user)
    one.refuse("name", fmt::format("this machine knows no user '{}'", name),
               "write one that `getent passwd` lists, or its number");
  const UserLimits limits = read_user_limits(one, config.quotas.of_all);
  if (!config.quotas.of_some.emplace(*user, limits).second)
    one.refuse("name", fmt::format("user '{}' is listed already", name), "leave one of them");
}

void read_pipelines(config::ConfigSection& section, NodeConfig& config) {
  for (const std::string& path : section.texts("pipelines")) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
      section.refuse("pipelines", fmt::format("'{}' is no file", path),
                     "write the paths of pipelines, as docs/pipelines.md has them");
    prepare::check_pipeline(input::read_yaml_file(path));
    config.pipelines.emplace_back(path);
  }
}

NodeConfig read_node(config::ConfigSection& section) {
  NodeConfig config = default_node_config();
  section.one_of("kind", {"node"}, 0);
  if (section.has("policies"))
    section.refuse("policies", "they stand in the engine's section",
                   "write engine: {policies: {dispatch: fifo}}, or preset: there");
  config.memory = section.bytes("memory", config.memory);
  config.workers = static_cast<std::uint32_t>(section.integer("workers", 0, 0, 4096));
  config.scratch = section.bytes("scratch", 0, kScratchLeast);
  // The path is made absolute: then messages about it can be used in any folder.
  const auto path_at = [&](const char* key, const std::filesystem::path& usual,
                           std::string_view remedy) {
    return std::filesystem::absolute(section.filled_text(key, usual.string(), remedy))
        .lexically_normal();
  };
  config.socket = path_at("socket", config.socket, "write where jobs find the service");
  if (const std::string problem = socket_path_problem(config.socket);
      section.has("socket") && !problem.empty())
    section.refuse("socket", problem, "choose another path");
  config.state = path_at("state", config.state, "write a folder for indices and logs");
  section.section("plugins", [&](config::ConfigSection& plugins) {
    config.plugins.files = plugins.texts("files");
    for (const std::string& key : plugins.texts("keys")) config.plugins.keys.emplace_back(key);
    config.plugins.uncertified = plugins.flag("uncertified", false);
  });
  load_configured(config.plugins, config.state, config.plugin_notes);
  config.open_datasets = section.flag("open_datasets", config.open_datasets);
  config.brought_kept =
      section.duration("brought_kept", config.brought_kept, Duration(0), engine::kDurationMost);
  config.corrupt_ratio_allowed =
      section.ratio("corrupt_ratio_allowed", config.corrupt_ratio_allowed);
  config.log = section.choice("log", {"text", "json"}, config.log);
  if (section.has("log_file")) config.log_file = path_at("log_file", "", "write a file");
  config.log_bytes = section.bytes("log_bytes", config.log_bytes, Bytes{64} << 10);
  config.journal = section.flag("journal", config.journal);
  config.explain = section.flag("explain", config.explain);
  read_pipelines(section, config);
  section.sections("datasets", [&](config::ConfigSection& one) {
    config.datasets.push_back(read_dataset(one, config.pipelines));
  });
  section.section("spill", [&](config::ConfigSection& spill) { read_spill(spill, config); });
  section.section("tcp", [&](config::ConfigSection& tcp) { read_tcp(tcp, config); });
  section.section("cluster",
                  [&](config::ConfigSection& cluster) { read_cluster(cluster, config); });
  section.section("http", [&](config::ConfigSection& http) { read_http(http, config); });
  config.exit_when_idle =
      section.duration("exit_when_idle", config.exit_when_idle, Duration(0), engine::kDurationMost);
  config.drain = section.duration("drain", config.drain, Duration(0), engine::kDurationMost);
  section.section("limits", [&](config::ConfigSection& limits) {
    config.quotas.of_all = read_user_limits(limits, config.quotas.of_all);
  });
  section.sections("users", [&](config::ConfigSection& one) { read_user(one, config); });
  section.section("storage",
                  [&](config::ConfigSection& storage) { read_storage(storage, config); });
  section.section("steps", [&](config::ConfigSection& steps) { read_steps(steps, config); });
  section.section("engine", [&](config::ConfigSection& engine) {
    config.engine = config::read_engine_config(engine);
  });
  return config;
}

}  // namespace

NodeConfig read_node_config(const config::ConfigNode& root) {
  NodeConfig config;
  config::read_config(root, [&](config::ConfigSection& section) { config = read_node(section); });
  engine::visit_policies(config.engine.policies, [](std::string_view kind, std::string& text) {
    text = unless_quarantined(kind, text);
  });
  config::check_policies(config.engine.policies, root, check_policy);
  engine::name_exactly(config.engine.policies, policies::policy_list());
  return config;
}

}  // namespace batchflow::service
