// A digest over commands: contents, not addresses.
#include <variant>

#include "core/random.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

namespace {

struct Fold {
  std::uint64_t value;
  template <class... Words>
  void words(Words... words) {
    value = hash(value, static_cast<std::uint64_t>(words)...);
  }
  void place(const Place& p) { words(p.node.value, p.tier, p.device); }
  void request(const Request& r) { words(r.id.value, r.attempt); }
  void slice(const Slice& s) {
    words(s.name.generation, s.name.lane, s.name.pass, s.name.block, s.from, s.to, s.filler);
  }
  void replacements(std::span<const Replacement> list) {
    for (const Replacement& r : list) words(r.place, r.corrupt.value, r.used.value);
  }
  void ingredients(std::span<const Ingredient> list) {
    for (const Ingredient& i : list) {
      words(i.place, i.keep_decoded, i.form, i.sample.value, i.staging.value);
    }
  }
  void operator()(const Admit& c) { words(c.job.value, c.stream.value, c.credits, c.first_step); }
  void operator()(const Refuse& c) { words(c.job.value, c.why, c.needed, c.available); }
  void operator()(const Read& c) {
    request(c.request);
    place(c.from);
    place(c.to);
    words(c.dataset.value, c.form, c.keep.value, c.held.value, c.lineage.name.block);
    for (const SampleId sample : c.samples) words(sample.value);
  }
  void operator()(const Prepare& c) {
    request(c.request);
    words(c.worker.value, c.node.value, c.share.value, c.slot.value, c.staging.value,
          c.lineage.name.generation, c.lineage.name.lane, c.lineage.name.pass,
          c.lineage.name.block);
    ingredients(c.ingredients);
    replacements(c.replacements);
  }
  void operator()(const Transfer& c) {
    request(c.request);
    place(c.from);
    place(c.to);
    words(c.from_share.value, c.from_slot.value, c.to_share.value, c.to_slot.value,
          c.offset_samples);
    slice(c.slice);
  }
  void operator()(const Deliver& c) {
    request(c.request);
    words(c.job.value, c.rank, c.step, c.epoch, c.last_of_epoch, c.in_place, c.share.value,
          c.slot.value);
    for (const Slice& s : c.slices) slice(s);
    ingredients(c.ingredients);
    replacements(c.replacements);
  }
  void operator()(const Drop& c) {
    place(c.place);
    words(c.share.value, c.form, c.item.value, c.slot.value);
  }
  void operator()(const Cancel& c) { request(c.request); }
  void operator()(const Release& c) { request(c.request); }
  void operator()(const EpochEnded& c) { words(c.job.value, c.epoch, c.samples); }
  void operator()(const SetWorkers& c) { words(c.node.value, c.workers); }
  void operator()(const SetTimer& c) { words(c.timer.value, c.at.time_since_epoch().count()); }
};

}  // namespace

std::uint64_t digest_of(std::uint64_t before, const Command& command) {
  Fold fold{hash(before, command.index())};
  std::visit(fold, command);
  return fold.value;
}

}  // namespace batchflow::test
