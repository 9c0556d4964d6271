// A cluster of one node in memory, for tests of the whole engine: it carries out every command a
// few steps late, in an order drawn from its seed, and believes nothing but commands. What ranks
// are handed is read from the slots that were really written, so a slot that is given away too
// early, a block that was never made or a sample delivered twice is seen.
//
// Three jobs on one dataset, two of them relaxed (one with two ranks) and one strict, with batches
// of 5, 8 and 12 samples over blocks of 8. BATCHFLOW_TRACE=1 prints all events and commands.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/random.h"
#include "core/engine/engine.h"
#include "core/log/event_codec.h"
#include "core/order/order.h"

namespace batchflow::test {

struct WorldPlan {
  engine::EngineConfig config;
  std::uint64_t samples = 100;
  std::uint32_t epochs = 2;
  Bytes dram = 220'000;  // less than all forms of all samples
  std::vector<Bytes> gpus = {};
  std::uint64_t seed = 1;
  std::uint32_t jobs = 3;
  bool strict = false;  // all jobs
  // Beside the jobs a keyed job asks for these, in this order, so many of them at a time.
  std::vector<SampleId> keys = {};
  std::uint32_t keys_at_once = 4;
  // No worker can decode these. For worlds without jobs beside that one.
  std::set<SampleId> corrupt = {};
  // One in so many preparations is very late, fails, or loses its worker; 0: none.
  std::uint32_t late_one_in = 0;
  std::uint32_t failed_one_in = 0;
  std::uint32_t lost_one_in = 0;
  // After one in so many, decoded samples turn out to be of another size.
  std::uint32_t resized_one_in = 0;
};

class SmallWorld {
 public:
  static constexpr Bytes kSampleBytes = 1000;
  static constexpr std::uint32_t kBlockSamples = 8;

  SmallWorld(const WorldPlan& plan, const engine::PolicyList& policies)
      : plan_(plan), random_(hash(plan.seed, 8)), engine_(config_of(plan), policies, fill()) {
    add(engine::CatalogueKnown{kDataset, 7});
    add(engine::PipelineKnown{kPipeline, 9});
    add(engine::NodeJoined{kNode, 4});
    add(engine::CapacityChanged{{kNode, Tier::dram, 0}, plan.dram});
    for (std::uint16_t gpu = 0; gpu < plan.gpus.size(); ++gpu)
      add(engine::CapacityChanged{{kNode, Tier::gpu, gpu}, plan.gpus[gpu]});
    for (std::uint32_t i = 0; i < 4; ++i) add(engine::WorkerJoined{WorkerId(i), kNode});
    for (std::uint32_t i = 0; i < plan.jobs; ++i) join(i);
    if (!plan.keys.empty()) join_keyed();
  }

  // Until all jobs have had all their epochs. False: nothing is under way any more, or the limit of
  // steps was reached.
  bool run(int steps = 20'000) {
    while (finished_ < plan_.jobs || answered_ < plan_.keys.size()) {
      if (steps-- == 0 || !step()) return false;
    }
    check_all_delivered();
    return true;
  }
  // One step; false when there was no reason for one.
  bool step() {
    if (pending_.empty() && timer_ == kNever) return false;
    now_ = pending_.empty() ? std::max(now_, timer_) : now_ + Duration(1'000'000);
    if (timer_ <= now_) timer_ = kNever;
    const std::uint64_t due = pending_.empty() ? 0 : pending_.begin()->first;
    clock_ = std::max(clock_ + 1, due);
    std::vector<engine::Event> events;
    while (!pending_.empty() && pending_.begin()->first <= clock_) {
      events.push_back(pending_.begin()->second);
      pending_.erase(pending_.begin());
    }
    for (const engine::Event& event : events) happen(event);
    for (const engine::Event& event : events) trace("", event);
    const std::uint64_t operations = engine_.counters().operations;
    const auto commands = engine_.step(now_, events);
    digest_.add(commands);
    for (const engine::Command& command : commands) {
      trace("  > ", command);
      std::visit([&](const auto& one) { carry_out(one); }, command);
    }
    engine_.check_consistency();
    operations_most_ = std::max(operations_most_, engine_.counters().operations - operations);
    ++steps_;
    return true;
  }

  void change_policy(const std::string& text) {
    texts_.push_back(text);
    add(engine::PolicyChanged{texts_.back()});
  }
  void change_setting(const std::string& text) {
    texts_.push_back(text);
    add(engine::ConfigurationChanged{texts_.back()});
  }
  void leave(std::uint32_t job) { add(engine::JobLeft{JobId(job)}); }
  void keep(engine::Keep how) { add(engine::DatasetKept{kDataset, how}); }
  void measure_decoded(Bytes bytes, DatasetId dataset = kDataset) {
    REQUIRE_FALSE(decoded_in_.is_none());
    add(engine::DecodedMeasured{dataset, decoded_in_, bytes});
  }
  void add(const engine::Event& event, std::uint64_t delay = 0) {
    pending_.emplace(clock_ + 1 + delay, event);
  }

  engine::Engine& engine() { return engine_; }
  std::uint64_t digest() const { return digest_.value(); }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t deliveries() const { return deliveries_; }
  // Commands that move bytes: Read, Prepare, Transfer, Deliver.
  std::uint64_t moves() const { return moves_; }
  std::uint64_t refusals() const { return refusals_; }
  // Samples that a job was handed again with the draws it had them with.
  std::uint64_t repeats() const { return repeats_; }
  // Of samples that were kept, in whatever form.
  std::uint64_t samples_dropped() const { return samples_dropped_; }
  // Keys that were asked for and given, and how often a sample was decoded.
  std::uint64_t answered() const { return answered_; }
  std::uint64_t decoded(SampleId sample) const {
    const auto found = decoded_.find(sample.value);
    return found == decoded_.end() ? 0 : found->second;
  }
  // From the store.
  std::uint64_t samples_read() const { return samples_read_; }
  std::uint64_t adoptions() const { return adoptions_; }
  // Of the memory of a GPU: what is kept there, and how many samples were read from there.
  std::size_t kept_on(std::uint16_t gpu) const { return on_gpu(gpu).size(); }
  std::uint64_t read_from_gpus() const { return read_from_gpus_; }
  std::uint64_t operations_most() const { return operations_most_; }

 private:
  static constexpr DatasetId kDataset{1};
  static constexpr PipelineId kPipeline{1};
  static constexpr NodeId kNode{1};
  using SlotKey = std::pair<std::uint32_t, std::uint32_t>;  // share, slot
  struct Content {
    std::vector<SampleId> samples;
    std::uint64_t written = 0;  // the number of the preparation
  };
  struct Copy {
    SlotKey from, to;
    order::Slice slice;
    std::uint32_t offset;
    std::uint64_t written;
  };
  struct Lent {  // a block that a rank reads in place
    SlotKey slot;
    std::uint64_t written;
  };
  using BatchKey = std::tuple<std::uint32_t, Rank, std::uint64_t>;

  template <class What>
  void trace(const char* mark, const What& what) const {
    if (trace_) std::cerr << clock_ << " " << mark << log::describe(what) << "\n";
  }
  static engine::EngineConfig config_of(const WorldPlan& plan) {
    engine::EngineConfig config = plan.config;
    config.block_bytes = kBlockSamples * kSampleBytes;
    config.item_slot_bytes = kSampleBytes;
    return config;
  }
  const engine::Catalogues& fill() {
    catalogues_.add(kDataset, engine::Catalogue::uniform("small", 7, plan_.samples, kSampleBytes));
    engine::PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.prefix_hash = 5;
    pipeline.has_random = true;
    pipeline.decoded_bytes = kSampleBytes;
    pipeline.prepared_bytes = kSampleBytes;
    catalogues_.add(kPipeline, pipeline);
    return catalogues_;
  }

  void join(std::uint32_t number) {
    static constexpr std::uint32_t kBatch[] = {5, 8, 12};
    ranks_.emplace_back(number == 1 ? 2 : 1, kNode);
    engine::JobJoined event;
    event.job = JobId(number);
    event.dataset = kDataset;
    event.pipeline = kPipeline;
    event.order = number == 2 || plan_.strict ? Order::strict : Order::relaxed;
    event.batch_samples = kBatch[number % 3];
    event.epochs = plan_.epochs;
    event.ranks = ranks_.back();
    add(event, 10 * number);
    seen_.emplace_back(plan_.epochs, std::vector<std::uint32_t>(plan_.samples, 0));
  }

  JobId keyed_job() const { return JobId(plan_.jobs); }
  void join_keyed() {
    ranks_.emplace_back(1, kNode);
    engine::JobJoined event;
    event.job = keyed_job();
    event.dataset = kDataset;
    event.pipeline = kPipeline;
    event.order = Order::live;
    event.keyed = true;
    event.credits = plan_.keys_at_once;
    event.ranks = ranks_.back();
    add(event);
  }
  // Asks for the next `count` keys; later ones must not come before them.
  void ask(std::size_t count, std::uint64_t delay) {
    const auto keys = std::span<const SampleId>(plan_.keys).subspan(sent_);
    const auto now = keys.first(std::min(count, keys.size()));
    sent_ += now.size();
    if (!now.empty()) add(engine::SamplesWanted{keyed_job(), 0, now, {}, {}}, delay);
  }
  void take_answer(const engine::Deliver& command, const Content& content) {
    const SampleId key = plan_.keys.at(answered_);
    REQUIRE(command.samples.size() == 1);
    REQUIRE(command.slices.size() == 1);
    CHECK(command.samples.front() == key);
    if (plan_.corrupt.count(key) > 0) {
      CHECK(content.samples.empty());
    } else {
      CHECK(content.samples.at(command.slices.front().from) == key);
    }
    ++answered_;
  }

  // --------------------------------------------------------------------- what was commanded ----

  void later(const engine::Event& event, std::uint64_t least = 0) {
    add(event, least + random_.below(3));
  }
  template <class Command>
  void carry_out(const Command&) {}
  void carry_out(const engine::Admit& command) {
    for (Rank rank = 0; rank < ranks_[command.job.value].size(); ++rank) {
      later(engine::BatchWanted{command.job, rank, command.credits});
    }
    if (!plan_.keys.empty() && command.job == keyed_job()) ask(command.credits, 0);
  }
  void carry_out(const engine::Refuse&) { ++refusals_; }
  void carry_out(const engine::Adopt& command) {
    ++adoptions_;
    places_[command.share.value] = command.place;
  }
  std::set<std::uint64_t> on_gpu(std::uint16_t gpu) const {
    const auto found = kept_.find({kNode, Tier::gpu, gpu});
    return found == kept_.end() ? std::set<std::uint64_t>() : found->second;
  }
  // What a preparation has decoded is there once it is done.
  void keep(const engine::Prepare& command) {
    const auto place = places_.find(command.decoded_share.value);
    keeping_.erase(command.request.id.value);  // of an attempt that failed
    if (place == places_.end() || place->second.tier != Tier::gpu) return;
    for (const engine::Ingredient& one : command.ingredients)
      if (one.keep_decoded)
        keeping_[command.request.id.value].push_back({place->second, one.sample});
  }
  void carry_out(const engine::MixtureSet&) {}
  void carry_out(const engine::ExemplarsSet&) {}
  void carry_out(const engine::SourcePaced&) {}
  void carry_out(const engine::Read& command) {
    ++moves_;
    if (command.from.tier == Tier::store)
      samples_read_ += command.samples.empty() ? command.lineage.samples : command.samples.size();
    if (command.from.tier == Tier::gpu) {
      read_from_gpus_ += command.samples.size();
      CHECK(command.form == Form::decoded);
      for (const SampleId sample : command.samples)
        CHECK(kept_[command.from].count(sample.value) == 1);
    }
    later(engine::ReadDone{command.request, {}, {}});
  }
  void carry_out(const engine::Prepare& command) {
    ++moves_;
    keep(command);
    const SlotKey slot{command.share.value, command.slot.value};
    // Further attempts go on where the first was: what failed, or the next part of the block.
    if (command.request.attempt == 0) {
      REQUIRE_MESSAGE(content_.count(slot) == 0, "a slot is written that is not free");
      content_[slot] = {};  // taken, nothing in it
    }
    std::vector<SampleId>& samples = making_[command.request.id.value].samples;
    if (order::valid_lineage(command.lineage, plan_.samples)) {
      expander_.expand(command.lineage, plan_.samples, samples);
    } else {  // a policy has chosen them: the part's come with the command
      std::vector<SampleId>& chosen = chosen_[command.request.id.value];
      chosen.resize(command.lineage.samples);
      for (const engine::Ingredient& one : command.ingredients) chosen.at(one.index) = one.sample;
      samples = chosen;
    }
    for (const engine::Ingredient& one : command.ingredients)
      if (one.form == Form::encoded) ++decoded_[one.sample.value];
    making_slot_[command.request.id.value] = slot;
    if (std::any_of(samples.begin(), samples.end(),
                    [&](SampleId one) { return plan_.corrupt.count(one) > 0; })) {
      failed_samples_.push_back(samples);
      making_.erase(command.request.id.value);
      return later(engine::PreparationDone{command.request, engine::Outcome::corrupt,
                                           failed_samples_.back()});
    }
    if (one_in(plan_.lost_one_in)) return lose(command);
    const std::uint64_t late = one_in(plan_.late_one_in) ? 100 + random_.below(100) : 0;
    const bool fails = one_in(plan_.failed_one_in);
    if (fails) making_.erase(command.request.id.value);
    if (!command.decoded_share.is_none()) decoded_in_ = command.decoded_share;
    if (!decoded_in_.is_none() && one_in(plan_.resized_one_in))
      measure_decoded(1 + random_.below(5 * kSampleBytes));
    later(
        engine::PreparationDone{
            command.request, fails ? engine::Outcome::failed : engine::Outcome::done, {}},
        late);
  }
  bool one_in(std::uint32_t count) { return count != 0 && random_.below(count) == 0; }
  // The worker does not answer, may yet write, is found to be quiet, and another takes its place.
  void lose(const engine::Prepare& command) {
    making_.erase(command.request.id.value);
    const std::uint64_t noticed = 1 + random_.below(150);
    const std::uint64_t quiet = noticed + random_.below(50);
    add(engine::WorkerLost{command.worker}, noticed);
    add(engine::WorkerQuiesced{command.worker}, quiet);
    add(engine::WorkerJoined{WorkerId(workers_++), kNode}, quiet + 1);
  }
  void carry_out(const engine::Transfer& command) {
    ++moves_;
    const SlotKey from{command.from_share.value, command.from_slot.value};
    copies_[command.request.id.value] = {from,
                                         {command.to_share.value, command.to_slot.value},
                                         command.slice,
                                         command.offset_samples,
                                         content_.at(from).written};
    later(engine::TransferDone{command.request, {}});
  }
  void carry_out(const engine::Drop& command) {
    if (command.form == Form::prepared) {
      content_.erase({command.share.value, command.slot.value});
    } else {
      ++samples_dropped_;
      if (command.place.tier == Tier::gpu)
        CHECK(kept_[command.place].erase(command.item.value) == 1);
    }
  }
  void carry_out(const engine::SetTimer& command) { timer_ = std::min(timer_, command.at); }
  void carry_out(const engine::EpochEnded& command) {
    CHECK(command.samples == plan_.samples);
    if (command.epoch + 1 == plan_.epochs) ++finished_;
  }
  void carry_out(const engine::Deliver& command) {
    ++moves_;
    ++deliveries_;
    const SlotKey slot{command.share.value, command.slot.value};
    const Content& content = command.in_place ? content_.at(slot) : batches_.at(slot);
    std::uint32_t at = 0;
    const bool is_answer = !plan_.keys.empty() && command.job == keyed_job();
    if (is_answer) take_answer(command, content);
    for (const order::Slice& slice : command.slices) {
      if (is_answer) break;
      if (command.in_place) at = slice.from;
      for (std::uint32_t i = slice.from; i < slice.to; ++i, ++at) {
        const SampleId sample = content.samples.at(at);
        if (slice.filler) continue;
        ++seen_[command.job.value][command.epoch][sample.value];
        const bool fresh = draws_.insert({command.job.value, slice.name, i}).second;
        repeats_ += fresh ? 0 : 1;
      }
    }
    if (command.in_place) {
      lent_[{command.job.value, command.rank, command.step}] = {slot, content.written};
    }
    // A rank trains on its batches one after the other; it may let go of them in any order.
    std::uint64_t& trained = trained_[{command.job.value, command.rank}];
    trained = std::max(trained, clock_ + 3) + 1 + random_.below(3);
    later(engine::DeliveryDone{command.request, {}});
    add(engine::BatchConsumed{command.job, command.rank, command.step, Duration(1'000'000)},
        trained - clock_);
    if (is_answer) ask(1, trained - clock_);
    const std::uint64_t released = trained - clock_ + 1 + random_.below(5);
    add(engine::SlotReleased{command.job, command.rank, command.step}, released);
    add(engine::BatchWanted{command.job, command.rank, 1}, released + random_.below(2));
  }

  // ---------------------------------------------------------------------- what has happened ----

  void happen(const engine::Event& event) {
    if (const auto* made = std::get_if<engine::PreparationDone>(&event)) {
      const auto found = making_.find(made->request.id.value);
      if (made->outcome != engine::Outcome::done) return;
      Content& content = content_.at(making_slot_.at(made->request.id.value));
      content = std::move(found->second);
      content.written = ++written_;
      making_.erase(found);
      for (const auto& [place, sample] : keeping_[made->request.id.value])
        CHECK(kept_[place].insert(sample.value).second);
      keeping_.erase(made->request.id.value);
    } else if (const auto* copied = std::get_if<engine::TransferDone>(&event)) {
      const Copy& copy = copies_.at(copied->request.id.value);
      const Content& from = content_.at(copy.from);
      CHECK_MESSAGE(from.written == copy.written, "a slot was given away while it was copied");
      auto& to = batches_[copy.to].samples;
      const std::uint32_t count = copy.slice.to - copy.slice.from;
      if (to.size() < copy.offset + count) to.resize(copy.offset + count);
      for (std::uint32_t i = 0; i < count; ++i) {
        to[copy.offset + i] = from.samples.at(copy.slice.from + i);
      }
    } else if (const auto* released = std::get_if<engine::SlotReleased>(&event)) {
      const auto lent = lent_.find({released->job.value, released->rank, released->step});
      if (lent == lent_.end()) return;
      CHECK_MESSAGE(content_.at(lent->second.slot).written == lent->second.written,
                    "a slot was given away while a rank read it");
      lent_.erase(lent);
    }
  }

  void check_all_delivered() {
    for (std::size_t job = 0; job < seen_.size(); ++job) {
      for (std::size_t epoch = 0; epoch < seen_[job].size(); ++epoch) {
        for (std::size_t sample = 0; sample < plan_.samples; ++sample) {
          if (seen_[job][epoch][sample] == 1) continue;
          FAIL_CHECK("job " << job << " had sample " << sample << " in epoch " << epoch << " "
                            << seen_[job][epoch][sample] << " times");
          return;
        }
      }
    }
  }

  const bool trace_ = std::getenv("BATCHFLOW_TRACE") != nullptr;
  WorldPlan plan_;
  Random random_;
  engine::Catalogues catalogues_;
  engine::Engine engine_;
  std::map<std::uint64_t, std::vector<SampleId>> chosen_;  // of blocks, by request
  order::Expander expander_;
  log::CommandDigest digest_;
  Instant now_{};
  Instant timer_ = kNever;
  std::uint64_t clock_ = 0;
  std::multimap<std::uint64_t, engine::Event> pending_;  // by the step in which they happen
  std::deque<std::vector<NodeId>> ranks_;
  std::deque<std::string> texts_;
  std::deque<std::vector<SampleId>> failed_samples_;
  std::map<SlotKey, Content> content_;  // of slots of blocks
  std::map<SlotKey, Content> batches_;  // of slots of gathered batches
  std::map<std::uint64_t, Content> making_;
  std::map<std::uint64_t, SlotKey> making_slot_;
  std::map<std::uint64_t, Copy> copies_;
  std::map<BatchKey, Lent> lent_;
  std::map<std::pair<std::uint32_t, Rank>, std::uint64_t> trained_;  // until which step it trains
  std::vector<std::vector<std::vector<std::uint32_t>>> seen_;        // job, epoch, sample: times
  std::set<std::tuple<std::uint32_t, order::BlockName, std::uint32_t>>
      draws_;  // job, block, place in it
  std::uint64_t repeats_ = 0;
  ShareId decoded_in_ = ShareId::none();
  std::uint64_t written_ = 0;
  std::uint64_t deliveries_ = 0;
  std::uint64_t moves_ = 0;
  std::uint64_t refusals_ = 0;
  std::uint64_t samples_dropped_ = 0;
  std::uint64_t samples_read_ = 0;
  std::uint64_t adoptions_ = 0;
  std::map<std::uint32_t, Place> places_;          // of shares, as commands have told
  std::map<Place, std::set<std::uint64_t>> kept_;  // samples on GPUs
  std::map<std::uint64_t, std::vector<std::pair<Place, SampleId>>> keeping_;  // by preparation
  std::uint64_t read_from_gpus_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t operations_most_ = 0;
  std::map<std::uint64_t, std::uint64_t> decoded_;  // by sample: times
  std::size_t sent_ = 0;                            // keys that were asked for
  std::size_t answered_ = 0;                        // and given
  std::uint32_t finished_ = 0;
  std::uint32_t workers_ = 4;
};

// The configuration with one policy changed, as PolicyChanged would.
inline engine::EngineConfig with_policy(engine::PolicyKind kind, const std::string& text) {
  engine::EngineConfig config;
  switch (kind) {
    case engine::PolicyKind::allocation:
      config.policies.allocation = text;
      break;
    case engine::PolicyKind::eviction:
      config.policies.eviction.fill(text);
      break;
    case engine::PolicyKind::selection:
      config.policies.selection = text;
      break;
    case engine::PolicyKind::dispatch:
      config.policies.dispatch = text;
      break;
    case engine::PolicyKind::scaling:
      config.policies.scaling = text;
      break;
    case engine::PolicyKind::rehearsal:
    case engine::PolicyKind::mixture:
      break;  // of a job, and not of the engine
  }
  return config;
}

// To the end; no policy and no backend has broken a rule.
inline void run_by_the_rules(SmallWorld& world) {
  REQUIRE(world.run());
  CHECK(world.engine().counters().refused_proposals == 0);
  CHECK(world.engine().counters().protocol_errors == 0);
}

}  // namespace batchflow::test
