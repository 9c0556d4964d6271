// What hostile events are made of: the datasets, pipelines and settings that an engine is given,
// and values that are right, nearly right, or any number there is. How often they are is drawn from
// the seed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/arena.h"
#include "core/base/random.h"
#include "core/engine/catalogue.h"
#include "core/engine/engine_config.h"
#include "core/engine/event.h"
#include "core/order/position.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test {

class HostileValues {
 protected:
  static constexpr std::uint32_t kDatasets = 6;
  static constexpr std::uint32_t kPipelines = 5;
  static constexpr std::uint32_t kNodes = 4;

  explicit HostileValues(std::uint64_t seed)
      : random_(hash(seed, 18)),
        noise_(std::array{0u, 200u, 30u, 6u}[random_.below(4)]),
        astray_(std::array{2u, 5u, 20u, 60u}[random_.below(4)]) {}

  // --------------------------------------------------------------------------- what there is ----

  const engine::Catalogues& fill() {
    std::string problem;
    catalogues_.add(DatasetId(0), engine::Catalogue::uniform("uniform", 100, 100, 1000));
    engine::Catalogue::Parts mixed;
    mixed.version = 101;
    mixed.samples = 37;
    for (std::uint64_t i = 0; i < mixed.samples; ++i) mixed.bytes.push_back(i * i * 10);
    catalogues_.add(DatasetId(1), *engine::Catalogue::from(mixed, problem));
    catalogues_.add(DatasetId(2), engine::Catalogue::uniform("one", 102, 1, 1));
    catalogues_.add(DatasetId(3), engine::Catalogue::uniform("many", 103, 10'000'000, 100));
    catalogues_.add(DatasetId(4), engine::Catalogue::uniform("huge", 104, 5, Bytes{1} << 60));
    catalogues_.add(DatasetId(5), engine::Catalogue::uniform("empty", 105, 64, 0));
    for (std::uint32_t i = 0; i < kPipelines; ++i) {
      engine::PipelineInfo pipeline;
      pipeline.hash = 200 + i;
      pipeline.prefix_hash = i < 2 ? 7 + i : 0;
      pipeline.has_random = i != 2;
      pipeline.decoded_bytes = i == 0 ? 1000 : i == 1 ? Bytes{1} << 61 : 0;
      pipeline.prepared_bytes =
          std::array{Bytes{1000}, Bytes{100}, Bytes{0}, Bytes{1} << 61, UINT64_MAX}[i];
      catalogues_.add(PipelineId(i), pipeline);
    }
    return catalogues_;
  }

  std::string policy(engine::PolicyKind kind) {
    const auto choices = variants_of(kind);
    return choices[random_.below(choices.size())].text();
  }

  engine::EngineConfig config() {
    engine::EngineConfig config;
    config.seed = random_.draw();
    config.block_bytes = 100 << random_.below(9);
    config.item_slot_bytes = one_in(2) ? 1000 : 1;
    config.credits = 1 + static_cast<std::uint32_t>(random_.below(3));
    config.ready_window = 1 + static_cast<std::uint32_t>(random_.below(16));
    config.generation_epochs = 1 + static_cast<std::uint32_t>(random_.below(8));
    config.share_streams = !one_in(4);
    config.share_nodes = !one_in(4);
    config.helper_nodes = static_cast<std::uint32_t>(random_.below(4));
    config.workers_per_rank = static_cast<std::uint32_t>(one_in(3) ? random_.below(3) : 0);
    config.workers_held_during_reads = one_in(3);
    config.hold_ingredients = !one_in(4);
    config.look_ahead_most = one_in(4) ? 0 : 1 << 20;
    if (one_in(2)) config.live_blocks_most = 1 + static_cast<std::uint32_t>(random_.below(8));
    config.late_after_p99 = static_cast<std::uint32_t>(random_.below(3));
    config.rank_timeout = std::chrono::seconds(1 + random_.below(3));
    if (one_in(2)) config.policies.selection = policy(engine::PolicyKind::selection);
    if (one_in(2)) config.policies.dispatch = policy(engine::PolicyKind::dispatch);
    if (one_in(2)) config.policies.scaling = policy(engine::PolicyKind::scaling);
    if (one_in(2)) config.policies.allocation = policy(engine::PolicyKind::allocation);
    if (one_in(2)) config.policies.eviction.fill(policy(engine::PolicyKind::eviction));
    return config;
  }

  // ------------------------------------------------------------------------------ any values ----

  bool one_in(std::uint64_t count) { return random_.below(count) == 0; }
  bool noise() { return noise_ != 0 && one_in(noise_); }
  // Small, large and the greatest numbers alike.
  std::uint64_t number() {
    if (one_in(8)) return UINT64_MAX - random_.below(3);
    return random_.draw() >> random_.below(64);
  }
  std::uint64_t below(std::uint64_t count) { return noise() ? number() : random_.below(count); }
  template <class Id>
  Id id(std::uint64_t count) {
    return Id(static_cast<decltype(Id::value)>(below(count)));
  }
  std::uint32_t small(std::uint64_t count) { return static_cast<std::uint32_t>(below(count)); }
  Bytes some_memory() {
    static constexpr Bytes kSizes[] = {10'000, 100'000, 3'000'000, Bytes{64} << 30};
    return one_in(20) ? number() : kSizes[random_.below(4)];
  }
  Duration duration() {
    return noise() ? Duration(static_cast<std::int64_t>(number()))
                   : Duration(random_.below(1'000'000));
  }
  template <class T, class Make>
  std::span<const T> list(std::uint64_t most, Make make) {
    const auto values = arena_.make<T>(random_.below(most + 1));
    for (T& value : values) value = make();
    return values;
  }
  SampleId sample() { return id<SampleId>(one_in(3) ? 1 : 100); }
  std::span<const SampleId> samples(std::uint64_t most) {
    return list<SampleId>(most, [&] { return sample(); });
  }
  std::span<const NodeId> ranks() {
    if (noise()) return {};
    const auto values = arena_.make<NodeId>(1 + random_.below(one_in(10) ? 80 : 4));
    for (NodeId& node : values) node = id<NodeId>(kNodes);
    return values;
  }
  Place place() {
    const Tier tier = noise()     ? Tier(random_.below(4))
                      : one_in(3) ? Tier::nvme
                      : one_in(4) ? Tier::gpu
                                  : Tier::dram;
    const std::uint64_t device = noise() ? number() : tier == Tier::gpu ? random_.below(3) : 0;
    return {id<NodeId>(kNodes), tier, static_cast<std::uint16_t>(device)};
  }
  engine::Outcome outcome() {
    return one_in(2 * astray_) ? engine::Outcome(random_.below(3)) : engine::Outcome::done;
  }

  void make_lanes(order::Position::Fields& fields) {
    order::LanePosition& lanes = fields.lanes;
    fields.consumed = 0;
    lanes.generation = one_in(4) ? number() : random_.below(4);
    lanes.sizes = {fields.samples, 1 + static_cast<std::uint32_t>(random_.below(20)),
                   1 + static_cast<std::uint32_t>(random_.below(5))};
    if (lanes.sizes.lanes() > 100'000) return;
    lanes.had = Bitmap(lanes.sizes.lanes());
    for (std::uint32_t lane = 0; lane < lanes.sizes.lanes(); ++lane) {
      const auto pass = static_cast<std::uint32_t>(random_.below(one_in(4) ? 254 : 3));
      lanes.passes.push_back(static_cast<std::uint8_t>(pass));
      if (pass == 0 || one_in(2)) continue;
      if (one_in(2) || lanes.open.size() == order::Position::kOpenLanesMost) {
        lanes.had.set(lane);
        const std::uint64_t first = lanes.sizes.first_block_of(lane) * lanes.sizes.block_samples;
        fields.consumed +=
            std::min<std::uint64_t>(fields.samples - first, std::uint64_t{lanes.sizes.lane_blocks} *
                                                                lanes.sizes.block_samples);
        continue;
      }
      if (lanes.sizes.samples_of(lane, 0) < 2) continue;
      const auto used =
          1 + static_cast<std::uint32_t>(random_.below(lanes.sizes.samples_of(lane, 0) - 1));
      lanes.open.push_back({lane, pass - 1, Bitmap(lanes.sizes.blocks_of(lane))});
      fields.part_blocks.push_back({lane, 0, used});
      fields.consumed += used;
    }
  }

  Random random_;
  std::uint32_t noise_;   // one field in so many is any number; 0: none
  std::uint32_t astray_;  // one event in so many is not what would come next
  Arena arena_;
  engine::Catalogues catalogues_;
};

}  // namespace batchflow::test
