#include "runtime/service/cluster/agent_datasets.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "programs/input/yaml.h"
#include "runtime/feeds/feed_index.h"
#include "runtime/service/control/node_memory.h"

namespace batchflow::service {
namespace {

std::string opening_name(PipelineId id) {
  return fmt::format("{}", id.value);
}

}  // namespace

AgentDatasets::AgentDatasets(const NodeConfig& config, Host host)
    : config_(config), host_(std::move(host)), openers_(host_.post), pipelines_(host_.post) {
  config_.steps.ending = ending_;
  config_.steps.temporary = config_.state / "temporary";
}

// Nothing waits for steps that are being set up.
AgentDatasets::~AgentDatasets() {
  *ending_ = true;
}

void AgentDatasets::open(const DatasetMessage& wanted) {
  while (datasets_.all().size() <= wanted.id.value) datasets_.add_unknown_dataset();
  if (wanted.version == 0) return answer_opened(wanted.id, {});
  if (!wanted.feed.empty()) return open_feed(wanted);
  const std::uint64_t number = next_opening_++;
  const auto work = [this, wanted, folder = config_.state / "indices"](
                        const sources::StopAsked& stop) -> std::function<void()> {
    std::vector<OpenedIndex> parts;
    try {
      parts = open_with_splits(wanted.asked, {}, folder, stop);
    } catch (const std::exception& error) {
      parts.emplace_back().problem = error.what();
    }
    const auto shared = std::make_shared<std::vector<OpenedIndex>>(std::move(parts));
    return [this, wanted, shared] { opened(wanted, *shared); };
  };
  try {
    openers_.start(number, std::nullopt, work);
  } catch (const std::runtime_error& error) {
    answer_opened(wanted.id, error.what());
  }
}

// Its log is at the coordinator, and this node fetches records from there.
void AgentDatasets::open_feed(const DatasetMessage& wanted) {
  OpenedIndex made;
  try {
    made.index = std::make_shared<feeds::FeedIndex>(
        wanted.name, feeds::settings_from_json(wanted.feed, "the coordinator's feed"));
    made.catalogue = std::make_shared<engine::Catalogue>(made.index->catalogue());
  } catch (const std::exception& error) {
    made.problem = error.what();
  }
  datasets_.dataset(wanted.id).log_at = NodeId(0);
  opened(wanted, {made});
}

void AgentDatasets::opened(const DatasetMessage& wanted, const std::vector<OpenedIndex>& parts) {
  const OpenedIndex* const made = wanted.part < parts.size() ? &parts[wanted.part]
                                  : parts.empty()            ? nullptr
                                                             : &parts.front();
  if (!made || !made->index)
    return answer_opened(wanted.id,
                         fmt::format("dataset '{}' at {} cannot be opened there: {}", wanted.name,
                                     wanted.asked.path.string(), made ? made->problem : ""));
  if (made->index->version() != wanted.version || made->index->listing() != wanted.listing)
    return answer_opened(
        wanted.id, fmt::format("dataset '{}' at {} is another one there: version {:016x}, and the "
                               "coordinator's is {:016x}; mount the same data on all nodes",
                               wanted.name, wanted.asked.path.string(), made->index->version(),
                               wanted.version));
  ServedDataset& dataset = datasets_.dataset(wanted.id);
  dataset.name = wanted.name;
  dataset.root = wanted.asked.path;
  dataset.bundle_shift = made->catalogue->bundle_shift();
  datasets_.add_again(dataset, made->root, made->index);
  dataset.closed = made->closed;
  for (const PipelineMessage& one : std::exchange(early_, {})) add(one);
  host_.log.say(fmt::format("dataset {}: {} samples, version {:016x}", wanted.name,
                            made->index->samples(), wanted.version));
  host_.opened(wanted.id);
  answer_opened(wanted.id, {});
}

void AgentDatasets::answer_opened(DatasetId dataset, const std::string& problem) {
  if (!problem.empty()) host_.log.say({problem, LogLevel::error, "dataset"});
  host_.link.write(encode_opened(dataset, problem));
}

void AgentDatasets::add(const PipelineMessage& wanted) {
  while (datasets_.pipelines().size() <= wanted.id.value) datasets_.add_unknown_pipeline();
  if (wanted.text.empty()) return;
  std::erase(removed_, wanted.id);
  datasets_.pipeline(wanted.id).dataset = wanted.dataset;
  if (datasets_.knows(wanted.dataset)) return compile(wanted);
  early_.push_back(wanted);
}

void AgentDatasets::compile(const PipelineMessage& wanted) {
  const std::string& source = wanted.file.empty() ? wanted.name : wanted.file;
  try {
    config::ConfigNode written = input::parse_yaml(wanted.text, source);
    if (prepare::has_plugins(written) || prepare::has_functions(written))
      return set_up(wanted, std::move(written));
    config::read_config(written, [&](config::ConfigSection& section) {
      have(wanted, prepare::compile_pipeline(section, *datasets_.dataset(wanted.dataset).index,
                                             scratch_limits(config_)));
    });
  } catch (const std::exception& error) {
    answer_set_up(wanted, error.what());
  }
}

void AgentDatasets::set_up(const PipelineMessage& wanted, config::ConfigNode written) {
  if (wanted.user && *wanted.user != geteuid())
    return answer_set_up(
        wanted, fmt::format("a job's function in Python runs as the service's user, which is {} "
                            "there, and the job is of user {}; start the agent as that user",
                            geteuid(), *wanted.user));
  pipelines_.open(opening_name(wanted.id), datasets_.dataset(wanted.dataset), std::move(written),
                  config_.steps, scratch_limits(config_),
                  [this, wanted](std::unique_ptr<prepare::Pipeline> made, std::string problem) {
                    try {
                      if (made) have(wanted, std::move(made));
                    } catch (const std::exception& error) {
                      problem = error.what();
                    }
                    answer_set_up(wanted, problem);
                  });
}

// Throws an error that says why it cannot be used.
void AgentDatasets::have(const PipelineMessage& wanted, std::unique_ptr<prepare::Pipeline> made) {
  if (made->info().hash != wanted.hash)
    throw ConfigError(
        fmt::format("it has the hash {:016x} there, and {:016x} at the coordinator; "
                    "have the same plugins and Python packages on all nodes",
                    made->info().hash, wanted.hash));
  if (datasets_.knows(wanted.id)) return;  // it was let go, and is still here
  if (const Bytes bytes = datasets_.own_step_bytes(*made); bytes > 0) {
    set_apart_for_steps(config_, bytes * config_.workers);
    host_.memory_changed(config_);
  }
  for (const auto& step : made->plugins()) step->use_again();
  ServedPipeline& pipeline = datasets_.pipeline(wanted.id);
  pipeline.pipeline = std::move(made);
  pipeline.name = wanted.name;
  pipeline.spec = pipeline.pipeline->spec();
  pipeline.hash = wanted.hash;
}

void AgentDatasets::answer_set_up(const PipelineMessage& wanted, const std::string& problem) {
  if (!problem.empty())
    host_.log.say(
        {fmt::format("pipeline '{}': {}", wanted.name, problem), LogLevel::error, "pipeline"});
  host_.link.write(encode_set_up(wanted.id, problem));
}

void AgentDatasets::remove(PipelineId pipeline) {
  while (datasets_.pipelines().size() <= pipeline.value) datasets_.add_unknown_pipeline();
  removed_.push_back(pipeline);
  std::erase_if(early_, [&](const PipelineMessage& one) { return one.id == pipeline; });
}

void AgentDatasets::let_go() {
  std::erase_if(removed_, [&](PipelineId id) {
    ServedPipeline& pipeline = datasets_.pipeline(id);
    if (pipelines_.is_opening(opening_name(id), pipeline.dataset) || host_.uses(id)) return false;
    if (!pipeline.pipeline) return true;
    const Bytes bytes = datasets_.own_step_bytes(*pipeline.pipeline);
    for (const auto& step : pipeline.pipeline->plugins())
      if (!datasets_.any_other_has(*step, *pipeline.pipeline)) step->give_up();
    pipeline.pipeline = nullptr;
    config_.steps_bytes -= bytes * config_.workers;
    if (bytes > 0) host_.memory_changed(config_);
    return true;
  });
}

}  // namespace batchflow::service
