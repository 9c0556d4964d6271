// Scenarios: what they say, what is refused and where, and results of a run written and read.
#include "programs/input/scenario.h"
#include "programs/input/find_config.h"

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "programs/input/workload_summary.h"
#include "programs/input/yaml.h"
#include "tests/config_error.h"
#include "tests/source_dir.h"

namespace batchflow::test::scenario_test {

namespace {

input::Scenario read(const std::string& yaml) {
  return input::read_scenario(input::parse_yaml(yaml, "s.yaml"));
}

// The message for a scenario that cannot be.
std::string refusal(const std::string& yaml) {
  return config_error([&] { read(yaml); }, "nothing");
}

const std::string kCluster = "cluster: {nodes: [{name: n, count: 2, gpus: 4, memory: 1gb}]}\n";
const std::string kData = "datasets: [{name: images, samples: 1000, bytes: 100kb, format: jpeg}]\n";
const std::string kPipeline =
    "pipelines: [{name: train, steps: [{name: decode, cost: 1ms, output: 600kb},\n"
    "  {name: crop, random: true, cost: 500us, output: 25%}]}]\n";
const std::string kJob = "jobs: [{dataset: images, pipeline: train, step: 10ms, batch: 100}]\n";
const std::string kWhole = kCluster + kData + kPipeline + kJob;

}  // namespace

TEST_CASE("a scenario says what runs where") {
  const input::Scenario scenario = read(kWhole + "seed: 7\ngrain: {samples_per_item: 10}\n");
  CHECK(scenario.seed == 7);
  CHECK(scenario.engine.seed == 7);
  REQUIRE(scenario.cluster.nodes.size() == 2);
  CHECK(scenario.cluster.nodes[1].name == "n-1");
  CHECK(scenario.cluster.gpus() == 8);
  CHECK(scenario.items(scenario.datasets[0]) == 100);
  CHECK(scenario.item_bytes(scenario.datasets[0]) == 1'000'000);
  CHECK(scenario.item_batch(scenario.jobs[0]) == 10);
}

TEST_CASE("a scenario without settings of the engine has those of a service") {
  engine::EngineConfig services;
  CHECK(services.credits == 3);
  CHECK(services.blocks_least == 8);
  CHECK(services.block_bytes == Bytes{8} << 20);
  CHECK(services.rank_timeout == std::chrono::seconds(5));
  CHECK(services.seed == 1);
  // The one that differs: a node's `cache` is what it keeps, and reads land beside it.
  services.count_staging = false;
  CHECK(read(kWhole).engine == services);
  CHECK(read(kWhole + "engine: {preset: default}\n").engine == services);
  services.credits = 5;
  CHECK(read(kWhole + "engine: {credits: 5}\n").engine == services);
  // Policies draw from the scenario's seed unless they are given their own.
  CHECK(read(kWhole + "seed: 7\nengine: {seed: 4}\n").engine.seed == 4);
  CHECK(read(kWhole + "seed: 7\nengine: {credits: 5}\n").engine.seed == 7);
}

TEST_CASE("blocks of so many items or epochs are not cut smaller for a small dataset") {
  CHECK(read(kWhole + "grain: {items_per_block: 64}\n").engine.blocks_least == 1);
  CHECK(read(kWhole + "grain: {samples_per_item: 100}\n").engine.blocks_least == 8);
}

TEST_CASE("the summary of a workload is the same for the same scenario, and says what differs") {
  const input::WorkloadSummary usual = input::summary_of_workload(read(kWhole));
  REQUIRE(usual.size() == 3);
  CHECK(usual[0] ==
        std::pair<std::string, std::string>("dataset images", "1000 samples of 100000 bytes"));
  CHECK(usual[1].first == "pipeline train");
  CHECK(usual[1].second ==
        "decode takes 0.001 s and gives 600000 bytes, "
        "crop (random) takes 0.0005 s and gives 0.25 of its input");
  CHECK(usual[2].first == "job job-0");
  CHECK(usual[2].second.find("1 ranks on images by train, relaxed, batch 100, 1 epochs, a step "
                             "takes 0.01 s, arrives at 0 s") == 0);
  // Neither the seed nor the engine nor the cluster belongs to it.
  CHECK(input::summary_of_workload(read(kWhole + "seed: 7\nengine: {credits: 5}\n")) == usual);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = kWhole;
    text.replace(text.find(from), from.size(), to);
    const input::WorkloadSummary other = input::summary_of_workload(read(text));
    std::size_t differ = 0;
    for (std::size_t i = 0; i < usual.size(); ++i) differ += other.at(i) != usual[i];
    return differ;
  };
  CHECK(changed("samples: 1000", "samples: 2000") == 1);
  CHECK(changed("cost: 1ms", "cost: 2ms") == 1);
  CHECK(changed("batch: 100", "batch: 50") == 1);
  CHECK(changed("batch: 100", "batch: 100, weight: 2") == 1);
  CHECK(changed("batch: 100", "batch: 100, shuffle_seed: 2") == 1);
  CHECK(changed("nodes: [{name: n", "nodes: [{cores: 3, name: n") == 0);
}

TEST_CASE("many jobs are summed up by a digest, which says that one of them differs") {
  const auto last = [](const std::string& step) {
    const std::string jobs =
        "jobs:\n  - {count: 69, dataset: images, pipeline: train, step: 10ms, batch: 100}\n"
        "  - {name: last, dataset: images, pipeline: train, batch: 100, arrives: 1s, step: " +
        step + "}\n";
    const input::WorkloadSummary all =
        input::summary_of_workload(read(kCluster + kData + kPipeline + jobs));
    REQUIRE(all.size() == 2 + input::kJobsSummed + 1);
    CHECK(all.back().first == "more jobs");
    return all.back().second;
  };
  CHECK(last("10ms").find("6, digest ") == 0);
  CHECK(last("10ms") == last("10ms"));
  CHECK(last("10ms") != last("11ms"));
}

TEST_CASE("a pipeline's steps up to the first random one are its decoded form") {
  const engine::PipelineInfo info = read(kWhole).pipelines[0].info(100'000, 10);
  CHECK(info.has_random);
  CHECK(info.decoded_bytes == 6'000'000);
  CHECK(info.prepared_bytes == 1'500'000);
  CHECK(info.decode_cost == std::chrono::milliseconds(10));
  CHECK(info.augment_cost == std::chrono::milliseconds(5));
  input::PipelineModel per_byte;
  per_byte.steps = {{"resize", false, {}, 8, {true, 0, {Ratio::kWhole / 4}}},
                    {"pack", true, {}, 2, {}}};
  const engine::PipelineInfo scaled = per_byte.info(1000);
  CHECK(scaled.decode_cost == std::chrono::nanoseconds(8000));
  CHECK(scaled.decoded_bytes == 250);
  CHECK(scaled.augment_cost == std::chrono::nanoseconds(500));
}

TEST_CASE("jobs can be counted out, evenly or by chance, and come in the order of their arrival") {
  const input::Scenario scenario =
      read(kCluster + kData + kPipeline +
           "jobs:\n"
           "  - {name: late, dataset: images, pipeline: train, step: 1s, arrives: 15s}\n"
           "  - {name: even, dataset: images, pipeline: train, step: 1s, count: 3, every: 10s}\n"
           "  - {name: any, dataset: images, pipeline: train, step: 1s, count: 2000, arrives: 1h,\n"
           "     every: 10s, every_shape: exponential}\n");
  CHECK(scenario.jobs[0].name == "even-0");
  CHECK(scenario.jobs[1].name == "even-1");
  CHECK(scenario.jobs[2].name == "late");
  CHECK(scenario.jobs[3].arrives == Instant(std::chrono::seconds(20)));
  const Duration span = scenario.jobs.back().arrives - Instant(std::chrono::hours(1));
  CHECK(std::chrono::duration<double>(span).count() / 1999 == doctest::Approx(10).epsilon(0.08));
}

TEST_CASE("what cannot be right is refused with its place and what to write") {
  CHECK(refusal(kWhole) == "nothing");
  // A pipeline without a decode step for JPEGs.
  CHECK(refusal(kCluster + kData + "pipelines: [{name: train, steps: [{name: crop}]}]\n" + kJob) ==
        "s.yaml:4: key 'jobs.0.pipeline': dataset 'images' is JPEG and pipeline 'train' has no "
        "decode step; add a step with `decode` in its name, or write format: raw for the dataset");
  // Shares above capacity.
  CHECK(refusal("cluster: {nodes: [{name: n, memory: 1gb, cache: 2gb}]}\n" + kData + kPipeline +
                kJob) ==
        "s.yaml:1: key 'cluster.nodes.0.cache': more than the 1000000000 bytes of the node's "
        "memory; write less, as 80%");
  CHECK(refusal("cluster: {nodes: [{name: n, memory: 1gb, nvme: {size: 1gb, cache: 101%}}]}\n" +
                kData + kPipeline + kJob)
            .find("more than the 1000000000 bytes of the node's drive") != std::string::npos);
  // A job on a missing node.
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs: [{dataset: images, pipeline: train, step: 1s, nodes: [n-2]}]\n") ==
        "s.yaml:5: key 'jobs.0.nodes': the cluster has no node 'n-2'; write 'n-0'");
  // Negative time.
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs: [{dataset: images, pipeline: train, step: -1s}]\n")
            .find("s.yaml:5: key 'jobs.0.step': '-1s' is not a time") == 0);
  // A cycle of links.
  CHECK(refusal("cluster:\n  nodes: [{name: n, memory: 1gb}]\n"
                "  links: [{name: a, up: b}, {name: b, up: c}, {name: c, up: a}]\n" +
                kData + kPipeline + kJob) ==
        "s.yaml:3: key 'cluster.links.2.up': link 'c' leads back to itself; links form a tree: "
        "leave out `up` where all meet");
  CHECK(refusal("cluster:\n  nodes: [{name: n, memory: 1gb}]\n  links: [{name: a, up: a}]\n" +
                kData + kPipeline + kJob)
            .find("leads back to itself") != std::string::npos);
  // More ranks than GPUs.
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs: [{dataset: images, pipeline: train, step: 1s, ranks: 9}]\n") ==
        "s.yaml:5: key 'jobs.0.ranks': 9 ranks, and there are 8 GPUs for them; write fewer ranks, "
        "or more GPUs into the cluster");
  // Names used twice, whether in this file or another.
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs:\n  - {name: a, dataset: images, pipeline: train, step: 1s}\n"
                "  - {name: a, dataset: images, pipeline: train, step: 2s}\n") ==
        "s.yaml:7: key 'jobs.1.name': two jobs are called 'a'; rename one");
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs:\n  - {name: a, dataset: images, pipeline: train, step: 1s, count: 2}\n"
                "  - {name: a-1, dataset: images, pipeline: train, step: 2s}\n") ==
        "s.yaml:7: key 'jobs.1.name': two jobs are called 'a-1'; rename one");
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs:\n  - {name: job-1, dataset: images, pipeline: train, step: 1s}\n"
                "  - {dataset: images, pipeline: train, step: 2s}\n")
            .find("s.yaml:7: key 'jobs.1.name': two jobs are called 'job-1'") == 0);
  // Orders that cannot be.
  const auto job = [](const std::string& more) {
    return kCluster + kData + kPipeline +
           "jobs: [{dataset: images, pipeline: train, step: 1s, batch: 8, " + more + "}]\n";
  };
  CHECK(refusal(job("order: strict, node_local: true")) ==
        "s.yaml:5: key 'jobs.0.node_local': only a relaxed order has a sequence for each node; "
        "write order: relaxed, or leave it out");
  CHECK(refusal(job("order: weighted, rehearsal: {samples: 1, exemplars: 1}")) ==
        "s.yaml:5: key 'jobs.0.rehearsal.samples': a weighted order has draws already; leave "
        "rehearsal out, or write another order");
  CHECK(refusal(job("rehearsal: {samples: 8, exemplars: 1}")) ==
        "s.yaml:5: key 'jobs.0.rehearsal.samples': 8 of a batch of 8 leave no room for new ones; "
        "write less than batch");
  CHECK(
      refusal(job("mixture: {sources: 2}, rehearsal: {samples: 1, exemplars: 1}")) ==
      "s.yaml:5: key 'jobs.0.rehearsal.samples': of a mixture, the engine fills the buffer; write "
      "the policy that does, as policy: reservoir");
  for (const char* other : {"change_every: 100", "schedule: [{at: 5, skew: 0}]"})
    CHECK(refusal(job(fmt::format("mixture: {{sources: 2, policy: ucb, {}}}", other))) ==
          "s.yaml:5: key 'jobs.0.mixture.policy': its weights change already, by change_every or a "
          "schedule; leave one of them out");
  CHECK(refusal(job("rehearsal: {samples: 4}")).find("key 'jobs.0.rehearsal.exemplars'") !=
        std::string::npos);
  CHECK(refusal(job("rehearsal: {samples: 4, exemplars: 1001}")) ==
        "s.yaml:5: key 'jobs.0.rehearsal.exemplars': dataset 'images' has 1000 samples; "
        "write no more");
  CHECK(refusal(job("rehearsal: {samples: 4, exemplars: 0}")).find("exemplars") !=
        std::string::npos);
  CHECK(refusal(job("rehearsal: {samples: 4, exemplars: 3}") + "grain: {samples_per_item: 4}\n") ==
        "s.yaml:5: key 'jobs.0.rehearsal.exemplars': 3 samples are not a whole number of items; "
        "write a multiple of grain.samples_per_item, which is 4");
  const auto live = [](const std::string& more) {
    return kCluster + "datasets: [{name: images, samples: 1000, bytes: 1kb, live: {per_s: 10}}]\n" +
           "pipelines: [{name: train, steps: []}]\n" +
           "jobs: [{dataset: images, pipeline: train, step: 1s, batch: 8, live: {" + more + "}}]\n";
  };
  CHECK(refusal(live("rehearsed: 7")) == "nothing");
  CHECK(refusal(live("rehearsed: 0, fill: short")) == "nothing");
  CHECK(refusal(live("rehearsed: 8")) ==
        "s.yaml:4: key 'jobs.0.live.rehearsed': 8 of a batch of 8 leave no room for new ones; "
        "write less than batch");
  CHECK(refusal(live("rehearsed: 7, exemplars: 65536")) == "nothing");
  CHECK(refusal(live("rehearsed: 7, exemplars: 9, window: 9")) ==
        "s.yaml:4: key 'jobs.0.live.exemplars': batches are filled from the window; leave window "
        "out, or exemplars");
  CHECK(refusal(live("exemplars: 9")) ==
        "s.yaml:4: key 'jobs.0.live.exemplars': nothing is rehearsed; write rehearsed: how many of "
        "each batch");
  for (const char* fill : {"short", "none"})
    CHECK(refusal(live(fmt::format("rehearsed: 1, fill: {}", fill))) ==
          "s.yaml:4: key 'jobs.0.live.rehearsed': only full batches have records that the job has "
          "had; write fill: rehearse, or leave it out");
  CHECK(refusal(job("nodes: [n-0, n-1, n-0]")) ==
        "s.yaml:5: key 'jobs.0.nodes': 'n-0' is there twice; leave one out");
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs: [{dataset: images, pipeline: train, step: 1s, batch: 501, ranks: 2, "
                "drop_last: true}]\n") ==
        "s.yaml:5: key 'jobs.0.drop_last': an epoch of 1000 samples has no whole step of 1002; "
        "write a smaller batch or fewer ranks, or leave it out");
  CHECK(read(job("rehearsal: {}")).jobs[0].rehearsed == 0);
  CHECK(read(job("rehearsal: {samples: 4, exemplars: 9}")).jobs[0].exemplars == 9);
  // Names that do not exist, with the nearest.
  CHECK(refusal(kCluster + kData + kPipeline +
                "jobs: [{dataset: image, pipeline: train, step: 1s}]\n") ==
        "s.yaml:5: key 'jobs.0.dataset': there is no dataset 'image'; write 'images'");
  CHECK(refusal(kCluster +
                "datasets: [{name: images, samples: 1000, bytes: 1000pb, format: jpeg}]\n" +
                kPipeline + kJob) ==
        "s.yaml:2: key 'datasets.0.bytes': all samples together are more than 2^60 bytes; "
        "write less");
  CHECK(refusal(kWhole + "sed: 1\n").find("did you mean 'seed'?") != std::string::npos);
  CHECK(refusal(kWhole + "grain: {samples_per_item: 3}\n").find("not a whole number of items") !=
        std::string::npos);
  CHECK(refusal(kWhole + "grain: {epochs_per_block: 2}\n").find("no larger than a block") !=
        std::string::npos);
  CHECK(
      refusal(kWhole + "grain: {samples_per_item: 100, items_per_block: 16, epochs_per_block: 2}\n")
          .find("write epochs_per_block that divides the epochs of all jobs") != std::string::npos);
  CHECK(refusal(kCluster +
                "datasets: [{name: images, samples: 10, compute_only: true, bytes: 1}]\n" +
                kPipeline + kJob)
            .find("a dataset that is compute_only stores nothing; leave it out") !=
        std::string::npos);
  CHECK(refusal(kWhole + "grain: {items_per_block: 12}\n").find("not a power of two") !=
        std::string::npos);
  CHECK(
      refusal(
          "cluster: {nodes: [{name: n, memory: 1gb}],\n"
          "  store: {curve: [{readers: 2, bytes_per_s: 1mb}, {readers: 1, bytes_per_s: 2mb}]}}\n" +
          kData + kPipeline + kJob)
          .find("the points of a curve go up") != std::string::npos);
  CHECK(refusal(kData + kPipeline + kJob).find("key 'cluster'") != std::string::npos);
}

TEST_CASE("faults say what they befall, from when to when") {
  const std::string cluster =
      "cluster:\n  links: [{name: rack, bytes_per_s: 1gb}]\n"
      "  nodes: [{name: n, count: 2, gpus: 4, memory: 1gb, link: rack},\n"
      "          {name: fat, memory: 1gb, cores: 2, nvme: {size: 1gb, bytes_per_s: 1gb}}]\n"
      "  store: {latency: 1ms}\n";
  const auto with = [&](const std::string& fault) {
    return cluster + kData + kPipeline + kJob + "faults: [" + fault + "]\n";
  };
  const input::Scenario scenario = read(
      with("{kind: node-lost, target: n-1, at: 10s, until: 25s, detected_after: 2s},\n"
           "  {kind: drive-lost, target: fat}, {kind: drive-lost, target: store, timeout: 5s},\n"
           "  {kind: link-down, target: rack, at: 1s, lasts: 1s}, {kind: link-slow, target: rack, "
           "factor: 0.5},\n"
           "  {kind: corrupt-samples, target: images, count: 1000},\n"
           "  {kind: reads-failed, target: store, ratio: 1%},\n"
           "  {kind: worker-lost, target: fat, count: 2, quiet_after: 1s}"));
  REQUIRE(scenario.faults.size() == 8);
  CHECK(scenario.faults[0].kind_name() == "node-lost");
  CHECK(scenario.faults[0].index == 1);
  CHECK(scenario.faults[0].lasts == std::chrono::seconds(15));
  CHECK(scenario.faults[1].index == 2);
  CHECK(scenario.faults[2].target == input::FaultModel::Target::store);
  CHECK(scenario.faults[3].target == input::FaultModel::Target::link);
  CHECK(scenario.faults[6].ratio.parts == Ratio::kWhole / 100);
  // What cannot be, with its source line and the remedy.
  CHECK(refusal(with("{kind: node-lost, target: n-2}")) ==
        "s.yaml:10: key 'faults.0.target': there is no 'n-2' for node-lost to strike; "
        "write 'n-0'");
  CHECK(refusal(with("{kind: node-lost, target: rack}")).find("there is no 'rack'") !=
        std::string::npos);
  CHECK(refusal(with("{kind: corrupt-samples, target: n-0, count: 1}")) ==
        "s.yaml:10: key 'faults.0.target': there is no 'n-0' for corrupt-samples to strike; "
        "name a dataset");
  CHECK(refusal(with("{kind: worker-lost, target: fat, count: 3}")) ==
        "s.yaml:10: key 'faults.0.count': node 'fat' has 2 cores, and a worker for each at most; "
        "write no more");
  CHECK(refusal(with("{kind: node-lost}")).find("the name of a node") != std::string::npos);
  CHECK(refusal(with("{kind: node-gone, target: n-0}")).find("node-lost") != std::string::npos);
  CHECK(refusal(with("{target: n-0}")).find("key 'faults.0.kind'") != std::string::npos);
  CHECK(refusal(with("{kind: link-slow, target: rack, factor: 0}")).find("out of bounds") !=
        std::string::npos);
  CHECK(refusal(with("{kind: link-slow, target: rack, factor: -1}")).find("factor") !=
        std::string::npos);
  CHECK(refusal(with("{kind: link-slow, target: rack}")).find("factor") != std::string::npos);
  CHECK(refusal(with("{kind: node-lost, target: n-0, at: 10s, until: 10s}")) ==
        "s.yaml:10: key 'faults.0.until': it ends before it begins; write a time after `at`");
  CHECK(refusal(with("{kind: node-lost, target: n-0, until: 10s, lasts: 10s}")) ==
        "s.yaml:10: key 'faults.0.until': its end is given twice; leave out lasts");
  CHECK(refusal(with("{kind: node-lost, target: n-0, at: 10s}") + "ends_after: 5s\n")
            .find("the run ends before that; write a time before ends_after") != std::string::npos);
  CHECK(refusal(with("{kind: drive-slow, target: n-0, factor: 0.5}")) ==
        "s.yaml:10: key 'faults.0.target': node 'n-0' has no NVMe drive to cache on; "
        "name a node that has one, or `store`");
  CHECK(refusal(with("{kind: link-slow, target: n-0, factor: 0.5}")) ==
        "s.yaml:10: key 'faults.0.target': it has no limit that could be lowered; "
        "give it nic_bytes_per_s in the cluster");
  CHECK(refusal(with("{kind: corrupt-samples, target: images, count: 1001}")) ==
        "s.yaml:10: key 'faults.0.count': the dataset has 1000 samples; write fewer");
  CHECK(refusal(with("{kind: corrupt-samples, target: images, count: 3}") +
                "grain: {samples_per_item: 10}\n")
            .find("write grain.samples_per_item: 1") != std::string::npos);
  CHECK(refusal(with("{kind: reads-failed, target: store}")).find("as 1%") != std::string::npos);
  CHECK(refusal(with("{kind: node-lost, target: n-0, factor: 0.5}")).find("unknown key") !=
        std::string::npos);
  CHECK(refusal(with("{kind: node-lost, target: n-0}") + "after_loss: moves\n") == "nothing");
  CHECK(refusal(with("{kind: node-lost, target: n-0}") + "after_loss: move\n")
            .find("write one of waits, moves") != std::string::npos);
  CHECK(refusal(with("{kind: node-lost, target: n-0, detected_after: 1s}") + "after_loss: moves\n")
            .find("jobs that move show at once that the node is lost") != std::string::npos);
}

TEST_CASE("every configuration that is shipped is read, and so is the one that is generated") {
  CHECK(refusal(input::scenario_template()) == "nothing");
  const auto scenarios = std::filesystem::path(source_dir()) / "configs" / "scenarios";
  for (const auto& entry : std::filesystem::directory_iterator(scenarios)) {
    CAPTURE(entry.path().string());
    CHECK(input::read_scenario(input::load_scenario(entry.path().string())).jobs.size() > 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(scenarios / ".." / "clusters")) {
    CAPTURE(entry.path().string());
    config::read_config(
        input::read_yaml_file(entry.path().string()),
        [](config::ConfigSection& section) { CHECK(input::read_cluster(section).gpus() > 0); });
  }
  for (const auto& entry : std::filesystem::directory_iterator(scenarios / ".." / "workloads")) {
    CAPTURE(entry.path().string());
    config::ConfigNode tree =
        input::parse_yaml("{cluster: dgx, workload: " + entry.path().string() + "}", "s");
    input::resolve_names(tree);
    CHECK(input::read_scenario(tree).jobs.size() > 0);
  }
}

TEST_CASE("configurations are found by name, and the nearest is named") {
  CHECK(input::find_config("four-jobs", "scenarios").ends_with("configs/scenarios/four-jobs.yaml"));
  CHECK(input::find_config("a/b.yaml", "scenarios") == "a/b.yaml");
  CHECK_THROWS_WITH_AS(
      input::find_config("four-job", "scenarios"),
      "no 'four-job' among the scenarios; write 'four-jobs', or another of eight-jobs, "
      "four-jobs, four-seeds, jobs-per-node, live-clicks, recorded-scores, thousand-sources, "
      "toy-jobs, or the path of a file",
      ConfigError);
  CHECK_THROWS_WITH_AS(
      input::find_config("nothing-like-it", "scenarios"),
      "no 'nothing-like-it' among the scenarios; write one of eight-jobs, "
      "four-jobs, four-seeds, jobs-per-node, live-clicks, recorded-scores, thousand-sources, "
      "toy-jobs, or the path of a file",
      ConfigError);
  CHECK(input::what_to_write("x", {}, "pipelines").find("install BatchFlow whole") !=
        std::string::npos);
}

TEST_CASE("a scenario names a workload, which brings what it does not have itself") {
  const auto resolved = [](const std::string& text) {
    config::ConfigNode tree = input::parse_yaml(text, "s.yaml");
    input::resolve_names(tree);
    return input::read_scenario(tree);
  };
  const input::Scenario scenario = resolved("cluster: laptop\nworkload: w1-imagenet\nseed: 3\n");
  CHECK(scenario.jobs.size() == 4);
  CHECK(scenario.grain.samples_per_item == 128);
  CHECK(scenario.seed == 3);
  CHECK(resolved("cluster: laptop\nworkload: w1-imagenet\ngrain: {samples_per_item: 64}\n")
            .grain.samples_per_item == 64);
  CHECK_THROWS_WITH_AS(resolved("cluster: laptop\nworkload: w1-imagenet\njobs: []\n"),
                       "s.yaml:2: key 'workload': it brings jobs, and the scenario has its own; "
                       "leave one of them out",
                       ConfigError);
  CHECK_THROWS_WITH_AS(resolved("cluster: laptop\nworkload: w1\n"),
                       doctest::Contains("s.yaml:2: key 'workload': no 'w1' among the workloads"),
                       ConfigError);
}

TEST_CASE("a curve is linear between its points and flat outside") {
  const input::Curve curve{{{1, 330}, {2, 730}, {4, 1540}}};
  CHECK(curve.at(0) == 330);
  CHECK(curve.at(1) == 330);
  CHECK(curve.at(1.5) == 530);
  CHECK(curve.at(3) == 1135);
  CHECK(curve.at(9) == 1540);
}

TEST_CASE("what varies keeps its mean and its spread, at any grain") {
  using Shape = input::Spread::Shape;
  for (const auto& [shape, ratio, count] : {std::tuple{Shape::lognormal, 0.5, 1.0},
                                            {Shape::lognormal, 2.0, 1.0},
                                            {Shape::lognormal, 1.0, 16.0},
                                            {Shape::exponential, 1.0, 1.0},
                                            {Shape::exponential, 1.0, 25.0},
                                            {Shape::normal, 0.2, 1.0}}) {
    CAPTURE(ratio);
    CAPTURE(count);
    Random random(hash(1, static_cast<std::uint64_t>(ratio * 10)));
    constexpr int kDraws = 200'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = input::Spread{ratio, shape}.draw(random, count);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws;
    const double spread = ratio / std::sqrt(count);
    CHECK(mean == doctest::Approx(1).epsilon(0.02));
    CHECK(std::sqrt(squares / kDraws - mean * mean) == doctest::Approx(spread).epsilon(0.08));
  }
  Random random(1);
  CHECK(input::Spread{}.draw(random) == 1);
}

}  // namespace batchflow::test::scenario_test
