#include "programs/input/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/order/lane_sizes.h"
#include "programs/config/engine_settings.h"
#include "programs/input/find_config.h"
#include "programs/input/workload_model.h"
#include "programs/input/yaml.h"

namespace batchflow::input {

namespace {

constexpr std::uint64_t kItemsMost = 0xffff'fffe;  // items have 32-bit ids

GrainModel read_grain(config::ConfigSection& section) {
  GrainModel grain;
  section.section("grain", [&](config::ConfigSection& entry) {
    grain.samples_per_item =
        static_cast<std::uint32_t>(entry.integer("samples_per_item", 1, 1, 1 << 24));
    grain.items_per_block = static_cast<std::uint32_t>(
        entry.integer("items_per_block", 0, 0, order::kBlockSamplesMost));
    if ((grain.items_per_block & (grain.items_per_block - 1)) != 0) {
      entry.refuse("items_per_block",
                   fmt::format("{} is not a power of two", grain.items_per_block),
                   "write a power of two, or 0 for blocks that fit engine.block_bytes");
    }
    grain.epochs_per_block =
        static_cast<std::uint32_t>(entry.integer("epochs_per_block", 1, 1, 1'000'000));
  });
  return grain;
}

JitterModel read_jitter(config::ConfigSection& section) {
  JitterModel jitter = kUsualJitter;
  section.section("jitter", [&](config::ConfigSection& entry) {
    jitter.arrival = entry.duration("arrival", jitter.arrival);
    jitter.step = entry.number("step", jitter.step, 0, 1);
  });
  return jitter;
}

void check_grain(config::ConfigSection& section, const Scenario& scenario) {
  for (const DatasetModel& dataset : scenario.datasets) {
    if (dataset.samples % scenario.grain.samples_per_item != 0) {
      section.refuse("grain",
                     fmt::format("{} samples of dataset '{}' are not a whole number of items of {}",
                                 dataset.samples, dataset.name, scenario.grain.samples_per_item),
                     "write samples_per_item and samples that divide");
    }
    if (dataset.live &&
        (scenario.samples_per_item(dataset) > 1 || scenario.grain.epochs_per_block > 1))
      section.refuse("grain", fmt::format("dataset '{}' grows record by record", dataset.name),
                     "write samples_per_item: 1 and epochs_per_block: 1");
    if (scenario.items(dataset) > kItemsMost) {
      section.refuse("grain", fmt::format("dataset '{}' has too many items", dataset.name),
                     "write a greater samples_per_item");
    }
  }
}

void check_epochs_per_block(config::ConfigSection& section, const Scenario& scenario) {
  const std::uint32_t many = scenario.grain.epochs_per_block;
  if (many == 1) return;
  for (const JobModel& job : scenario.jobs) {
    const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
    const PipelineModel& pipeline = scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
    const Bytes item = pipeline.info(dataset.bytes, scenario.grain.samples_per_item).prepared_bytes;
    if (scenario.items(dataset) > order::block_samples_for(item, scenario.engine.block_bytes)) {
      section.refuse(
          "grain",
          fmt::format("epochs_per_block is for datasets no larger than a block, and '{}' "
                      "is larger",
                      dataset.name),
          "write a greater samples_per_item or items_per_block, or leave it out");
    }
    if (job.rehearsed > 0) {
      section.refuse(
          "grain",
          fmt::format("epochs_per_block is for jobs without rehearsal, and '{}' has it", job.name),
          "leave it out");
    }
    if (job.epochs % many != 0 || job.order == Order::weighted) {
      section.refuse(
          "grain",
          fmt::format("job '{}' has {} epochs{}, and blocks stand for {} each", job.name,
                      job.epochs, job.order == Order::weighted ? " drawn by weight" : "", many),
          "write epochs_per_block that divides the epochs of all jobs");
    }
  }
}

// One figure fits the blocks of all streams, so all must have samples of one prepared size.
void fit_blocks(config::ConfigSection& section, Scenario& scenario) {
  if (scenario.grain.items_per_block == 0) return;
  Bytes item = 0;
  for (const JobModel& job : scenario.jobs) {
    const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
    const PipelineModel& pipeline = scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
    const Bytes mine = pipeline.info(dataset.bytes, scenario.grain.samples_per_item).prepared_bytes;
    if (item != 0 && mine != item) {
      section.refuse("grain", "items_per_block fits samples of one prepared size only",
                     "leave it out, and write engine.block_bytes");
    }
    item = mine;
  }
  scenario.engine.block_bytes = item * scenario.grain.items_per_block;
}

// Blocks of so many items, or of so many epochs, are not cut smaller for a small dataset.
void keep_blocks_whole(Scenario& scenario) {
  if (scenario.grain.items_per_block > 0 || scenario.grain.epochs_per_block > 1)
    scenario.engine.blocks_least = 1;
}

}  // namespace

std::uint32_t Scenario::samples_per_item(const DatasetModel& dataset) const {
  return dataset.samples_per_item > 0 ? dataset.samples_per_item : grain.samples_per_item;
}

std::uint64_t Scenario::items(const DatasetModel& dataset) const {
  return dataset.samples / samples_per_item(dataset);
}

std::uint32_t Scenario::in_items(const JobModel& job, std::uint32_t samples) const {
  return samples / samples_per_item(datasets[static_cast<std::size_t>(job.dataset)]);
}

Bytes Scenario::item_bytes(const DatasetModel& dataset) const {
  return dataset.bytes * samples_per_item(dataset);
}

config::ConfigNode load_scenario(const std::string& name_or_path) {
  const std::string path = find_config(name_or_path, "scenarios");
  config::ConfigNode tree = read_yaml_file(path);
  resolve_names(tree, path);
  return tree;
}

void resolve_names(config::ConfigNode& tree, const std::string& path) {
  // The file that `key` names, or an empty node when it names none.
  const auto named = [&](std::string_view key, const char* folder) -> config::ConfigNode {
    const config::ConfigNode* node = tree.find(key);
    if (node == nullptr || node->kind != config::ConfigNode::Kind::scalar) return {};
    try {
      return read_yaml_file(find_config(node->scalar, folder, path));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: key '{}': {}", node->source.text(), key, error.what()));
    }
  };
  if (config::ConfigNode cluster = named("cluster", "clusters");
      cluster.kind != config::ConfigNode::Kind::empty) {
    *tree.find("cluster") = std::move(cluster);
  }
  const config::ConfigNode workload = named("workload", "workloads");
  if (workload.kind == config::ConfigNode::Kind::empty) return;
  const config::SourceLine source_line = tree.find("workload")->source;
  std::erase_if(tree.map, [](const config::ConfigEntry& entry) { return entry.key == "workload"; });
  for (const char* key : {"datasets", "pipelines", "jobs", "grain"}) {
    const config::ConfigNode* value = workload.find(key);
    if (value == nullptr) continue;
    if (tree.find(key) != nullptr && std::string_view(key) != "grain") {
      throw ConfigError(fmt::format(
          "{}: key 'workload': it brings {}, and the scenario has its own; leave one of them out",
          source_line.text(), key));
    }
    if (tree.find(key) == nullptr) tree.set(key, *value);
  }
}

namespace {

void read_name_and_seed(config::ConfigSection& section, Scenario& scenario) {
  scenario.name = section.text("name", "");
  section.text("about", "");
  scenario.seed = section.seed("seed", scenario.seed);
  scenario.ends_after = section.duration("ends_after", scenario.ends_after);
  scenario.warm_up = section.duration("warm_up", scenario.warm_up);
  if (scenario.ends_after.count() > 0 && scenario.warm_up >= scenario.ends_after)
    section.refuse("warm_up", "the run ends before that", "write less than ends_after");
  scenario.scheduler = section.choice("scheduler", {std::begin(kSchedulers), std::end(kSchedulers)},
                                      scenario.scheduler);
  scenario.after_loss = section.choice("after_loss", {std::begin(kAfterLoss), std::end(kAfterLoss)},
                                       scenario.after_loss);
  section.require("cluster", "the name of a cluster, or its nodes and store");
  section.section(
      "cluster", [&](config::ConfigSection& cluster) { scenario.cluster = read_cluster(cluster); });
}

void read_engine(config::ConfigSection& section, Scenario& scenario) {
  scenario.engine.seed = scenario.seed;
  section.section("engine", [&](config::ConfigSection& engine) {
    const bool counts = scenario.engine.count_staging;
    scenario.engine = config::read_engine_config(engine);
    if (!engine.has("count_staging")) scenario.engine.count_staging = counts;
    if (!engine.has("seed")) scenario.engine.seed = scenario.seed;
  });
  // A job that has to leave its GPUs comes back, after any time.
  if (scenario.scheduler == Scheduler::las || scenario.after_loss == AfterLoss::moves)
    scenario.engine.rank_timeout = engine::kDurationMost;
}

}  // namespace

Scenario read_scenario(const config::ConfigNode& tree) {
  Scenario scenario;
  config::read_config(tree, [&](config::ConfigSection& section) {
    const std::string kind = section.text("kind", "scenario");
    if (kind != "scenario") {
      section.refuse("kind", fmt::format("this is a {}", kind), "name a file of kind: scenario");
    }
    scenario.grain = read_grain(section);
    read_name_and_seed(section, scenario);
    scenario.datasets = read_datasets(section);
    scenario.pipelines = read_pipelines(section);
    check_grain(section, scenario);
    scenario.jitter = read_jitter(section);
    scenario.jobs = read_jobs(section, scenario);
    read_engine(section, scenario);
    fit_blocks(section, scenario);
    keep_blocks_whole(scenario);
    check_epochs_per_block(section, scenario);
    section.sections("faults", [&](config::ConfigSection& fault) {
      scenario.faults.push_back(read_fault(fault, scenario));
    });
  });
  return scenario;
}

Scenario read_cluster_and_engine(const config::ConfigNode& tree) {
  Scenario scenario;
  config::read_config(tree, [&](config::ConfigSection& section) {
    read_name_and_seed(section, scenario);
    read_engine(section, scenario);
  });
  return scenario;
}

}  // namespace batchflow::input
