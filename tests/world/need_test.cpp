// Blocks that jobs still need stay, and others leave: where the room suffices, each block is made
// once. The sums are by hand, in blocks of one sample; a batch is a block.
//
// Jobs that run one sequence at steps of t_f and of t_s seconds are apart by what the faster job
// has had more: n (1 - t_f / t_s) when it ends, and a t for a job that came t seconds late, at a
// blocks a second. Each has two credits and looks two blocks ahead: four blocks a job are under
// way.
#include "tests/world/harness.h"

namespace batchflow::test::need_test {

namespace {

constexpr std::uint64_t kSamples = 512;
constexpr std::uint64_t kUnderWay = 4;

// Blocks made in all, with room for `room` blocks.
std::uint64_t made(const std::vector<std::string>& jobs, std::uint64_t room,
                   const std::string& eviction = "refcount") {
  std::string text = fmt::format(
      "cluster: {{nodes: [{{name: node, cores: 8, gpus: 4, memory: 20gb, cache: {}}}]}}\n"
      "datasets: [{{name: data, samples: {}, compute_only: true}}]\n"
      "pipelines: [{{name: train, steps: [{{name: augment, random: true, output: 1mib}}]}}]\n"
      "engine: {{policies: {{allocation: 'equal:forms=prepared', eviction: {{prepared: {}}},\n"
      "                     scaling: 'static:depth=2'}}}}\n"
      "grain: {{items_per_block: 1}}\njobs:\n",
      room * (std::uint64_t{1} << 20), kSamples, eviction);
  for (const std::string& job : jobs)
    text += fmt::format("  - {{dataset: data, pipeline: train, shuffle_seed: 1, {}}}\n", job);
  const output::RunResult run = simulate_text(text);
  CHECK(run.aggregate.cached_bytes_most <= room << 20);
  return run.aggregate.preparations;
}

std::string job(const std::string& order, const std::string& more) {
  return fmt::format("order: {}, {}", order, more);
}

}  // namespace

TEST_CASE(
    "jobs of different speeds in one sequence have each block made once in the room of their lag") {
  for (const char* order : {"sequential", "strict"}) {
    CAPTURE(order);
    const std::vector<std::string> two = {job(order, "step: 100ms"), job(order, "step: 400ms")};
    const std::uint64_t lag = kSamples * 3 / 4;
    CHECK(made(two, lag + 2 * kUnderWay) == kSamples);
    CHECK(made(two, lag - kUnderWay) > kSamples);
    // A single job needs no room but for what is under way.
    std::vector<std::string> three = two;
    three.push_back(job(order, "step: 160ms"));
    CHECK(made(three, lag + 3 * kUnderWay) == kSamples);
    CHECK(made(three, lag - kUnderWay) > kSamples);
  }
}

TEST_CASE(
    "jobs that come late to one sequence have each block made once in the room of their lag") {
  for (const char* order : {"sequential", "strict"}) {
    CAPTURE(order);
    const std::vector<std::string> two = {job(order, "step: 100ms"),
                                          job(order, "step: 100ms, arrives: 10s")};
    const std::uint64_t lag = 100;
    CHECK(made(two, lag + 2 * kUnderWay) == kSamples);
    CHECK(made(two, lag - kUnderWay) > kSamples);
    std::vector<std::string> three = two;
    three.push_back(job(order, "step: 100ms, arrives: 4s"));
    CHECK(made(three, lag + 3 * kUnderWay) == kSamples);
    CHECK(made(three, lag - kUnderWay) > kSamples);
  }
}

TEST_CASE("a job in an earlier epoch needs the blocks of the next, as far as it has one") {
  for (const char* order : {"sequential", "strict"}) {
    CAPTURE(order);
    const std::string first = job(order, "step: 100ms, epochs: 3");
    const std::uint64_t lag = 100;
    CHECK(made({first, job(order, "step: 100ms, arrives: 10s, epochs: 3")}, lag + 2 * kUnderWay) ==
          3 * kSamples);
    CHECK(made({first, job(order, "step: 100ms, arrives: 10s, epochs: 2")}, lag + 2 * kUnderWay) ==
          3 * kSamples);
  }
}

TEST_CASE("relaxed jobs in step have each block made once in the room of what is under way") {
  for (const int jobs : {2, 3}) {
    CAPTURE(jobs);
    const std::vector<std::string> in_step(static_cast<std::size_t>(jobs),
                                           job("relaxed", "step: 100ms, epochs: 2"));
    CHECK(made(in_step, static_cast<std::uint64_t>(jobs) * kUnderWay) == 2 * kSamples);
  }
}

// Lanes are of 16 blocks where the room is 32 or more, so 32 lanes an epoch. A job that comes when
// the first is at its 100th block joins the lane that the first has open, and goes on with it to
// the end. Then it is alone with the six lanes that were used before.
TEST_CASE("a relaxed job that comes late has made for it what was done with when it came") {
  const std::vector<std::string> two = {job("relaxed", "step: 100ms"),
                                        job("relaxed", "step: 100ms, arrives: 10s")};
  CHECK(made(two, 40) == kSamples + 6 * 16);
  std::vector<std::string> three = two;
  three.push_back(job("relaxed", "step: 100ms, arrives: 20s"));  // it does so with the second
  CHECK(made(three, 44) == kSamples + 12 * 16);
}

}  // namespace batchflow::test::need_test
