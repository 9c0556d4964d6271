// Faults of every kind in a simulated world: what they cost, to the nanosecond where it can be
// worked out by hand, and that nothing is lost or delivered twice.
#include <algorithm>

#include "tests/world/witness.h"

namespace batchflow::test::faults_test {

namespace {

// One sample a batch and a block, one worker, preparation in 1 s and steps in 0.1 s.
std::string one_line(const std::string& faults, const std::string& node = "cores: 1") {
  return fmt::format(
      "cluster: {{nodes: [{{name: node, gpus: 1, memory: 1gb, {}}}], store: {{}}}}\n"
      "datasets: [{{name: data, samples: 20, bytes: 1000}}]\n"
      "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1s}}]}}]\n"
      "jobs: [{{dataset: data, pipeline: train, batch: 1, step: 100ms, order: sequential}}]\n"
      "grain: {{items_per_block: 1}}\nfaults: [{}]\n",
      node, faults);
}

output::RunResult watch(const std::string& yaml, const std::vector<std::string>& set = {}) {
  const input::Scenario scenario = scenario_of(yaml, set);
  const Watched watched = simulate_watched(scenario);
  CHECK(watched.violation == "");
  check_conservation(scenario, watched.run);
  return watched.run;
}

}  // namespace

TEST_CASE("check 21, a lost worker: what it was at is made again, and T grows by no more") {
  const double whole = watch(one_line("")).makespan_s;
  CHECK(whole == exactly(20.1));
  // It dies 0.3 s into the sixth preparation, and another takes its place at once.
  const output::RunResult at_once =
      watch(one_line("{kind: worker-lost, target: node, at: 5300ms, lasts: 1ns}"));
  CHECK(at_once.makespan_s == exactly(whole + 0.3 + 1e-9));
  CHECK(at_once.aggregate.cancelled_preparation_s == exactly(0.3));
  CHECK(at_once.aggregate.preparations == 20);
  REQUIRE(at_once.faults.size() == 1);
  CHECK(at_once.faults[0].struck);
  CHECK(at_once.faults[0].from_s.value() == exactly(5.3));
  CHECK(at_once.faults[0].until_s.value() == exactly(5.3 + 1e-9));
  CHECK(at_once.faults[0].parts == 1);
  // It is detected 2 s later, and replaced then.
  const output::RunResult later = watch(
      one_line("{kind: worker-lost, target: node, at: 5300ms, lasts: 2s, detected_after: 2s}"));
  CHECK(later.makespan_s == exactly(whole + 0.3 + 2));
}

TEST_CASE("check 21, of several workers one is lost for good: the others take its part") {
  // Two workers: ten rounds of 1 s. Without the second from 5.3 s on, half done, 10 of 20 are made
  // by then and the rest one by one.
  const output::RunResult run =
      watch(one_line("{kind: worker-lost, target: node, at: 5300ms}", "cores: 2"));
  CHECK(run.makespan_s == exactly(15.1));
  CHECK(run.faults[0].until_s.value() == run.makespan_s);
}

TEST_CASE("a fault of the beginning befalls workers that are there right after it") {
  // One of two workers is gone from the start: twenty preparations one by one.
  const output::RunResult run = watch(one_line("{kind: worker-lost, target: node}", "cores: 2"));
  CHECK(run.faults[0].struck);
  CHECK(run.makespan_s == doctest::Approx(20.1).epsilon(1e-6));
}

TEST_CASE("a slow worker takes longer for what is left of its work, and from then on") {
  // Half of its sixth second at half its speed, then 1 s in 2 s, until it has its full speed again
  // at 9.5 s: 5 + 0.5 + 1 + 1.5 of 2 + the rest.
  const output::RunResult run =
      watch(one_line("{kind: worker-slow, target: node, factor: 0.5, at: 5500ms, until: 9500ms}"));
  // From 5.5 to 9.5 s it does 2 s of work.
  CHECK(run.makespan_s == exactly(22.1));
  // Two at once: a quarter of the speed while both last.
  const output::RunResult both =
      watch(one_line("{kind: worker-slow, target: node, factor: 0.5, at: 2s, lasts: 8s}, "
                     "{kind: worker-slow, target: node, factor: 0.5, at: 4s, lasts: 4s}"));
  CHECK(both.makespan_s == exactly(20.1 + 2 * 1 + 4 * 0.75 + 2 * 1 - 2 * 0.5 - 2 * 0.5));
}

TEST_CASE("a lost node comes back: its job goes on from its last step, and nothing is lost") {
  const output::RunResult run =
      watch(one_line("{kind: node-lost, target: node, at: 5050ms, lasts: 3s}"));
  const output::JobResult& job = run.jobs[0];
  CHECK(job.state == "done");
  CHECK(job.restarts == 1);
  CHECK(job.down_s == exactly(3));
  // Batches of 1 s end at 1.1, 2.1, ...: the fifth is being trained on, and is made again.
  CHECK(run.makespan_s == exactly(8.05 + 16 + 0.1));
  CHECK(run.aggregate.preparations == 21);
  CHECK(run.aggregate.cancelled_preparation_s == exactly(0.05));
}

TEST_CASE("a node that does not come back ends its job in bounded time, and no other") {
  const std::string yaml =
      "cluster: {nodes: [{name: n, count: 2, gpus: 1, cores: 2, memory: 1gb}]}\n"
      "datasets: [{name: data, samples: 64, bytes: 1000}]\n"
      "pipelines: [{name: train, steps: [{name: work, random: true, cost: 10ms}]}]\n"
      "jobs: [{name: a, dataset: data, pipeline: train, batch: 4, step: 100ms, nodes: [n-0]},\n"
      "       {name: b, dataset: data, pipeline: train, batch: 4, step: 100ms, nodes: [n-1]},\n"
      "       {name: c, dataset: data, pipeline: train, batch: 4, step: 100ms, nodes: [n-0]}]\n"
      "faults: [{kind: node-lost, target: n-0, at: 500ms}]\n"
      "engine: {rank_timeout: 10s}\nends_after: 30s\n";
  const output::RunResult run = watch(yaml);
  CHECK(run.jobs[0].state == "refused");
  CHECK(run.jobs[0].refusal == "a lost rank did not come back");
  CHECK(run.jobs[0].ended_s == exactly(10.5));
  CHECK(run.jobs[1].state == "done");
  CHECK(run.jobs[2].state == "unfinished");  // no GPU is left for it
}

TEST_CASE("a data-parallel job that loses one of its nodes waits for it, the others' steps void") {
  for (const std::string detected : {"0s", "700ms", "5s"}) {
    CAPTURE(detected);
    const std::string yaml = fmt::format(
        "cluster: {{nodes: [{{name: n, count: 2, gpus: 2, cores: 2, memory: 1gb}}]}}\n"
        "datasets: [{{name: data, samples: 256, bytes: 1000}}]\n"
        "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1ms}}]}}]\n"
        "jobs: [{{dataset: data, pipeline: train, ranks: 4, batch: 4, step: 100ms, epochs: 2,\n"
        "        step_jitter: 0.3}}]\n"
        "faults: [{{kind: node-lost, target: n-1, at: 1234ms, lasts: 2s, detected_after: {}}},\n"
        "         {{kind: node-lost, target: n-0, at: 2s, lasts: 3s}},\n"
        "         {{kind: node-lost, target: n-0, at: 3s, lasts: 3s}}]\n"
        "grain: {{items_per_block: 4}}\n",
        detected);
    const output::RunResult run = watch(yaml);
    CHECK(run.jobs[0].state == "done");
    CHECK(run.jobs[0].restarts == 1);
    CHECK(run.jobs[0].down_s == exactly(5 - 1.234));
    // For the third fault the node is lost already.
    CHECK(!run.faults[2].struck);
    CHECK(!run.faults[2].from_s);
    CHECK(!run.faults[2].until_s);
    CHECK(run.jobs[0].lost_samples == run.aggregate.lost_samples);
  }
}

TEST_CASE("a slow store: bytes over bandwidth, before, while and after") {
  // 10 MB at 1 MB/s, at a quarter of it between 2 and 6 s: 1 MB then, so 3 s more.
  const std::string yaml =
      "cluster: {nodes: [{name: node, memory: 1gb}], store: {bytes_per_s: 1mb}}\n"
      "datasets: [{name: data, samples: 1000, bytes: 10kb}]\n"
      "pipelines: [{name: train, steps: []}]\n"
      "jobs: [{dataset: data, pipeline: train, batch: 8, step: 10ms, order: sequential}]\n"
      "grain: {items_per_block: 8}\n";
  const std::string slow =
      "faults: [{kind: drive-slow, target: store, factor: 0.25, at: 2s, lasts: 4s}]\n";
  CHECK(watch(yaml).makespan_s == doctest::Approx(10.01).epsilon(1e-8));
  CHECK(watch(yaml + slow).makespan_s == doctest::Approx(13.01).epsilon(1e-8));
}

TEST_CASE("a lone read over what becomes slow, slower, and well again") {
  // 4 MB at 2 MB/s: 1 MB by 0.5 s, 0.5 in the next, 0.25 by 2 s, then 2.25 MB in 1.125 s.
  for (const std::string faults :
       {"{kind: drive-slow, target: store, factor: 0.5, at: 500ms, until: 2s}, "
        "{kind: drive-slow, target: store, factor: 0.25, at: 1s, until: 2s}",
        "{kind: link-slow, target: node, factor: 0.5, at: 500ms, until: 2s}, "
        "{kind: link-slow, target: node, factor: 0.25, at: 1s, until: 2s}"}) {
    CAPTURE(faults);
    const output::RunResult run = watch(
        "cluster: {nodes: [{name: node, memory: 1gb, nic_bytes_per_s: 2mb}],\n"
        "          store: {bytes_per_s: 2mb}}\n"
        "datasets: [{name: data, samples: 1, bytes: 4mb}]\n"
        "pipelines: [{name: train, steps: []}]\n"
        "jobs: [{dataset: data, pipeline: train, step: 1s}]\nfaults: [" +
        faults + "]\n");
    CHECK(run.makespan_s == doctest::Approx(2 + 1.125 + 1).epsilon(1e-9));
  }
}

TEST_CASE("a slow link, a link that is down and up again, a store that cannot be reached") {
  const auto yaml = [](const std::string& fault) {
    return fmt::format(
        "cluster:\n  nodes: [{{name: node, memory: 1gb, link: rack}}]\n"
        "  links: [{{name: rack, bytes_per_s: 1mb}}]\n  store: {{bytes_per_s: 1gb}}\n"
        "datasets: [{{name: data, samples: 1000, bytes: 10kb}}]\n"
        "pipelines: [{{name: train, steps: []}}]\n"
        "jobs: [{{dataset: data, pipeline: train, batch: 8, step: 10ms, order: sequential}}]\n"
        "grain: {{items_per_block: 8}}\nengine: {{read_attempts: 2}}\nfaults: [{}]\n",
        fault);
  };
  const double whole = watch(yaml("")).makespan_s;
  CHECK(whole == doctest::Approx(10.01).epsilon(1e-8));
  const double slow =
      watch(yaml("{kind: link-slow, target: rack, factor: 0.25, at: 2s, lasts: 4s}")).makespan_s;
  CHECK(slow == doctest::Approx(13.01).epsilon(1e-8));
  for (const std::string target : {"rack", "node", "store"}) {
    CAPTURE(target);
    const output::RunResult down =
        watch(yaml(fmt::format("{{kind: link-down, target: {}, at: 2s, lasts: 4s}}", target)));
    // Reads that were under way begin anew: their bytes, and no more, cross the link twice.
    const auto twice = static_cast<double>(down.aggregate.cancelled_read_bytes);
    CHECK(twice > 0);
    CHECK(twice <= 2 * 3 * 80'000);
    CHECK(down.makespan_s >= whole + 4 - 1e-6);
    CHECK(down.makespan_s <= whole + 4 + twice / 1e6 + 1e-6);
    CHECK(down.faults[0].parts > 0);
    CHECK(down.aggregate.failed_reads == 0);
  }
  const output::RunResult lost =
      watch(yaml("{kind: drive-lost, target: store, at: 2s, lasts: 4s}"));
  CHECK(lost.makespan_s >= whole + 4 - 1e-6);
  // Longer than a read waits: the read fails, and is sent again; in the end its job is refused.
  const output::RunResult failed =
      watch(yaml("{kind: link-down, target: rack, at: 2s, lasts: 4s, timeout: 3s}"));
  CHECK(failed.aggregate.failed_reads > 0);
  CHECK(failed.jobs[0].state == "done");
  const output::RunResult ended =
      watch(yaml("{kind: link-down, target: rack, at: 2s, timeout: 3s}"));
  CHECK(ended.jobs[0].state == "refused");
  CHECK(ended.jobs[0].refusal == "reads failed too often");
  CHECK(ended.jobs[0].ended_s == exactly(2 + 3 + 0.01 + 3));
}

TEST_CASE("a lost drive: what it held comes from the store again") {
  const auto yaml = [](const std::string& fault) {
    return fmt::format(
        "cluster:\n  nodes: [{{name: node, memory: 60kb,\n"
        "           nvme: {{size: 10mb, bytes_per_s: 10mb, latency: 100us}}}}]\n"
        "  store: {{bytes_per_s: 1mb}}\n"
        "datasets: [{{name: data, samples: 500, bytes: 4096}}]\n"
        "pipelines: [{{name: train, steps: [{{name: work, random: true, output: 100}}]}}]\n"
        "jobs: [{{dataset: data, pipeline: train, batch: 8, step: 1ms, epochs: 6}}]\n"
        "grain: {{items_per_block: 8}}\n"
        "engine: {{policies: {{allocation: 'proportional:forms=encoded'}}}}\nfaults: [{}]\n",
        fault);
  };
  const output::RunResult whole = watch(yaml(""));
  CHECK(whole.aggregate.samples_read <= 500 + 6 * 15);
  const output::RunResult lost =
      watch(yaml("{kind: drive-lost, target: node, at: 2100ms, lasts: 500ms}"));
  CHECK(lost.jobs[0].state == "done");
  CHECK(lost.faults[0].struck);
  CHECK(lost.aggregate.samples_read >= whole.aggregate.samples_read + 400);
  CHECK(lost.aggregate.samples_read <= whole.aggregate.samples_read + 1000);
  const output::RunResult for_good = watch(yaml("{kind: drive-lost, target: node, at: 2100ms}"));
  CHECK(for_good.jobs[0].state == "done");
  CHECK(for_good.aggregate.samples_read > 1500);
}

TEST_CASE("corrupt samples are replaced, the same for all jobs, and the rest comes once") {
  const auto yaml = [](int cores, const std::string& more) {
    return fmt::format(
        "cluster: {{nodes: [{{name: node, gpus: 4, cores: {}, memory: 1gb}}]}}\n"
        "datasets: [{{name: data, samples: 1000, bytes: 1000}}]\n"
        "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1ms}}]}}]\n"
        "jobs: [{{dataset: data, pipeline: train, batch: 8, step: 10ms, epochs: 3}},\n"
        "       {{dataset: data, pipeline: train, batch: 10, step: 20ms, epochs: 2, order: "
        "strict}}]\n"
        "grain: {{items_per_block: 8}}\nfaults: [{}]\n",
        cores, more);
  };
  const std::string ten = "{kind: corrupt-samples, target: data, count: 8}";
  const output::RunResult run = watch(yaml(4, ten));
  CHECK(run.aggregate.replaced_samples == 8);
  CHECK(run.jobs[0].samples == 3000);
  CHECK(run.faults[0].parts == 8);  // at any number of reads
  CHECK(watch(yaml(1, ten)).aggregate.replaced_samples == 8);
  // More than one in a thousand, and more than eight: too many.
  const output::RunResult many = watch(yaml(4, "{kind: corrupt-samples, target: data, count: 9}"));
  CHECK(many.jobs[0].refusal == "9 corrupt samples, and 8 are allowed");
  // All eight are corrupt, which is not too many.
  const output::RunResult none = watch(
      "cluster: {nodes: [{name: node, gpus: 4, cores: 4, memory: 1gb}]}\n"
      "datasets: [{name: data, samples: 8, bytes: 1000}]\n"
      "pipelines: [{name: train, steps: [{name: work, random: true, cost: 1ms}]}]\n"
      "jobs: [{dataset: data, pipeline: train, batch: 8, step: 10ms}]\n"
      "grain: {items_per_block: 8}\n"
      "faults: [{kind: corrupt-samples, target: data, count: 8}]\n");
  CHECK(none.jobs[0].refusal ==
        "8 corrupt samples, and none of 64 tries found another for one of them");
}

TEST_CASE("reads that fail are sent again, by chance that does not depend on policies") {
  const std::string yaml =
      "cluster: {nodes: [{name: node, cores: 4, memory: 1gb}], store: {latency: 1ms}}\n"
      "datasets: [{name: data, samples: 4000, bytes: 1000}]\n"
      "pipelines: [{name: train, steps: [{name: work, random: true, cost: 1ms}]}]\n"
      "jobs: [{dataset: data, pipeline: train, batch: 4, step: 10ms}]\n"
      "grain: {items_per_block: 4}\nengine: {read_attempts: 20}\n"
      "faults: [{kind: reads-failed, target: store, ratio: 20%}]\n";
  const output::RunResult run = watch(yaml);
  CHECK(run.jobs[0].state == "done");
  // 1000 reads and their repetitions: 250 failures, standard deviation 18.
  CHECK(run.aggregate.failed_reads == run.faults[0].parts);
  CHECK(run.aggregate.failed_reads > 180);
  CHECK(run.aggregate.failed_reads < 320);
  CHECK(watch(yaml, {"engine.credits=4"}).aggregate.failed_reads == run.aggregate.failed_reads);
}

TEST_CASE("the witness notices what is handed twice, and what is left out") {
  const input::Scenario scenario = scenario_of(one_line(""));
  const auto spoilt = [&](const std::function<void(order::Slice&)>& change) {
    std::uint64_t deliveries = 0;
    std::vector<order::Slice> slices;
    return simulate_watched(scenario,
                            [&](engine::Deliver& order) {
                              slices.assign(order.slices.begin(), order.slices.end());
                              if (++deliveries == 7) change(slices[0]);
                              order.slices = slices;
                            })
        .violation;
  };
  CHECK(spoilt([](order::Slice&) {}) == "");
  CHECK(spoilt([](order::Slice& slice) { --slice.name.lane; }) ==
        "violation: sample 5 twice in epoch 0");
  CHECK(spoilt([](order::Slice& slice) { ++slice.name.lane; }).find("where 6 belongs") !=
        std::string::npos);
  CHECK(spoilt([](order::Slice& slice) { slice.filler = true; }) != "");
}

}  // namespace batchflow::test::faults_test
