#include "runtime/service/datasets/job_pipelines.h"

#include <unistd.h>

#include <functional>
#include <ranges>
#include <utility>

#include "fmt/format.h"
#include "programs/input/find_config.h"
#include "programs/input/yaml.h"
#include "runtime/sources/file_kinds.h"

namespace batchflow::service {
namespace {

constexpr input::YamlLimits kBroughtLimits{.bytes = 1 << 16, .depth = 16, .nodes = 4096};

// The pipeline up to its first random step.
constexpr std::string_view kDecoded = "/decoded";

std::string cut_text(std::string yaml) {
  if (yaml.starts_with('{')) return yaml.insert(1, R"("form": "decoded", )");
  return yaml + "\nform: decoded\n";
}

std::string pipeline_name(std::string asked, const ServedDataset& dataset, Order order) {
  if (asked.empty()) asked = dataset.pipeline;
  if (!asked.empty()) return asked;
  const sources::SampleIndex& index = *dataset.index;
  if (index.kind() != sources::RecordKind::whole || index.classes().empty() ||
      sources::none_can_be_decoded(index))
    return "bytes";
  return order == Order::sequential ? "imagenet-val" : "imagenet-train";
}

}  // namespace

ServedPipeline* JobPipelines::find_for(Peer& connection, const protocol::JoinRequest& request,
                                       ServedDataset& dataset, std::string& name) {
  if (request.form == "encoded") return find(name = "bytes", dataset);
  name = pipeline_name(request.pipeline, dataset, request.order);
  if (request.form == "decoded") {
    if (is_brought(request))
      return brought_pipeline(cut_text(request.pipeline), dataset, connection, name);
    return find(name += kDecoded, dataset);
  }
  return is_brought(request) ? brought_pipeline(request.pipeline, dataset, connection, name)
                             : find(name, dataset);
}

const std::string* JobPipelines::refusal(const std::string& name, DatasetId dataset) const {
  const auto found = refused_.find({name, dataset.value});
  return found == refused_.end() ? nullptr : &found->second;
}

// A pipeline is compiled for a dataset when its first job comes.
ServedPipeline* JobPipelines::find(const std::string& name, ServedDataset& dataset) {
  if (ServedPipeline* known = datasets_.find(name, dataset.id)) return known;
  if (opener_.is_opening(name, dataset.id)) return nullptr;
  const bool is_cut = name.ends_with(kDecoded);
  const std::string written = name.substr(0, name.size() - (is_cut ? kDecoded.size() : 0));
  const std::optional<std::string> file = pipeline_file(config_.pipelines, written);
  if (!file) {
    const auto known = known_pipelines(config_.pipelines);
    throw ConfigError(fmt::format(
        "no pipeline is called '{}'; {}", name,
        input::what_to_write(name, {std::views::keys(known).begin(), std::views::keys(known).end()},
                             "pipelines")));
  }
  PipelineText text{input::read_regular_file(*file), std::filesystem::absolute(*file), {}};
  if (is_cut) text.yaml = cut_text(std::move(text.yaml));
  config::ConfigNode root = input::parse_yaml(text.yaml, *file);
  if (prepare::has_plugins(root)) {
    set_up(name, dataset, std::move(root),
           [this, name, id = dataset.id, text](std::unique_ptr<prepare::Pipeline> made) {
             add_pipeline(name, id, std::move(made), text);
           });
    return nullptr;
  }
  return &add_pipeline(name, dataset.id, compile(root, dataset), std::move(text));
}

// A job may bring its steps instead of a name.
ServedPipeline* JobPipelines::brought_pipeline(const std::string& text, ServedDataset& dataset,
                                               Peer& connection, std::string& name) {
  std::map<std::string, ServedPipeline*>& brought = brought_[connection.user()];
  const std::string key = fmt::format("{} {}", dataset.id.value, text);
  if (const auto known = brought.find(key); known != brought.end()) return known->second;
  if (brought.size() >= kBroughtMost) let_unused_go(Duration(0));
  if (brought.size() >= kBroughtMost)
    throw ConfigError(
        fmt::format("jobs of user {} use {} pipelines that they have brought; name one of the "
                    "service's (pipelines: of its node file)",
                    connection.user(), brought.size()));
  config::ConfigNode root = input::parse_yaml(text, "the job's pipeline", kBroughtLimits);
  if (prepare::has_plugins(root))
    throw ConfigError(
        "a job cannot bring a pipeline with a plugin, which would run as the service; have it "
        "listed there (pipelines: of its node file), and name it");
  if (!prepare::has_functions(root))
    return &add_brought(connection.user(), key, dataset.id, compile(root, dataset), {text, {}, {}});
  // To the service, a remote job is this process, which speaks for it. An agent has seen the user
  // of its job.
  const bool is_seen = connection.agent() != nullptr || connection.process() != getpid();
  if (connection.user() != geteuid() || !is_seen)
    throw ConfigError(fmt::format(
        "a job's function in Python runs as the service's user, {}, so it must be that user's job, "
        "of a machine of the service; use a service of your own (docs/python.md), or write a "
        "plugin (docs/steps.md)",
        geteuid()));
  name = fmt::format("#{:016x}, a job's own", std::hash<std::string>()(text));
  if (opener_.is_opening(name, dataset.id)) return nullptr;
  if (refused_.size() >= kBroughtMost) refused_.clear();
  refused_.erase({name, dataset.id.value});
  set_up(name, dataset, std::move(root),
         [this, key, text, id = dataset.id,
          user = connection.user()](std::unique_ptr<prepare::Pipeline> made) {
           add_brought(user, key, id, std::move(made), {text, {}, user});
         });
  return nullptr;
}

// Brought pipelines are named by their hash, so that jobs that bring the same steps share them.
ServedPipeline& JobPipelines::add_brought(uid_t user, const std::string& key, DatasetId dataset,
                                          std::unique_ptr<prepare::Pipeline> made,
                                          PipelineText text) {
  const std::string name = fmt::format("#{:016x}", made->info().hash);
  ServedPipeline* const same = datasets_.find(name, dataset);
  ServedPipeline& added =
      same ? *same : add_pipeline(name, dataset, std::move(made), std::move(text));
  added.brought = true;
  // One text for each, or the texts of one that is in use would fill what the user may have.
  std::erase_if(brought_[user], [&](const auto& one) { return one.second == &added; });
  brought_[user][key] = &added;
  return added;
}

void JobPipelines::let_unused_go(Duration kept) {
  for (const auto& one : datasets_.pipelines()) {
    const ServedDataset& dataset = datasets_.dataset(one->dataset);
    const bool may_go = one->brought || dataset.is_brought() || dataset.removed;
    if (!one->pipeline || !may_go) continue;
    const bool is_used =
        jobs_.served().any_is_of(one->id) || inbox_.is_left(one->id) || host_.uses(one->id);
    if (!is_idle(one->used, host_.now(), dataset.removed, is_used, kept)) continue;
    for (auto& [user, brought] : brought_)
      std::erase_if(brought, [&](const auto& text) { return text.second == one.get(); });
    const Bytes bytes = datasets_.own_step_bytes(*one->pipeline);
    for (const auto& step : one->pipeline->plugins())
      if (!datasets_.any_other_has(*step, *one->pipeline)) step->give_up();
    one->pipeline = nullptr;
    if (host_.pipeline_gone) host_.pipeline_gone(one->id);
    if (bytes > 0) host_.give_back(bytes);
  }
}

// If memory is short, lets go of what no job uses, and tries again.
void JobPipelines::set_apart(Bytes bytes) {
  if (bytes == 0) return;
  try {
    host_.set_apart(bytes);
  } catch (const ConfigError&) {
    let_unused_go(Duration(0));
    host_.set_apart(bytes);
  }
}

std::unique_ptr<prepare::Pipeline> JobPipelines::compile(const config::ConfigNode& root,
                                                         const ServedDataset& dataset) const {
  std::unique_ptr<prepare::Pipeline> compiled;
  config::read_config(root, [&](config::ConfigSection& section) {
    compiled = prepare::compile_pipeline(section, *dataset.index, host_.scratch);
  });
  return compiled;
}

ServedPipeline& JobPipelines::add_pipeline(const std::string& name, DatasetId dataset,
                                           std::unique_ptr<prepare::Pipeline> compiled,
                                           PipelineText text) {
  // To make room, a pipeline may have been let go that had one of its steps.
  Bytes apart = 0;
  for (Bytes own; (own = datasets_.own_step_bytes(*compiled)) > apart; apart = own)
    set_apart(own - apart);
  for (const auto& step : compiled->plugins()) step->use_again();
  ServedPipeline& made = datasets_.add(name, dataset, std::move(compiled), config_.engine);
  made.used = host_.now();
  made.text = std::move(text);
  if (host_.pipeline_added) host_.pipeline_added(made);
  inbox_.add(engine::PipelineKnown{made.id, made.hash});
  return made;
}

void JobPipelines::set_up(const std::string& name, ServedDataset& dataset,
                          config::ConfigNode written, Made made) {
  opener_.open(name, dataset, std::move(written), config_.steps, host_.scratch,
               [this, name, id = dataset.id, made = std::move(made)](
                   std::unique_ptr<prepare::Pipeline> pipeline, std::string problem) {
                 try {
                   if (pipeline) {
                     made(std::move(pipeline));
                     refused_.erase({name, id.value});
                     return;
                   }
                 } catch (const ConfigError& error) {
                   problem = fmt::format("pipeline '{}': {}", name, error.what());
                 }
                 host_.say({problem, LogLevel::error, "pipeline"});
                 refused_[{name, id.value}] = problem;
               });
}

ServedPipeline& JobPipelines::pipeline_for(std::string name, ServedDataset& dataset, Order order) {
  name = pipeline_name(std::move(name), dataset, order);
  if (ServedPipeline* made = find(name, dataset)) return *made;
  const std::string* const before = refusal(name, dataset.id);
  throw ConfigError(fmt::format("pipeline '{}': its plugins are being set up; ask again{}", name,
                                before ? "; so far: " + *before : ""));
}

}  // namespace batchflow::service
