#include "runtime/service/cluster/agent_datasets.h"

#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "programs/input/yaml.h"

namespace batchflow::service {

void AgentDatasets::open(const DatasetMessage& wanted) {
  while (datasets_.all().size() <= wanted.id.value) datasets_.add_unknown_dataset();
  if (wanted.version == 0) return answer_opened(wanted.id, {});
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
  } catch (const std::system_error& error) {
    answer_opened(wanted.id, fmt::format("no thread to open it: {}", error.code().message()));
  }
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
  log_.say(fmt::format("dataset {}: {} samples, version {:016x}", wanted.name,
                       made->index->samples(), wanted.version));
  answer_opened(wanted.id, {});
}

void AgentDatasets::answer_opened(DatasetId dataset, const std::string& problem) {
  if (!problem.empty()) log_.say({problem, LogLevel::error, "dataset"});
  link_.write(encode_opened(dataset, problem));
}

void AgentDatasets::add(const PipelineMessage& wanted) {
  while (datasets_.pipelines().size() <= wanted.id.value) datasets_.add_unknown_pipeline();
  if (wanted.text.empty()) return;
  if (!datasets_.knows(wanted.dataset)) {
    early_.push_back(wanted);
    return;
  }
  ServedPipeline& pipeline = datasets_.pipeline(wanted.id);
  std::string problem;
  try {
    config::read_config(
        input::parse_yaml(wanted.text, wanted.name), [&](config::ConfigSection& section) {
          pipeline.pipeline = prepare::compile_pipeline(
              section, *datasets_.dataset(wanted.dataset).index, config_.scratch_limits());
        });
    if (pipeline.pipeline->info().hash != wanted.hash)
      problem = fmt::format("it has the hash {:016x} here, and {:016x} at the coordinator",
                            pipeline.pipeline->info().hash, wanted.hash);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) {
    pipeline.pipeline = nullptr;
    log_.say({fmt::format("pipeline '{}': {}", wanted.name, problem), LogLevel::error, "pipeline"});
    return;
  }
  pipeline.name = wanted.name;
  pipeline.dataset = wanted.dataset;
  pipeline.spec = pipeline.pipeline->spec();
  pipeline.hash = wanted.hash;
}

}  // namespace batchflow::service
