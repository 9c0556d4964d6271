#include "core/order/rehearsal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "core/engine/event.h"

namespace batchflow::test::rehearsal_test {

namespace {

std::shared_ptr<const order::Exemplars> exemplars(std::vector<std::uint64_t> ids) {
  order::ExemplarBuffer buffer;
  std::vector<SampleId> samples;
  for (const std::uint64_t id : ids) samples.emplace_back(id);
  REQUIRE(buffer.report(true, 0, samples, false));
  return buffer.whole();
}

std::vector<SampleId> ids(std::initializer_list<std::uint64_t> list) {
  std::vector<SampleId> samples;
  for (const std::uint64_t id : list) samples.emplace_back(id);
  return samples;
}

std::vector<SampleId> drawn(const order::Rehearsal& rehearsal, std::uint64_t first,
                            std::size_t count) {
  order::PermutationCache permutations;
  std::vector<order::Draw> draws(count);
  rehearsal.fill(first, draws, permutations);
  std::vector<SampleId> samples;
  for (const order::Draw& draw : draws) samples.push_back(draw.sample);
  return samples;
}

}  // namespace

TEST_CASE("rehearsal: exactly once for the plain part, equal exemplars for every rank") {
  // 1000 samples, 3 ranks of 32 with 8 rehearsed: ceil(1000 / (3 * 24)) = 14 steps.
  const order::RehearsalPlan plan =
      order::RehearsalPlan::split({.samples = 1000, .ranks = 3, .batch_samples = 32}, 8);
  CHECK(plan.steps() == 14);
  std::uint64_t plain = 0;
  std::uint64_t rehearsed = 0;
  for (std::uint64_t t = 0; t < plan.steps(); ++t) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      plain += plan.plain.batch(t, rank).own.count();
      REQUIRE(plan.buffer_draws(t, rank).from == rehearsed);
      rehearsed = plan.buffer_draws(t, rank).to;
    }
  }
  CHECK(plain == 1000);
  CHECK(rehearsed == 14 * 3 * 8);
}

TEST_CASE("rehearsal: draws go on where they stood, whatever the size of a step") {
  const order::RehearsalPlan plan = order::RehearsalPlan::split(
      {.samples = 100, .consumed = 40, .ranks = 2, .batch_samples = 8}, 3, 17);
  CHECK(plan.steps() == 6);
  CHECK(plan.buffer_draws(0) == order::IndexRange{17, 23});
  CHECK(plan.buffer_draws(5, 1) == order::IndexRange{17 + 33, 17 + 36});
}

TEST_CASE("each round of as many draws as there are exemplars has each once") {
  const auto buffer = exemplars({3, 14, 15, 92, 65, 35, 89});
  const order::Rehearsal rehearsal(buffer, {2, 3}, 4);
  const std::vector<SampleId> sorted = ids({3, 14, 15, 35, 65, 89, 92});
  std::set<std::vector<SampleId>> orders;
  for (std::uint64_t round = 0; round < 200; ++round) {
    std::vector<SampleId> samples = drawn(rehearsal, 7 * round, 7);
    orders.insert(samples);
    std::sort(samples.begin(), samples.end());
    CHECK(samples == sorted);
  }
  CHECK(orders.size() > 180);  // of 5040: 200 draws of them repeat some 4 times
}

TEST_CASE("how many draws there are for one of an exemplar follows from its weight") {
  const order::Rehearsal even(exemplars({9, 4, 9, 2}), {2, 3}, 4);
  CHECK(even.draws_for(SampleId(4)) == 4);
  CHECK(even.draws_for(SampleId(9)) == 2);  // it is there twice
  CHECK(even.draws_for(SampleId(3)) == 0);
  const order::Rehearsal uneven(order::Exemplars::make(ids({9, 4, 2}), {6, 3, 0}), {2, 3}, 4);
  CHECK(uneven.draws_for(SampleId(9)) == 1.5);
  CHECK(uneven.draws_for(SampleId(4)) == 3);
  CHECK(uneven.draws_for(SampleId(2)) == 0);
}

TEST_CASE("draws are those of the rule, place by place") {
  const auto buffer = exemplars({10, 11, 12, 13, 14});
  const order::Rehearsal rehearsal(buffer, {2, 3}, 4);
  for (std::uint64_t q = 0; q < 40; ++q) {
    const order::Permutation order(hash(7, 2, 3, 4, buffer->digest, q / 5), 5);
    CHECK(drawn(rehearsal, q, 1).front() == SampleId(10 + order(q % 5)));
  }
  CHECK(rehearsal.generation() == hash(buffer->digest, 4));
  // Other buffers, epochs, seeds and datasets have other draws.
  const auto mine = drawn(rehearsal, 0, 40);
  CHECK(drawn(order::Rehearsal(buffer, {2, 3}, 5), 0, 40) != mine);
  CHECK(drawn(order::Rehearsal(buffer, {2, 4}, 4), 0, 40) != mine);
  CHECK(drawn(order::Rehearsal(buffer, {1, 3}, 4), 0, 40) != mine);
  CHECK(drawn(order::Rehearsal(exemplars({10, 11, 12, 14, 13}), {2, 3}, 4), 0, 40) != mine);
}

TEST_CASE("a block of draws is named by its place, up to the last that can be") {
  const order::Rehearsal rehearsal(exemplars({1}), {2, 3}, 4);
  for (const std::uint64_t draw : {std::uint64_t{0}, std::uint64_t{9}, order::kSamplesMost}) {
    for (const std::uint32_t block : {1u, 8u, 4096u}) {
      const order::LaneSizes sizes = order::Rehearsal::sizes(block);
      const order::BlockName name = rehearsal.block_of(draw, block);
      CHECK((sizes.first_block_of(name.lane) + name.block) * block + draw % block == draw);
      CHECK(sizes.samples_of(name.lane, name.block) == block);
    }
  }
}

TEST_CASE("small buffers have names of their own, whatever is in them how often") {
  std::set<Digest> names;
  for (std::uint64_t a = 0; a < 8; ++a) {
    names.insert(exemplars({a})->digest);
    for (std::uint64_t b = 0; b < 8; ++b) {
      names.insert(exemplars({a, b})->digest);
      for (std::uint64_t c = 0; c < 8; ++c) names.insert(exemplars({a, b, c})->digest);
    }
  }
  CHECK(names.size() == 8 + 8 * 8 + 8 * 8 * 8);
  CHECK(names.count(0) == 0);
}

TEST_CASE("a buffer is replaced as a whole, in part, or in several events that count together") {
  order::ExemplarBuffer buffer;
  CHECK(buffer.whole() == nullptr);
  CHECK(buffer.report(false, 0, ids({1, 2, 3}), false));
  const auto first = buffer.whole();
  CHECK(first->samples == ids({1, 2, 3}));
  CHECK(buffer.report(false, 1, ids({7}), false));
  CHECK(buffer.whole()->samples == ids({1, 7, 3}));
  CHECK(buffer.report(false, 3, ids({8, 9}), false));  // it grows
  CHECK(buffer.whole()->samples == ids({1, 7, 3, 8, 9}));
  CHECK_FALSE(buffer.report(false, 6, ids({5}), false));  // but has no gap
  CHECK(buffer.whole()->samples == ids({1, 7, 3, 8, 9}));
  // Until the last of several events it is what it was.
  CHECK(buffer.report(true, 0, ids({4}), true));
  CHECK(buffer.report(false, 1, ids({5}), true));
  CHECK(buffer.whole()->samples == ids({1, 7, 3, 8, 9}));
  CHECK(buffer.report(false, 2, ids({6}), false));
  CHECK(buffer.whole()->samples == ids({4, 5, 6}));
  CHECK(buffer.report(true, 0, {}, false));
  CHECK(buffer.whole() == nullptr);
  // The same exemplars again have the same name, others another; none is 0.
  CHECK(buffer.report(false, 0, ids({1, 2, 3}), false));
  CHECK(buffer.whole()->digest == first->digest);
  CHECK(buffer.report(false, 0, ids({2, 1}), false));
  CHECK(buffer.whole()->digest != first->digest);
  CHECK(first->digest != 0);
}

TEST_CASE("a buffer is bounded") {
  order::ExemplarBuffer buffer;
  const std::vector<SampleId> slice(engine::kExemplarsAtOnce);
  for (std::size_t first = 0; first < order::kExemplarsMost; first += slice.size()) {
    CHECK(buffer.report(false, static_cast<std::uint32_t>(first), slice, false));
  }
  CHECK(buffer.whole()->samples.size() == order::kExemplarsMost);
  CHECK_FALSE(buffer.report(false, order::kExemplarsMost, slice, false));
  CHECK_FALSE(buffer.report(false, order::kExemplarsMost - 1, slice, false));
  CHECK_FALSE(buffer.report(false, UINT32_MAX, slice, false));
}

TEST_CASE("with weights each exemplar comes in each round as its part says, rounded up or down") {
  const std::vector<std::uint32_t> weights = {1, 0, 70'000, 500, 65'536, 4'000'000'000, 3};
  double total = 0;
  for (const std::uint32_t weight : weights) total += weight;
  const auto buffer = order::Exemplars::make(ids({3, 14, 15, 92, 65, 35, 89}), weights);
  const order::Rehearsal rehearsal(buffer, {2, 3}, 4);
  for (std::uint64_t round = 0; round < 500; ++round) {
    const std::vector<SampleId> samples = drawn(rehearsal, 7 * round, 7);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto came = std::count(samples.begin(), samples.end(), buffer->samples[i]);
      const double due = 7.0 * weights[i] / total;
      REQUIRE(came >= static_cast<std::ptrdiff_t>(due));
      REQUIRE(came <= static_cast<std::ptrdiff_t>(due) + 1);
      if (weights[i] == 0) REQUIRE(came == 0);
    }
  }
}

TEST_CASE(
    "without any weight above 0 all exemplars are drawn alike, and weights are in the digest") {
  const std::vector<SampleId> samples = ids({3, 14, 15});
  const auto plain = order::Exemplars::make(samples);
  CHECK(order::Exemplars::make(samples, {0, 0, 0})->digest == plain->digest);
  CHECK(order::Exemplars::make(samples, {1, 1, 1})->digest != plain->digest);
  CHECK(order::Exemplars::make(samples, {1, 1, 2})->digest !=
        order::Exemplars::make(samples, {1, 1, 1})->digest);
  CHECK(exemplars({3, 14, 15})->digest == plain->digest);
}

}  // namespace batchflow::test::rehearsal_test
