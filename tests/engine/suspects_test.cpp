// What a worker cannot decode is read from the store before it is called corrupt, and twice. A
// fetch from another node, which may have let the sample go, is no such read.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#include "tests/engine/two_nodes.h"

namespace batchflow::test::suspects_test {

namespace {

constexpr Place kStore{NodeId::none(), Tier::store, 0};
constexpr Place kMemory{TwoNodes::kSecond, Tier::dram, 0};

// A block with a sample that its worker could not decode at first.
struct Block {
  SampleId sample;
  std::vector<Place> read_from;  // the sample, one after the other
  std::vector<order::Replacement> replacements;
  std::uint64_t corrupt = 0;  // samples, as the engine counts them
};

// The first block that has a sample at so many indices. Its worker cannot decode the sample in so
// many parts of the block. `kept`: the second node has all samples in its memory.
Block make_block(bool kept, std::size_t indices, std::uint32_t failures) {
  TwoNodes nodes;
  if (kept) nodes.keep(kMemory, 0);
  engine::JobJoined job;
  job.order = indices > 1 ? Order::weighted : Order::relaxed;
  job.multinomial = indices > 1;
  nodes.join(job);
  std::unordered_map<std::uint64_t, std::vector<Place>> read_from;  // by sample
  std::optional<SampleId> sample;
  RequestId block = RequestId::none();
  std::deque<std::vector<SampleId>> failed;
  const auto look_for_sample = [&](const engine::Prepare& prepare) {
    for (const engine::Ingredient& one : prepare.ingredients) {
      const auto same = [&](const engine::Ingredient& other) { return other.sample == one.sample; };
      const auto& all = prepare.ingredients;
      if (std::count_if(all.begin(), all.end(), same) != static_cast<long>(indices)) continue;
      sample = one.sample;
      block = prepare.request.id;
      return;
    }
  };
  for (int steps = 0; steps < 1000; ++steps) {
    for (const engine::Command& command : nodes.step()) {
      if (const auto* read = std::get_if<engine::Read>(&command)) {
        for (const SampleId one : read->samples) read_from[one.value].push_back(read->from);
        nodes.add(engine::ReadDone{read->request, engine::Outcome::done, {}});
      }
      const auto* prepare = std::get_if<engine::Prepare>(&command);
      if (prepare == nullptr) continue;
      if (!sample) look_for_sample(*prepare);
      if (prepare->request.id != block || failures == 0)
        nodes.add(engine::PreparationDone{prepare->request, engine::Outcome::done, {}});
      if (prepare->request.id != block) continue;
      if (failures == 0) {
        return {*sample,
                read_from[sample->value],
                {prepare->replacements.begin(), prepare->replacements.end()},
                nodes.counters().corrupt_samples};
      }
      --failures;
      failed.emplace_back(indices, *sample);  // a worker names it for each index
      nodes.add(engine::PreparationDone{prepare->request, engine::Outcome::corrupt, failed.back()});
    }
  }
  FAIL("no block has such a sample, or it is not made");
  return {};
}

void is_as_it_was(const Block& block, const std::vector<Place>& read_from) {
  CHECK(block.read_from == read_from);
  CHECK(block.replacements.empty());
  CHECK(block.corrupt == 0);
}

void is_replaced(const Block& block, const std::vector<Place>& read_from, std::size_t indices) {
  CHECK(block.read_from == read_from);
  CHECK(block.corrupt == 1);
  CHECK(block.replacements.size() == indices);
  for (const order::Replacement& one : block.replacements) {
    CHECK(one.corrupt == block.sample);
    CHECK(one.used != block.sample);
  }
}

}  // namespace

TEST_CASE("a fetch from a node that had let the sample go is no read of the store") {
  for (const std::size_t indices : {1u, 2u}) {
    CAPTURE(indices);
    is_as_it_was(make_block(true, indices, 0), {kMemory});
    is_as_it_was(make_block(true, indices, 1), {kMemory, kStore});
    is_as_it_was(make_block(true, indices, 2), {kMemory, kStore, kStore});
    is_replaced(make_block(true, indices, 3), {kMemory, kStore, kStore}, indices);
  }
}

TEST_CASE("a sample that a block has twice is read from the store twice before it is corrupt") {
  for (const std::size_t indices : {1u, 2u}) {
    CAPTURE(indices);
    is_as_it_was(make_block(false, indices, 0), {kStore});
    is_as_it_was(make_block(false, indices, 1), {kStore, kStore});
    is_replaced(make_block(false, indices, 2), {kStore, kStore}, indices);
  }
}

}  // namespace batchflow::test::suspects_test
