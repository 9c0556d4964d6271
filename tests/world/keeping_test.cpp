// What caches keep of data that no job reads any more, and for which data it makes room.
#include "tests/world/harness.h"

namespace batchflow::test::keeping_test {
namespace {

// Jobs one after the other on datasets `a` of 400 samples and `b` of 500. Each sample takes a slot
// of 4096 bytes, and the cache has `cached` slots for them.
struct OneAfterTheOther {
  std::string data;  // of each job: a, b
  std::uint64_t cached = 1000;
  std::string allocation = "encoded-first";

  output::RunResult run() const {
    std::string text = fmt::format(
        "cluster:\n"
        "  nodes: [{{name: node, cores: 1, gpus: 1, memory: {}}}]\n"
        "datasets: [{{name: a, samples: 400, bytes: 4096}}, {{name: b, samples: 500, bytes: "
        "4096}}]\n"
        "pipelines: [{{name: train, steps: [{{name: work, random: true, output: 1}}]}}]\n"
        "grain: {{items_per_block: 8}}\n"
        "engine:\n  credits: 2\n  policies:\n"
        "    allocation: {}:forms=encoded\n    eviction: {{encoded: minio}}\n"
        "    scaling: static:depth=1\n"
        "jobs:\n",
        cached * 4096 + 24, allocation);
    for (std::size_t i = 0; i < data.size(); ++i)
      text += fmt::format(
          "  - {{dataset: {}, pipeline: train, batch: 8, step: 1ms, order: strict, epochs: 1, "
          "arrives: {}s}}\n",
          data[i], 100 * i);
    return simulate_text(text);
  }
  std::uint64_t reads() const { return run().aggregate.samples_read; }
};

}  // namespace

TEST_CASE("the next job on a dataset finds what the job before has read") {
  CHECK(OneAfterTheOther{"a"}.reads() == 400);
  CHECK(OneAfterTheOther{"aa"}.reads() == 400);
  CHECK(OneAfterTheOther{"aba"}.reads() == 900);
  CHECK(OneAfterTheOther{"abab"}.reads() == 900);
}

TEST_CASE("what no job reads gives way to what one does, as far as it is wanted") {
  // `b` takes 500 of 700: 200 of `a` are left, and `a` then makes 100 of `b` leave.
  CHECK(OneAfterTheOther{"aba", 700}.reads() == 900 + 200);
  CHECK(OneAfterTheOther{"abab", 700}.reads() == 900 + 200 + 200);
  // A policy that gives everything to shares that jobs read from leaves nothing.
  CHECK(OneAfterTheOther{"aba", 700, "proportional"}.reads() == 900 + 400);
}

TEST_CASE("exemplars that a job rehearses are kept before what it has had once") {
  // The cache has a tenth of the data, and the buffer a half of that. The reservoir of all samples
  // is that of the first epoch, in which nothing is rehearsed. So from then on each exemplar is
  // read once at most, and the other samples once an epoch.
  for (const std::string order : {"strict", "relaxed"}) {
    CAPTURE(order);
    const output::RunResult run = simulate_text(fmt::format(
        "cluster: {{nodes: [{{name: node, cores: 2, gpus: 1, memory: 900kb}}]}}\n"
        "datasets: [{{name: a, samples: 2000, bytes: 4096}}]\n"
        "pipelines: [{{name: train, steps: [{{name: work, random: true, output: 1}}]}}]\n"
        "grain: {{items_per_block: 4}}\n"
        "engine: {{credits: 4, policies: {{allocation: encoded-first}}}}\n"
        "jobs: [{{dataset: a, pipeline: train, batch: 16, step: 1ms, order: {}, epochs: 4,\n"
        "        rehearsal: {{samples: 4, exemplars: 100, policy: reservoir}}}}]\n",
        order));
    CHECK(run.jobs[0].rehearsed == 3 * 167 * 4);
    CHECK(run.aggregate.samples_read <= 2000 + 100 + 3 * 1900);
  }
}

}  // namespace batchflow::test::keeping_test
