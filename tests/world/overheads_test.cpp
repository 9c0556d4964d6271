// What a node and a job do beside preparing and training: each with times worked out by hand.
#include "core/base/random.h"
#include "sim/world/read_queue.h"
#include "tests/world/harness.h"

namespace batchflow::test::overheads_test {
namespace {

double makespan(const Small& small) {
  return simulate_small(small).makespan_s;
}

// One job of one step of 10 samples.
Small one_step(const std::string& node, const std::string& job = "step: 100ms") {
  Small small;
  small.samples = 10;
  small.node = node + ", gpus: 16, memory: 1gb";
  small.steps = "[{name: work, cost: 10ms}]";
  small.jobs = {"batch: 10, " + job};
  return small;
}

}  // namespace

TEST_CASE("reads of a node begin in their order, and share its queue") {
  world::ReadQueue queue(32);
  std::vector<std::pair<int, std::uint32_t>> begun;
  const auto enter = [&](int read, std::uint64_t operations) {
    queue.enter(static_cast<std::uint64_t>(read), operations,
                [&begun, read](std::uint32_t ahead) { begun.emplace_back(read, ahead); });
  };
  using Begun = std::vector<std::pair<int, std::uint32_t>>;
  enter(1, 20);
  enter(2, 64);  // has what the first leaves
  enter(3, 1);
  enter(4, 5);
  CHECK(begun == Begun{{1, 20}, {2, 12}});
  queue.leave(3);  // given up while it waited
  queue.leave(1);
  CHECK(begun == Begun{{1, 20}, {2, 12}, {4, 5}});
  queue.leave(99);
  queue.leave(2);
  queue.leave(4);
  enter(5, 100);
  CHECK(begun.back() == std::pair(5, 32u));
}

TEST_CASE("a drive with a queue serves two reads in turn, without one together") {
  // Two datasets' blocks of 100 operations of 1 ms each, ten at once: 10 ms a block alone. Both
  // have the same store; in turn the first comes after 10 ms, together both would after 10, too,
  // since latency is not shared. A queue of ten makes the second wait for the first.
  Small small;
  small.samples = 100;
  small.bytes = "1000";
  small.jobs = {"batch: 100, step: 1us, order: strict, shuffle_seed: 1",
                "batch: 100, step: 1us, order: strict, shuffle_seed: 2"};
  small.set = {"grain.items_per_block=128", "engine.share_streams=false",
               "engine.preset=independent"};
  small.store = "{latency: 1ms, operations_ahead: 10}";
  small.node = "cores: 2, gpus: 16, memory: 1gb";
  const double together = makespan(small);
  small.store = "{latency: 1ms, operations_ahead: 10, queue: 10}";
  const double in_turn = makespan(small);
  CHECK(together == doctest::Approx(0.010).epsilon(0.01));
  CHECK(in_turn == doctest::Approx(0.020).epsilon(0.01));
}

TEST_CASE("processors are shared by preparation, reads, hand-over and loaders") {
  // 100 ms of preparation by one worker, and 40 ms for the batch, after it.
  Small small = one_step("cores: 1");
  CHECK(makespan(small) == exactly(0.2));
  small =
      one_step("cores: 1, overhead: {block: 1ms, wake: 2ms, batch: 30ms, ns_per_sample: 1000000}");
  CHECK(makespan(small) == exactly(0.2 + 0.001 + 0.002 + 0.030 + 0.010 + 0.002));
  small.node =
      "cores: 1, processors: 1, overhead: {batch: 30ms, ns_per_sample: 1000000}"
      ", gpus: 16, memory: 1gb";
  CHECK(makespan(small) == doctest::Approx(0.240).epsilon(1e-6));

  // Four workers on two processors are as fast as two.
  small = one_step("cores: 4");
  small.samples = 4;
  small.jobs = {"batch: 4, step: 1us"};
  small.set = {"grain.items_per_block=1"};
  CHECK(makespan(small) == doctest::Approx(0.010).epsilon(1e-3));
  small.node = "cores: 4, processors: 2, gpus: 16, memory: 1gb";
  CHECK(makespan(small) == doctest::Approx(0.020).epsilon(1e-3));

  // Ten operations of 1 ms of a processor, and 1000 bytes of 1 us: 20 ms before the block is there.
  small = one_step("cores: 1, processors: 1, overhead: {read: 1ms, read_ns_per_byte: 1000}");
  CHECK(makespan(small) == doctest::Approx(0.2 + 0.010 + 0.010).epsilon(1e-6));
}

TEST_CASE("a step takes longer than its time by the node's overhead, and that is computing") {
  Small small = one_step("cores: 1, overhead: {step: 7ms}");
  const output::RunResult run = simulate_small(small);
  CHECK(run.makespan_s == exactly(0.207));
  CHECK(run.jobs[0].compute_s == exactly(0.107));
}

TEST_CASE("a job's own loader takes time before each step, which is waited for") {
  // Two steps of five samples, all of one block: the loader takes 3 ms and 5 times 1 ms for each.
  Small small = one_step("cores: 1", "step: 100ms, loader: {step: 3ms, ns_per_sample: 1000000}");
  small.jobs[0].replace(0, 9, "batch: 5");
  const output::RunResult run = simulate_small(small);
  CHECK(run.makespan_s == exactly(0.1 + 2 * 0.108));
  CHECK(run.jobs[0].compute_s == exactly(0.2));
  CHECK(run.jobs[0].stall_s == exactly(0.1 + 2 * 0.008));
  CHECK(run.jobs[0].waited.delivery_s == exactly(2 * 0.008));
}

TEST_CASE("jitter: another seed is another run, and 0 is none") {
  Small small = one_step("cores: 1");
  small.set = {"jitter={arrival: 5ms, step: 0.01}"};
  const double first = makespan(small);
  small.set.push_back("seed=2");
  const double second = makespan(small);
  CHECK(first != second);
  for (const double one : {first, second}) {
    CHECK(one > 0.2 - 0.01);
    CHECK(one < 0.2 + 0.005 + 0.01);
  }
  small.set = {"jitter={arrival: 5ms, step: 0}"};
  const double late = makespan(small);
  CHECK(late >= 0.2);
  CHECK(late <= 0.205);
  // A job that says something itself is not varied in that.
  small.jobs = {"batch: 10, step: 100ms, step_jitter: 0, arrives_jitter: 0ms"};
  small.set = {"jitter={arrival: 5ms, step: 0.01}"};
  CHECK(makespan(small) == exactly(0.2));
}

TEST_CASE("gradients go around the ring of a job's nodes while it computes, and after it") {
  // Two nodes send 100 MB x 2 x 1/2 each at 1 GB/s: 100 ms from the middle of the step on.
  const auto run = [](const std::string& exchange) {
    return simulate_text(
        "cluster: {nodes: [{name: n, count: 2, cores: 1, gpus: 1, memory: 1gb, "
        "nic_bytes_per_s: 1gb}], store: {}}\n"
        "datasets: [{name: data, samples: 20, compute_only: true}]\n"
        "pipelines: [{name: train, steps: []}]\n"
        "jobs: [{dataset: data, pipeline: train, batch: 10, ranks: 2, step: 80ms, exchange: " +
        exchange + "}]\n");
  };
  CHECK(run("{}").makespan_s == doctest::Approx(0.080).epsilon(1e-4));
  CHECK(run("{bytes: 100mb}").makespan_s == doctest::Approx(0.140).epsilon(1e-4));
  CHECK(run("{bytes: 100mb, after: 0%}").makespan_s == doctest::Approx(0.100).epsilon(1e-4));
  const output::RunResult late = run("{bytes: 100mb, after: 100%}");
  CHECK(late.makespan_s == doctest::Approx(0.180).epsilon(1e-4));
  CHECK(late.jobs[0].compute_s == exactly(0.080));
  CHECK(late.jobs[0].idle_s == doctest::Approx(0.100).epsilon(1e-4));
  CHECK(late.aggregate.network_bytes >= 200'000'000);
}

TEST_CASE("what goes to another node takes processors of both, beside its time on the link") {
  // Gradients as above, from the middle of the step on: each node sends 100 MB, at 2 ns a byte, and
  // receives as many, at 3 ns. One processor does both in 500 ms; threads that never meet are done
  // with the longer of the two, 300 ms.
  const auto run = [](const std::string& processors) {
    return simulate_text(
               "cluster: {nodes: [{name: n, count: 2, cores: 1, gpus: 1, memory: 1gb, "
               "nic_bytes_per_s: 1gb, processors: " +
               processors +
               ", overhead: {send_ns_per_byte: 2, receive_ns_per_byte: 3}}], store: {}}\n"
               "datasets: [{name: data, samples: 20, compute_only: true}]\n"
               "pipelines: [{name: train, steps: []}]\n"
               "jobs: [{dataset: data, pipeline: train, batch: 10, ranks: 2, step: 80ms, "
               "exchange: {bytes: 100mb}}]\n")
        .makespan_s;
  };
  CHECK(run("1") == doctest::Approx(0.540).epsilon(1e-3));
  CHECK(run("0") == doctest::Approx(0.340).epsilon(1e-3));
}

TEST_CASE("checkpoints are written to the store, and the job waits for them if it says so") {
  // Four steps of 100 ms, and 10 MB at 100 MB/s after the second one. Nothing waits for the last.
  Small small = one_step("cores: 1", "step: 100ms");
  small.samples = 40;
  small.steps = "[]";
  small.store = "{write_bytes_per_s: 100mb}";
  small.jobs = {"batch: 10, step: 100ms, checkpoint: {every: 2, bytes: 10mb}"};
  output::RunResult run = simulate_small(small);
  CHECK(run.makespan_s == doctest::Approx(0.5).epsilon(1e-4));
  CHECK(run.jobs[0].idle_s == doctest::Approx(0.1).epsilon(1e-3));
  CHECK(run.aggregate.store_written_bytes == 20'000'000);
  small.jobs = {"batch: 10, step: 100ms, checkpoint: {every: 2, bytes: 10mb, waits: false}"};
  CHECK(makespan(small) == doctest::Approx(0.4).epsilon(1e-4));
  // Without a rate of writes they share that of reads.
  small.store = "{bytes_per_s: 50mb}";
  small.jobs = {"batch: 10, step: 100ms, checkpoint: {every: 2, bytes: 10mb}"};
  CHECK(makespan(small) == doctest::Approx(0.6).epsilon(1e-2));
}

TEST_CASE("validation runs on the GPUs of its job between epochs, and after the last") {
  // Two epochs of two steps of 100 ms; after each, two steps of 30 ms over the same samples.
  Small small = one_step("cores: 1");
  small.samples = 20;
  small.steps = "[]";
  small.node = "cores: 1, gpus: 1, memory: 1gb";
  small.jobs = {
      "name: a, batch: 10, epochs: 2, step: 100ms, "
      "validation: {dataset: data, pipeline: train, batch: 10, step: 30ms}"};
  output::RunResult run = simulate_small(small);
  REQUIRE(run.jobs.size() == 2);
  CHECK(run.jobs[1].name == "a-validation");
  CHECK(run.jobs[1].samples == 40);
  CHECK(run.jobs[1].compute_s == exactly(0.12));
  CHECK(run.jobs[0].idle_s == exactly(0.06));
  CHECK(run.makespan_s == exactly(0.52));
  // Each second epoch alone; another job waits for the GPU until that is over, too.
  small.jobs = {
      "name: a, batch: 10, epochs: 2, step: 100ms, "
      "validation: {dataset: data, pipeline: train, batch: 10, step: 30ms, every: 2}",
      "name: b, batch: 10, step: 10ms"};
  run = simulate_small(small);
  REQUIRE(run.jobs.size() == 3);
  CHECK(run.jobs[1].name == "b");
  CHECK(run.jobs[1].started_s == exactly(0.46));
  CHECK(run.makespan_s == exactly(0.48));
}

TEST_CASE("others take a part of the store over time, again and again") {
  // 10 MB at 100 MB/s; from 50 ms on half of it is left.
  Small small;
  small.samples = 10;
  small.bytes = "1mb";
  small.jobs = {"batch: 10, step: 1us"};
  small.store = "{bytes_per_s: 100mb}";
  CHECK(makespan(small) == doctest::Approx(0.1).epsilon(1e-3));
  small.store = "{bytes_per_s: 100mb, load: [{at: 0s, part: 0%}, {at: 50ms, part: 50%}]}";
  CHECK(makespan(small) == doctest::Approx(0.15).epsilon(1e-3));
  small.store =
      "{bytes_per_s: 100mb, load: [{at: 0s, part: 0%}, {at: 50ms, part: 50%}], load_period: 70ms}";
  CHECK(makespan(small) == doctest::Approx(0.11).epsilon(1e-3));  // 5, 1, 4 MB
}

TEST_CASE("requests that an object store refuses are sent again, later, and cost money") {
  Small small;
  small.samples = 4096;
  small.bytes = "1000";
  small.jobs = {"batch: 4096, step: 1us"};
  small.set = {"grain.items_per_block=4096"};
  small.store = "{bytes_per_s: 100mb, requests: {price_per_million: 5}}";
  output::RunResult run = simulate_small(small);
  CHECK(run.aggregate.store_requests == 4096);
  CHECK(run.aggregate.requests_again == 0);
  CHECK(run.aggregate.requests_price == doctest::Approx(0.02048));
  CHECK(run.makespan_s == doctest::Approx(0.04096).epsilon(1e-3));
  small.store =
      "{bytes_per_s: 100mb, requests: {failed: 10%, retry_after: 1s, price_per_million: 5}}";
  run = simulate_small(small);
  // 10 % of 4,096, of these, and so on: 455, and a deviation of 21.
  CHECK(run.aggregate.requests_again > 370);
  CHECK(run.aggregate.requests_again < 540);
  CHECK(run.aggregate.store_requests == 4096 + run.aggregate.requests_again);
  CHECK(run.makespan_s > 1 + 2);  // some fail twice
}

TEST_CASE("batches beyond a GPU's memory are not asked for, and a job without room is refused") {
  Small small = one_step("cores: 1", "step: 100ms");
  small.samples = 100;
  small.bytes = "1mb";
  small.steps = "[]";
  small.jobs = {"batch: 10, step: 100ms, gpu_bytes: 70mb"};
  small.node = "cores: 1, gpus: 1, memory: 1gb, gpu_memory: 80mb";
  CHECK(simulate_small(small).jobs[0].state == "done");
  small.node = "cores: 1, gpus: 1, memory: 1gb, gpu_memory: 79mb";
  const output::RunResult run = output::decode_run(
      in_child([&] { return output::encode_run(sim::simulate(scenario_of(small.yaml()), {})); }));
  CHECK(run.jobs[0].state == "refused");
  CHECK(run.jobs[0].refusal.find("does not fit a GPU of 79000000") != std::string::npos);
}

TEST_CASE("workers help with the block that came first, and then with the next") {
  // Four blocks of one sample each, a batch: four workers prepare them in 10 ms each. Two blocks of
  // two samples: with help the first batch is there after 10 ms, without after 20.
  Small small = one_step("cores: 2");
  small.samples = 4;
  small.jobs = {"batch: 2, step: 1us"};
  small.set = {"grain.items_per_block=2"};
  CHECK(simulate_small(small).jobs[0].first_batch_s == exactly(0.020));
  small.node = "cores: 2, workers_help: true, gpus: 16, memory: 1gb";
  output::RunResult run = simulate_small(small);
  CHECK(run.jobs[0].first_batch_s == doctest::Approx(0.010).epsilon(1e-4));
  CHECK(run.makespan_s == doctest::Approx(0.020).epsilon(1e-3));
  CHECK(run.aggregate.preparation_s == doctest::Approx(0.040).epsilon(1e-6));
  // One sample is prepared by one worker.
  small.samples = 1;
  small.jobs = {"batch: 1, step: 1us"};
  CHECK(simulate_small(small).jobs[0].first_batch_s == doctest::Approx(0.010).epsilon(1e-4));
}

TEST_CASE("what takes a processor comes before preparation, as its workers have less priority") {
  // One processor. Two batches, each of one block of 160 ms. Handing over the first takes 50 ms of
  // the processor, and the second block waits for that.
  Small small = one_step("cores: 1, processors: 1, overhead: {batch: 50ms}");
  small.samples = 32;
  small.jobs = {"batch: 16, step: 1us"};
  small.set = {"grain.items_per_block=16"};
  const output::RunResult run = simulate_small(small);
  CHECK(run.jobs[0].first_batch_s == doctest::Approx(0.160 + 0.050).epsilon(0.01));
  CHECK(run.makespan_s == doctest::Approx(0.420).epsilon(0.01));
}

TEST_CASE("a dataset is opened by its first job, and others wait for that") {
  Small small = one_step("cores: 1");
  small.steps = "[]";
  small.jobs = {"name: a, batch: 10, step: 100ms", "name: b, batch: 10, step: 100ms, arrives: 30ms",
                "name: c, batch: 10, step: 100ms, arrives: 80ms"};
  std::string yaml = small.yaml();
  const std::string before = "bytes: 1000}";
  yaml.replace(yaml.find(before), before.size(), "bytes: 1000, opens: 50ms}");
  const output::RunResult run = simulate_text(yaml);
  CHECK(run.jobs[0].ended_s == exactly(0.150));
  CHECK(run.jobs[1].ended_s == exactly(0.150));
  CHECK(run.jobs[2].ended_s == exactly(0.180));
  CHECK(run.jobs[0].idle_s == exactly(0.050));
  CHECK(run.jobs[1].idle_s == exactly(0.020));
}

TEST_CASE("reading a sample alone takes whole sectors of the store") {
  // 100 samples of 1,000 bytes take 4,096 each at 1 MB/s.
  Small small;
  small.jobs = {"batch: 100, step: 1us"};
  small.store = "{bytes_per_s: 1mb}";
  std::string yaml = small.yaml();
  const std::string before = "bytes: 1000}";
  yaml.replace(yaml.find(before), before.size(), "bytes: 1000, read_bytes: 4096}");
  const output::RunResult run = simulate_text(yaml);
  CHECK(run.makespan_s == doctest::Approx(0.4096).epsilon(1e-3));
  CHECK(run.aggregate.storage_bytes == 100'000);
}

TEST_CASE("a step that is not kept has no decoded form behind it, though it is not random") {
  const auto info = [](const std::string& steps) {
    Small small;
    small.steps = steps;
    small.jobs = {"batch: 1, step: 1us"};
    return scenario_of(small.yaml()).pipelines[0].info(1000);
  };
  CHECK(info("[{name: a, output: 500}]").decoded_bytes == 500);
  const engine::PipelineInfo not_kept = info("[{name: a, output: 500, kept: false, cost: 1ms}]");
  CHECK(not_kept.decoded_bytes == 0);
  CHECK(not_kept.has_random == false);
  CHECK(not_kept.augment_cost == std::chrono::milliseconds(1));
}

}  // namespace batchflow::test::overheads_test
