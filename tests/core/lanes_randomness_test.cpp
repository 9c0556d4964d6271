// How random a relaxed order is: where a late joiner meets each sample, whether what is cached
// moves samples about, which samples meet again in the next epoch, what a batch is a mix of. Each
// statistic has a canary: an order with a known fault that it must tell from a right one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/order/order.h"
#include "tests/core/order_simulation.h"

namespace batchflow::test::lanes_randomness_test {

namespace {

using Ids = std::vector<SampleId>;

OrderSimulation::Options options_of(std::uint64_t seed, std::uint64_t samples,
                                    std::uint32_t block_samples, std::uint32_t lanes,
                                    std::size_t window_blocks) {
  OrderSimulation::Options options;
  options.lanes.dataset_version = hash(seed, 1);
  options.lanes.seed = hash(seed, 2);
  options.lanes.sizes = {samples, block_samples, 1};
  const std::uint64_t blocks = options.lanes.sizes.blocks();
  options.lanes.sizes.lane_blocks = static_cast<std::uint32_t>((blocks + lanes - 1) / lanes);
  options.window_blocks = window_blocks;
  return options;
}

class BlockIds {
 public:
  explicit BlockIds(const order::Lanes::Options& options) : options_(options) {}
  void append(const order::BlockName& name, Ids& ids) {
    const order::KeyRoot root{options_.dataset_version, options_.seed};
    const order::GenerationOrder order{Order::relaxed, root, name.generation, options_.sizes};
    expander_.expand(order.lineage(name, DatasetId(0), PipelineId(0), 0), options_.sizes.samples,
                     block_);
    ids.insert(ids.end(), block_.begin(), block_.end());
  }

 private:
  order::Lanes::Options options_;
  order::Expander expander_;
  Ids block_;
};

// The sequences of the next `epochs` whole epochs of `job`.
std::vector<Ids> epochs_of(OrderSimulation& simulation, const order::Lanes::Options& options,
                           std::size_t job, std::size_t epochs) {
  BlockIds block_ids(options);
  std::vector<Ids> sequences(1);
  while (sequences.size() <= epochs) {
    const OrderSimulation::Taken taken = simulation.step();
    if (taken.job != job) continue;
    block_ids.append(taken.name, sequences.back());
    if (taken.epoch_ended) sequences.emplace_back();
  }
  sequences.pop_back();
  return sequences;
}

// -------------------------------------------------------------------- a late joiner's indices ----

constexpr std::size_t kParts = 16;
using PlaceTable = std::vector<std::uint64_t>;  // sixteenth of the ids x sixteenth of the epoch

void count(PlaceTable& table, const Ids& epoch) {
  for (std::size_t index = 0; index < epoch.size(); ++index)
    ++table[epoch[index].value * kParts / epoch.size() * kParts + index * kParts / epoch.size()];
}

double chi_square(const PlaceTable& table) {
  const double expected =
      static_cast<double>(std::accumulate(table.begin(), table.end(), std::uint64_t{0})) /
      static_cast<double>(table.size());
  double sum = 0;
  for (const std::uint64_t cell : table) {
    const double excess = static_cast<double>(cell) - expected;
    sum += excess * excess / expected;
  }
  return sum;
}

struct LateJoin {
  double speed;
  bool remainder_by_id = false;  // canary: the last eighth comes in order of ids
};

double late_joiner_chi_square(const LateJoin& join, std::uint64_t runs) {
  constexpr std::uint64_t kSamples = 4096;
  PlaceTable table(kParts * kParts);
  for (std::uint64_t run = 0; run < runs; ++run) {
    const auto options = options_of(hash(run, 7), kSamples, 4, 32, 32);
    OrderSimulation simulation(options);
    simulation.join(0, 1);
    Random random(hash(run, 8));
    const std::uint64_t epoch_ticks =
        options.lanes.sizes.blocks() * OrderSimulation::kTicksPerBlock;
    const std::size_t late = simulation.join(random.below(2 * epoch_ticks), join.speed);
    Ids epoch = epochs_of(simulation, options.lanes, late, 1).front();
    if (join.remainder_by_id) std::sort(epoch.end() - kSamples / 8, epoch.end());
    count(table, epoch);
  }
  return chi_square(table);
}

// --------------------------------------------------------------------------- bias by caching ----

bool is_cached(SampleId sample) {
  return (mix(sample.value) & 1) != 0;
}

std::size_t cached_of(const Ids& block) {
  return static_cast<std::size_t>(std::count_if(block.begin(), block.end(), is_cached));
}

// Of a 0/1 trait and the index in the sequence.
double trait_correlation(const std::vector<Ids>& epochs) {
  double n = 0, traits = 0, indices = 0, indices_squared = 0, both = 0;
  for (const Ids& epoch : epochs) {
    for (std::size_t index = 0; index < epoch.size(); ++index) {
      const double trait = is_cached(epoch[index]) ? 1 : 0;
      const double x = static_cast<double>(index) / static_cast<double>(epoch.size());
      ++n, traits += trait, indices += x, indices_squared += x * x, both += trait * x;
    }
  }
  const double covariance = both / n - traits / n * (indices / n);
  const double trait_variance = traits / n * (1 - traits / n);
  const double index_variance = indices_squared / n - indices / n * (indices / n);
  return covariance / std::sqrt(trait_variance * index_variance);
}

constexpr std::uint64_t kImageNet = 1'281'167;

// One job with a selection that always takes the ready block with the most cached samples.
double bias_of_most_cached_first(std::uint32_t ready_window, std::size_t epochs) {
  auto options = options_of(3, kImageNet, 256, 32, SIZE_MAX);
  options.lanes.ready_window = ready_window;
  options.look_ahead = ready_window;
  OrderSimulation simulation(options);
  BlockIds block_ids(options.lanes);
  std::vector<std::uint32_t> known(options.lanes.sizes.blocks(), 0);  // of this epoch: cached + 1
  simulation.chooser = [&](const order::Lanes& lanes,
                           const std::vector<order::Lanes::Candidate>& candidates) {
    std::size_t best = 0;
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const order::BlockName name = lanes.name(candidates[i].block);
      std::uint32_t& cached = known[name.lane * options.lanes.sizes.lane_blocks + name.block];
      if (cached == 0) {
        Ids ids;
        block_ids.append(name, ids);
        cached = static_cast<std::uint32_t>(cached_of(ids)) + 1;
      }
      if (cached > most) most = cached, best = i;
    }
    const order::BlockName name = lanes.name(candidates[best].block);
    known[name.lane * options.lanes.sizes.lane_blocks + name.block] = 0;
    return best;
  };
  simulation.join(0, 1);
  return trait_correlation(epochs_of(simulation, options.lanes, 0, epochs));
}

// Canary: lanes in the order of how much of them is cached, each from its beginning to its end.
double bias_of_lanes_ranked_by_cache(std::size_t epochs) {
  const order::Lanes::Options options = options_of(3, kImageNet, 256, 32, SIZE_MAX).lanes;
  BlockIds block_ids(options);
  std::vector<Ids> sequences;
  for (std::uint64_t generation = 0; generation < epochs; ++generation) {
    std::vector<Ids> lanes(options.sizes.lanes());
    for (std::uint32_t lane = 0; lane < lanes.size(); ++lane)
      for (std::uint32_t block = 0; block < options.sizes.blocks_of(lane); ++block)
        block_ids.append({generation, lane, 0, block}, lanes[lane]);
    std::sort(lanes.begin(), lanes.end(), [](const Ids& a, const Ids& b) {
      return cached_of(a) * b.size() > cached_of(b) * a.size();
    });
    sequences.emplace_back();
    for (const Ids& lane : lanes)
      sequences.back().insert(sequences.back().end(), lane.begin(), lane.end());
  }
  return trait_correlation(sequences);
}

// ----------------------------------------------------------------------------------- batches ----

constexpr std::size_t kBatch = 256;

// Pairs of samples in one batch that meet again in one batch of the next epoch, over chance.
double repeat_pair(const std::vector<Ids>& epochs) {
  std::uint64_t met = 0, pairs = 0;
  const std::size_t samples = epochs.front().size();
  std::vector<std::uint32_t> next_batch(samples);
  std::vector<std::uint32_t> batches;
  for (std::size_t e = 0; e + 1 < epochs.size(); ++e) {
    for (std::size_t index = 0; index < samples; ++index)
      next_batch[epochs[e + 1][index].value] = static_cast<std::uint32_t>(index / kBatch);
    for (std::size_t first = 0; first < samples; first += kBatch) {
      const std::size_t size = std::min(kBatch, samples - first);
      batches.clear();
      for (std::size_t i = 0; i < size; ++i)
        batches.push_back(next_batch[epochs[e][first + i].value]);
      std::sort(batches.begin(), batches.end());
      for (std::size_t i = 0, run = 0; i < size; ++i) {
        run = i > 0 && batches[i] == batches[i - 1] ? run + 1 : 0;
        met += run;
      }
      pairs += size * (size - 1) / 2;
    }
  }
  const double chance = static_cast<double>(kBatch - 1) / static_cast<double>(samples - 1);
  return static_cast<double>(met) / (static_cast<double>(pairs) * chance);
}

// Chi-square per degree of the 100 storage percentiles within a batch.
double mix_of(const std::vector<Ids>& epochs) {
  double sum = 0;
  std::size_t batches = 0;
  for (const Ids& epoch : epochs) {
    for (std::size_t first = 0; first + kBatch <= epoch.size(); first += kBatch, ++batches) {
      std::vector<std::uint64_t> percentiles(100, 0);
      for (std::size_t i = first; i < first + kBatch; ++i)
        ++percentiles[epoch[i].value * 100 / epoch.size()];
      sum += chi_square(percentiles) / 99;
    }
  }
  return sum / static_cast<double>(batches);
}

// Five epochs of two jobs, the second `offset` of an epoch behind.
std::vector<Ids> five_epochs(double offset, std::uint32_t generation_epochs) {
  auto options = options_of(5, kImageNet, 256, 32, 157);
  options.lanes.generation_epochs = generation_epochs;
  OrderSimulation simulation(options);
  simulation.join(0, 1);
  const double blocks = static_cast<double>(options.lanes.sizes.blocks());
  simulation.join(static_cast<std::uint64_t>(offset * blocks) * OrderSimulation::kTicksPerBlock, 1);
  epochs_of(simulation, options.lanes, 0, 1);
  return epochs_of(simulation, options.lanes, 0, 5);
}

// Canary: blocks keep their samples; only their order changes.
std::vector<Ids> membership_kept(const Ids& first, std::size_t epochs) {
  std::vector<Ids> sequences{first};
  std::vector<std::size_t> blocks(first.size() / kBatch);
  std::iota(blocks.begin(), blocks.end(), 0);
  Random random(11);
  while (sequences.size() < epochs) {
    shuffle<std::size_t>(blocks, random);
    Ids next;
    for (const std::size_t block : blocks)
      for (std::size_t i = 0; i < kBatch; ++i) next.push_back(first[block * kBatch + i]);
    next.insert(next.end(), first.begin() + static_cast<std::ptrdiff_t>(next.size()), first.end());
    sequences.push_back(next);
  }
  return sequences;
}

// Chi-square, df 225: beyond this once in a million.
constexpr double kPlacesMost = 340.8;

}  // namespace

TEST_SUITE("figures") {
  TEST_CASE("a late joiner meets each sample anywhere") {
    for (const double speed : {1.0, 0.37, 2.3}) {
      const double found = late_joiner_chi_square({speed}, 150);
      MESSAGE("speed " << speed << ": chi-square " << found << ", df 225");
      CHECK(found < kPlacesMost);
    }
    CHECK(late_joiner_chi_square({1.0, true}, 150) > kPlacesMost);  // canary
  }

  TEST_CASE("what is cached does not move samples about") {
    const double bias = bias_of_most_cached_first(16, 1);
    MESSAGE("correlation of being cached with the index: " << bias);
    CHECK(std::abs(bias) < .003);
  }

  TEST_CASE("in step, batches are as random as a shuffle's") {
    std::vector<Ids> epochs = five_epochs(0, 8);
    epochs.resize(2);
    const double pairs = repeat_pair(epochs);
    const double mixed = mix_of(epochs);
    MESSAGE("repeat-pair " << pairs << ", mix " << mixed);
    CHECK(std::abs(pairs - 1) < .05);
    CHECK(std::abs(mixed - 1) < .01);
  }
}

TEST_SUITE("long") {
  TEST_CASE("a late joiner meets each sample anywhere, 1000 runs") {
    for (const double speed : {1.0, 0.37, 2.3}) {
      const double found = late_joiner_chi_square({speed}, 1000);
      MESSAGE("speed " << speed << ": chi-square " << found << ", df 225");
      CHECK(found < kPlacesMost);
    }
  }

  TEST_CASE("what is cached does not move samples about, 6 epochs") {
    const double bias = bias_of_most_cached_first(16, 6);
    const double whole_epoch = bias_of_most_cached_first(1u << 20, 2);
    const double ranked_lanes = bias_of_lanes_ranked_by_cache(6);
    MESSAGE("correlation " << bias << "; over the whole epoch " << whole_epoch << ", lanes ranked "
                           << ranked_lanes);
    CHECK(std::abs(bias) < .003);
    CHECK(std::abs(whole_epoch) > .05);    // canaries
    CHECK(std::abs(whole_epoch) < .0625);  // 1 / sqrt(B): no choice can do worse
    CHECK(std::abs(ranked_lanes) > .003);
  }

  TEST_CASE("in step, batches are as random as a shuffle's, 5 epochs") {
    const std::vector<Ids> in_step = five_epochs(0, 8);
    const double pairs = repeat_pair(in_step);
    const double mixed = mix_of(in_step);
    const double kept = repeat_pair(membership_kept(in_step.front(), 5));
    const double frozen = repeat_pair(five_epochs(.5, UINT32_MAX));
    std::vector<Ids> sorted(1, in_step.front());
    std::sort(sorted.front().begin(), sorted.front().end());
    MESSAGE("repeat-pair " << pairs << ", mix " << mixed << "; membership kept " << kept
                           << ", lanes frozen " << frozen);
    CHECK(std::abs(pairs - 1) < .05);
    CHECK(std::abs(mixed - 1) < .01);
    CHECK(kept > 2500);  // canaries
    CHECK(frozen > 25);
    CHECK(mix_of(sorted) > 90);
  }
}

}  // namespace batchflow::test::lanes_randomness_test
