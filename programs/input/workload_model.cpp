#include "programs/input/workload_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "core/base/names.h"
#include "core/base/random.h"
#include "core/base/real_functions.h"
#include "core/engine/event.h"
#include "core/order/mixing.h"
#include "core/order/permutation.h"
#include "core/order/rehearsal.h"
#include "programs/input/scenario.h"

namespace batchflow::input {

namespace {

constexpr Bytes kBytesMost = Bytes{1} << 60;  // of a dataset: sums of sizes fit 64 bits

// Names become digests: another name, or other steps, is other data.
Digest digest_of(std::string_view text, Digest before = 0) {
  Digest digest = hash(before, text.size());
  for (const char c : text) digest = hash(digest, static_cast<unsigned char>(c));
  return digest;
}

Digest digest_of(const StepModel& step, Digest before) {
  return hash(digest_of(step.name, before), step.random, step.cost.count(), step.output.bytes,
              step.output.ratio.parts);
}

template <class Model>
void refuse_twice(config::ConfigSection& section, const std::vector<Model>& models,
                  const std::string& name) {
  for (const Model& model : models) {
    if (model.name == name) section.refuse("name", "two have it", "rename one");
  }
}

std::string read_name(config::ConfigSection& section) {
  section.require("name", "the name that jobs use");
  return section.text("name", "");
}

StepModel read_step(config::ConfigSection& section) {
  StepModel step;
  section.require("name", "the name of the step in reports");
  step.name = section.text("name", "");
  step.random = section.flag("random", step.random);
  step.kept = section.flag("kept", step.kept);
  step.cost = section.duration("cost", step.cost);
  step.ns_per_byte = section.number("ns_per_byte", 0);
  step.output = section.size("output", step.output);
  return step;
}

}  // namespace

bool PipelineModel::decodes() const {
  return std::any_of(steps.begin(), steps.end(), [](const StepModel& step) {
    return step.name.find("decode") != std::string::npos;
  });
}

std::vector<AppliedStep> PipelineModel::applied(Bytes stored_bytes) const {
  std::vector<AppliedStep> all;
  Bytes bytes = stored_bytes;
  bool before_random = true;
  for (const StepModel& step : steps) {
    before_random = before_random && !step.random && step.kept;
    const auto by_size = Duration(std::llround(step.ns_per_byte * static_cast<double>(bytes)));
    bytes = std::max<Bytes>(1, step.output.bytes_of(bytes));
    all.push_back({&step, step.cost + by_size, bytes, before_random});
  }
  return all;
}

engine::PipelineInfo PipelineModel::info(Bytes stored_bytes, std::uint32_t samples) const {
  engine::PipelineInfo info;
  info.hash = hash(digest_of(name), stored_bytes, samples);
  info.prepared_bytes = stored_bytes * samples;
  Digest prefix = 0;
  for (const AppliedStep& step : applied(stored_bytes)) {
    info.hash = digest_of(*step.step, info.hash);
    info.has_random = info.has_random || step.step->random;
    info.prepared_bytes = step.output * samples;
    (step.before_random ? info.decode_cost : info.augment_cost) += step.cost * samples;
    if (!step.before_random) continue;
    prefix = digest_of(*step.step, prefix);
    info.decoded_bytes = step.output * samples;
  }
  info.prefix_hash = hash(prefix, stored_bytes, samples);
  return info;
}

Duration JobModel::work() const {
  const auto steps_most = static_cast<std::int64_t>(std::min<std::uint64_t>(steps, INT32_MAX));
  return step.count() <= INT64_MAX / std::max<std::int64_t>(1, steps_most) ? step * steps_most
                                                                           : Duration::max();
}

DatasetModel read_dataset(config::ConfigSection& entry) {
  DatasetModel dataset;
  entry.require("samples", "how many there are");
  dataset.samples = static_cast<std::uint64_t>(entry.integer("samples", 1, 1, 1'000'000'000'000));
  dataset.compute_only = entry.flag("compute_only", dataset.compute_only);
  if (!dataset.compute_only) {
    entry.require("bytes", "the mean bytes of a stored sample, as 115kb; or compute_only: true");
  } else if (entry.has("bytes")) {
    entry.refuse("bytes", "a dataset that is compute_only stores nothing", "leave it out");
  }
  dataset.bytes = entry.bytes("bytes", 1, 1);
  if (dataset.bytes > kBytesMost / dataset.samples) {
    entry.refuse("bytes", "all samples together are more than 2^60 bytes", "write less");
  }
  dataset.read_bytes = entry.bytes("read_bytes", dataset.bytes, 1);
  dataset.opens = entry.duration("opens", dataset.opens);
  dataset.bytes_spread = read_spread(entry, "bytes");
  dataset.format = entry.choice("format", {"raw", "jpeg"}, dataset.format);
  dataset.bundle = entry.bytes("bundle", dataset.bundle, 0);
  if (dataset.bundle > 0 && (dataset.compute_only || dataset.bytes > dataset.bundle / 4)) {
    entry.refuse("bundle",
                 fmt::format("a bundle of {} bytes has fewer than four samples of {}",
                             dataset.bundle, dataset.bytes),
                 "write more, or leave it out: only small samples are read in bundles");
  }
  entry.section("live", [&](config::ConfigSection& live) { dataset.live = read_live_model(live); });
  if (dataset.live && (dataset.compute_only || dataset.bundle > 0))
    entry.refuse("live", "records are read from a log, one by one",
                 "leave out compute_only and bundle");
  return dataset;
}

std::vector<DatasetModel> read_datasets(config::ConfigSection& section) {
  std::vector<DatasetModel> datasets;
  section.require("datasets", "a list of datasets");
  section.sections("datasets", [&](config::ConfigSection& entry) {
    const std::string name = read_name(entry);
    refuse_twice(entry, datasets, name);
    datasets.push_back(read_dataset(entry));
    datasets.back().name = name;
  });
  return datasets;
}

std::vector<StepModel> read_steps(config::ConfigSection& section) {
  std::vector<StepModel> steps;
  section.sections("steps", [&](config::ConfigSection& step) { steps.push_back(read_step(step)); });
  return steps;
}

std::vector<PipelineModel> read_pipelines(config::ConfigSection& section) {
  std::vector<PipelineModel> pipelines;
  section.require("pipelines", "a list of pipelines");
  section.sections("pipelines", [&](config::ConfigSection& entry) {
    PipelineModel pipeline;
    pipeline.name = read_name(entry);
    refuse_twice(entry, pipelines, pipeline.name);
    pipeline.steps = read_steps(entry);
    pipeline.spread = read_spread(entry, "cost");
    entry.section("slow", [&](config::ConfigSection& slow) {
      pipeline.slow.fraction = slow.number("fraction", 0, 0, 1);
      pipeline.slow.times = slow.number("times", 1, 1, 1e6);
    });
    pipelines.push_back(std::move(pipeline));
  });
  return pipelines;
}

namespace {

constexpr std::int64_t kJobsMost = 1'000'000;

// The index of the model that `key` names.
template <class Model>
int find_named(config::ConfigSection& section, std::string_view key,
               const std::vector<Model>& models) {
  section.require(key, fmt::format("the name of a {}", key));
  const std::string name = section.text(key, "");
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == name) return static_cast<int>(i);
    names.push_back(models[i].name);
  }
  const std::string nearest = nearest_name(name, names);
  section.refuse(key, fmt::format("there is no {} '{}'", key, name),
                 nearest.empty() ? fmt::format("name one under {}s", key)
                                 : fmt::format("write '{}'", nearest));
}

void read_data(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  job.dataset = find_named(entry, "dataset", scenario.datasets);
  job.pipeline = find_named(entry, "pipeline", scenario.pipelines);
  const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
  const PipelineModel& pipeline = scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
  if (dataset.format == DatasetModel::Format::jpeg && !pipeline.decodes()) {
    entry.refuse("pipeline",
                 fmt::format("dataset '{}' is JPEG and pipeline '{}' has no decode step",
                             dataset.name, pipeline.name),
                 "add a step with `decode` in its name, or write format: raw for the dataset");
  }
}

MixtureModel read_mixture(config::ConfigSection& entry, std::uint64_t items) {
  MixtureModel mixture;
  const auto most =
      static_cast<std::int64_t>(std::min<std::uint64_t>(items, order::Mixing::kSourcesMost));
  mixture.sources = static_cast<std::uint32_t>(entry.integer("sources", 0, 0, most));
  mixture.skew = entry.number("skew", 0, 0, 16);
  mixture.draws = static_cast<std::uint64_t>(
      entry.integer("draws", 0, 0, static_cast<std::int64_t>(order::kSamplesMost)));
  mixture.change_every = static_cast<std::uint64_t>(entry.integer("change_every", 0, 0));
  entry.sections("schedule", [&](config::ConfigSection& scheduled) {
    const auto at = static_cast<std::uint64_t>(
        scheduled.integer("at", 0, 0, static_cast<std::int64_t>(order::Mixing::kDrawsMost)));
    if (!mixture.schedule.empty() && at < mixture.schedule.back().at)
      scheduled.refuse("at", "it comes before the one above", "write them in their order");
    mixture.schedule.push_back({at, scheduled.number("skew", 0, 0, 16)});
  });
  const std::size_t changes = std::min<std::size_t>(
      order::Mixing::kChangesMost,
      order::Mixing::kChangedPartsMost / std::max<std::size_t>(1, mixture.sources));
  if (mixture.schedule.size() > changes)
    entry.refuse("schedule", fmt::format("it has {} entries", mixture.schedule.size()),
                 fmt::format("write {} at most", changes));
  mixture.policy = entry.text("policy", "");
  if (!mixture.policy.empty() && (mixture.change_every > 0 || !mixture.schedule.empty()))
    entry.refuse("policy", "its weights change already, by change_every or a schedule",
                 "leave one of them out");
  entry.section("losses", [&](config::ConfigSection& losses) {
    mixture.losses.from = losses.number("from", mixture.losses.from, 0, 1e6);
    mixture.losses.to = losses.number("to", mixture.losses.to, 0, 1e6);
    mixture.losses.half_after = losses.number("half_after", mixture.losses.half_after, 1, 1e15);
    mixture.losses.spread = losses.number("spread", mixture.losses.spread, 0, 16);
  });
  return mixture;
}

// Samples under the key: a whole number of items.
std::uint32_t read_count(config::ConfigSection& entry, const Scenario& scenario, const char* key,
                         std::int64_t most, std::int64_t least = 1) {
  const std::uint32_t grain = scenario.grain.samples_per_item;
  const auto count = static_cast<std::uint32_t>(entry.integer(key, least, least, most));
  if (count % grain != 0) {
    entry.refuse(key, fmt::format("{} samples are not a whole number of items", count),
                 fmt::format("write a multiple of grain.samples_per_item, which is {}", grain));
  }
  return count;
}

// What is rehearsed of each batch, under the key.
void refuse_whole_batches(config::ConfigSection& entry, const char* key, const JobModel& job) {
  if (job.rehearsed < job.batch) return;
  entry.refuse(
      key, fmt::format("{} of a batch of {} leave no room for new ones", job.rehearsed, job.batch),
      "write less than batch");
}

// A source that grows has records in the order in which they come.
void read_live_order(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  job.order = Order::live;
  for (const char* key : {"order", "mixture", "shuffle_seed", "node_local", "runs", "rehearsal",
                          "importance", "checkpoint", "validation", "epochs"}) {
    if (entry.has(key))
      entry.refuse(key,
                   "it is for datasets that do not grow; a live one has records in the order "
                   "in which they come, and fills steps as `live` says",
                   "leave it out");
  }
  entry.section("live", [&](config::ConfigSection& live) {
    job.live = read_live_reading(live);
    job.rehearsed = read_count(live, scenario, "rehearsed", 1 << 24, 0);
    if (job.rehearsed > 0 && (job.live.fills_from == 0 || job.live.fills_cut)) {
      live.refuse("rehearsed", "only full batches have records that the job has had",
                  "write fill: rehearse, or leave it out");
    }
    refuse_whole_batches(live, "rehearsed", job);
    job.exemplars = read_count(live, scenario, "exemplars", order::kExemplarsMost, 0);
    if (job.exemplars == 0) return;
    if (job.rehearsed == 0)
      live.refuse("exemplars", "nothing is rehearsed", "write rehearsed: how many of each batch");
    if (live.has("window"))
      live.refuse("exemplars", "batches are filled from the window",
                  "leave window out, or exemplars");
    job.live.fills_from = 0;
  });
}

// The samples of a list come as they are stored, and it has no blocks.
void refuse_work(config::ConfigSection& entry, const Scenario& scenario, const JobModel& job) {
  const PipelineModel& pipeline = scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
  if (!pipeline.steps.empty())
    entry.refuse(
        "order",
        fmt::format("samples of a list come as they are stored, and pipeline '{}' has steps",
                    pipeline.name),
        "name a pipeline with steps: [], and write what the job does with each sample as "
        "loader: {ns_per_sample: 1000000}");
  if (scenario.grain.epochs_per_block > 1)
    entry.refuse("order", "a list has no blocks, and here blocks stand for epochs",
                 "write grain.epochs_per_block: 1, or another order");
}

void read_order(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
  if (dataset.live) return read_live_order(entry, scenario, job);
  if (entry.has("live"))
    entry.refuse("live", fmt::format("dataset '{}' does not grow", dataset.name),
                 "write live: {per_s: 1000} for the dataset, or leave it out");
  // Not feeds. A mixture is an order that its own section asks for.
  static_assert(static_cast<std::size_t>(Order::listed) + 3 == std::size(kOrderNames));
  const std::vector<std::string_view> others(std::begin(kOrderNames), std::end(kOrderNames) - 2);
  const bool is_named = entry.has("order");
  job.order = entry.choice("order", others, job.order);
  entry.section("mixture", [&](config::ConfigSection& mixture) {
    job.mixture = read_mixture(mixture, scenario.items(dataset));
    if (job.mixture.sources == 0) return;
    if (is_named) mixture.refuse("sources", "a mixture is an order", "leave `order` out");
    job.order = Order::mixed;
  });
  if (job.order == Order::listed) refuse_work(entry, scenario, job);
  job.has_shuffle_seed = entry.has("shuffle_seed");
  job.shuffle_seed = entry.seed("shuffle_seed", 0);
  job.node_local = entry.flag("node_local", job.node_local);
  if (job.node_local && job.order != Order::relaxed) {
    entry.refuse("node_local", "only a relaxed order has a sequence for each node",
                 "write order: relaxed, or leave it out");
  }
  job.runs = entry.flag("runs", job.runs);
  if (job.runs && job.order != Order::relaxed) {
    entry.refuse("runs", "only a relaxed order shuffles runs",
                 "write order: relaxed, or leave it out");
  }
  if (job.runs && dataset.bundle == 0) {
    entry.refuse("runs", fmt::format("dataset '{}' has no bundles", dataset.name),
                 "write bundle: 64kb for the dataset, or leave it out");
  }
}

// The template and the docs write `rehearsal: {}` for none.
void read_rehearsal(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  entry.section("rehearsal", [&](config::ConfigSection& rehearsal) {
    if (!rehearsal.has("samples") && !rehearsal.has("exemplars")) return;
    rehearsal.require("samples", "how many of each batch are rehearsed");
    rehearsal.require("exemplars", "how many samples of the dataset they are drawn from");
    if (!order::may_rehearse(job.order)) {
      rehearsal.refuse("samples",
                       job.order == Order::listed ? "a list names all of its samples"
                                                  : "a weighted order has draws already",
                       "leave rehearsal out, or write another order");
    }
    job.rehearsal_policy = rehearsal.text("policy", "");
    if (job.order == Order::mixed && job.rehearsal_policy.empty()) {
      rehearsal.refuse("samples", "of a mixture, the engine fills the buffer",
                       "write the policy that does, as policy: reservoir");
    }
    job.rehearsed = read_count(rehearsal, scenario, "samples", 1 << 24);
    refuse_whole_batches(rehearsal, "samples", job);
    const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
    job.exemplars = read_count(rehearsal, scenario, "exemplars", 1U << 31);
    if (job.exemplars > dataset.samples) {
      rehearsal.refuse("exemplars",
                       fmt::format("dataset '{}' has {} samples", dataset.name, dataset.samples),
                       "write no more");
    }
    if (scenario.in_items(job, job.exemplars) > order::kExemplarsMost) {
      rehearsal.refuse("exemplars",
                       fmt::format("a buffer has at most {} items", order::kExemplarsMost),
                       "write fewer, or a greater grain.samples_per_item");
    }
  });
}

void read_scores(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
  entry.section("importance", [&](config::ConfigSection& importance) {
    job.importance =
        read_importance(importance, dataset.samples, scenario.samples_per_item(dataset));
  });
  if (job.importance.reports() && job.order != Order::weighted) {
    entry.refuse("importance", "scores count in a weighted order alone",
                 "write order: weighted, or leave importance out");
  }
}

void read_batch(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  job.batch = read_count(entry, scenario, "batch", 1 << 24);
  job.drop_last = entry.flag("drop_last", job.drop_last);
  job.epochs = static_cast<std::uint32_t>(entry.integer("epochs", job.epochs, 1, 1'000'000));
  job.steps = static_cast<std::uint64_t>(entry.integer("steps", 0, 0, INT32_MAX));
  job.credits = static_cast<std::uint32_t>(entry.integer("credits", 0, 0, 1024));
  job.weight = entry.number("weight", job.weight);
  job.latency_target = entry.duration("latency_target", job.latency_target);
}

void read_ranks(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  const ClusterModel& cluster = scenario.cluster;
  job.ranks = static_cast<std::uint32_t>(entry.integer("ranks", job.ranks, 1, 1'000'000));
  std::uint32_t gpus = 0;
  for (const std::string& name : entry.texts("nodes")) {
    const int node = cluster.node(name);
    if (node < 0) {
      std::vector<std::string_view> names;
      for (const NodeModel& model : cluster.nodes) names.push_back(model.name);
      const std::string nearest = nearest_name(name, names);
      entry.refuse("nodes", fmt::format("the cluster has no node '{}'", name),
                   nearest.empty() ? "write the name of one of its nodes"
                                   : fmt::format("write '{}'", nearest));
    }
    if (std::find(job.nodes.begin(), job.nodes.end(), node) != job.nodes.end()) {
      entry.refuse("nodes", fmt::format("'{}' is there twice", name), "leave one out");
    }
    job.nodes.push_back(node);
    gpus += cluster.nodes[static_cast<std::size_t>(node)].gpus;
  }
  if (job.nodes.empty()) gpus = cluster.gpus();
  if (job.ranks > gpus) {
    entry.refuse("ranks", fmt::format("{} ranks, and there are {} GPUs for them", job.ranks, gpus),
                 "write fewer ranks, or more GPUs into the cluster");
  }
  const std::uint64_t step = std::uint64_t{job.batch - job.rehearsed} * job.ranks;
  const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
  if (job.drop_last && step > dataset.samples) {
    entry.refuse(
        "drop_last",
        fmt::format("an epoch of {} samples has no whole step of {}", dataset.samples, step),
        "write a smaller batch or fewer ranks, or leave it out");
  }
}

void read_times(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  entry.require("step", "the time a GPU computes on one batch, as 104ms");
  job.step = entry.duration("step", job.step);
  job.steps_vary = entry.has("step_jitter") ? 0 : scenario.jitter.step;
  job.step_spread = read_spread(entry, "step");
  job.arrives = Instant(entry.duration("arrives", Duration(0)));
  job.arrives_spread = entry.duration("arrives_jitter", scenario.jitter.arrival);
  job.start_up = entry.duration("start_up", job.start_up);
  job.leaves_after = entry.duration("leaves_after", job.leaves_after);
}

// What a job does beside waiting for batches and computing on them.
void read_more_traffic(config::ConfigSection& entry, JobModel& job) {
  entry.section("loader", [&](config::ConfigSection& loader) {
    job.loader_step = loader.duration("step", job.loader_step);
    job.loader_sample_ns = loader.number("ns_per_sample", 0, 0, 1e12);
  });
  job.gpu_bytes = entry.bytes("gpu_bytes", job.gpu_bytes, 0);
  entry.section("exchange", [&](config::ConfigSection& exchange) {
    job.exchange.bytes = exchange.bytes("bytes", 0, 0);
    job.exchange.after =
        value_of(exchange.ratio("after", Ratio{static_cast<std::uint64_t>(Ratio::kWhole / 2)}));
  });
  entry.section("checkpoint", [&](config::ConfigSection& checkpoint) {
    job.checkpoint.every = static_cast<std::uint64_t>(checkpoint.integer("every", 0));
    job.checkpoint.bytes = checkpoint.bytes("bytes", 0, 0);
    job.checkpoint.waits = checkpoint.flag("waits", job.checkpoint.waits);
    if (job.checkpoint.every == 0 && job.checkpoint.bytes > 0)
      checkpoint.refuse("bytes", "it is never written", "write every: STEPS");
  });
}

// The validation of a job is a job that has the same GPUs.
void read_validation(config::ConfigSection& entry, const Scenario& scenario, JobModel& job) {
  entry.section("validation", [&](config::ConfigSection& section) {
    if (!section.has("dataset")) return;
    JobModel& own = job.validation.emplace_back();
    own.name = job.name;
    own.user = job.user;
    read_data(section, scenario, own);
    own.order = Order::sequential;
    own.batch = read_count(section, scenario, "batch", 1 << 24);
    section.require("step", "the time a GPU takes for one batch of it, as 30ms");
    own.step = section.duration("step", own.step);
    own.ranks = job.ranks;
    own.nodes = job.nodes;
    own.credits = job.credits;
    own.weight = job.weight;
    own.validates_every = static_cast<std::uint32_t>(
        section.integer("every", 1, 1, std::max<std::int64_t>(1, job.epochs)));
    own.epochs = job.epochs / own.validates_every;
    if (scenario.scheduler == Scheduler::las)
      section.refuse("dataset", "las takes GPUs away from jobs, and these have two on them",
                     "write scheduler: fifo, or leave validation out");
    if (scenario.after_loss == AfterLoss::moves)
      section.refuse("dataset", "a job that moves leaves its GPUs, and these have two on them",
                     "write after_loss: waits, or leave validation out");
    if (scenario.grain.epochs_per_block > 1)
      section.refuse("dataset", "blocks that stand for epochs have no time between them",
                     "write grain.epochs_per_block: 1, or leave validation out");
  });
}

// Behind all jobs, so that these keep their numbers.
void add_validations(std::vector<JobModel>& jobs) {
  const std::size_t count = jobs.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (JobModel own : std::exchange(jobs[i].validation, {})) {
      own.name = jobs[i].name + "-validation";
      own.arrives = jobs[i].arrives;
      own.validates_for = static_cast<int>(i);
      jobs.push_back(std::move(own));
    }
  }
}

// Copies of one job, one after another.
void add_copies(config::ConfigSection& entry, const Scenario& scenario, JobModel job,
                std::vector<JobModel>& jobs, std::unordered_set<std::string>& names) {
  const auto count = entry.integer("count", 1, 1, kJobsMost);
  const Duration every = entry.duration("every", Duration(0));
  const bool by_chance = entry.one_of("every_shape", {"constant", "exponential"}, 0) == 1;
  if (static_cast<std::int64_t>(jobs.size()) + count > kJobsMost) {
    entry.refuse("count", "more than a million jobs", "write fewer");
  }
  Random random(hash(scenario.seed, 1, jobs.size()));
  const std::string name = job.name;
  for (std::int64_t i = 0; i < count; ++i) {
    if (name.empty()) {
      job.name = fmt::format("job-{}", jobs.size());
    } else if (count > 1) {
      job.name = fmt::format("{}-{}", name, i);
    }
    if (!names.insert(job.name).second) {
      entry.refuse("name", fmt::format("two jobs are called '{}'", job.name), "rename one");
    }
    jobs.push_back(job);
    const double factor = by_chance ? -std::log(uniform(random)) : 1;
    job.arrives += Duration(std::llround(static_cast<double>(every.count()) * factor));
  }
}

}  // namespace

std::vector<JobModel> read_jobs(config::ConfigSection& section, const Scenario& scenario) {
  std::vector<JobModel> jobs;
  std::unordered_set<std::string> names;  // looked up alone
  section.require("jobs", "a list of jobs");
  section.sections("jobs", [&](config::ConfigSection& entry) {
    JobModel job;
    job.name = entry.text("name", "");
    job.user = entry.text("user", "user");
    read_data(entry, scenario, job);
    read_batch(entry, scenario, job);
    read_order(entry, scenario, job);
    read_rehearsal(entry, scenario, job);
    read_scores(entry, scenario, job);
    read_ranks(entry, scenario, job);
    read_times(entry, scenario, job);
    read_more_traffic(entry, job);
    read_validation(entry, scenario, job);
    add_copies(entry, scenario, std::move(job), jobs, names);
  });
  if (jobs.empty()) section.refuse("jobs", "there are none", "name at least one");
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const JobModel& a, const JobModel& b) { return a.arrives < b.arrives; });
  add_validations(jobs);
  return jobs;
}

double MixtureModel::loss(std::uint32_t source, double samples) const {
  const double halves =
      samples / (losses.half_after * std::pow(static_cast<double>(source) + 1, losses.spread));
  return losses.to + (losses.from - losses.to) * exp_of(-log_of(2) * halves);
}

std::vector<double> MixtureModel::weights(std::uint64_t changes, double by) const {
  std::vector<double> made;
  for (std::uint64_t i = 0; i < sources; ++i)
    made.push_back(std::pow(static_cast<double>((i + changes) % sources + 1), -by));
  return made;
}

}  // namespace batchflow::input
