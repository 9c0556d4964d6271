// How a record becomes a batch: it is checked, shown in place or copied, and counted.
#include <fmt/format.h>

#include <cstring>

#include "runtime/client/c_interface.h"
#include "runtime/client/loader.h"

namespace batchflow::client {
namespace {

std::int64_t offset_at(const std::byte* offsets, std::uint64_t index) {
  std::int64_t value;
  std::memcpy(&value, offsets + index * sizeof value, sizeof value);
  return value;
}

// Programs, and copies, read where offsets say, so that wrong ones must be refused.
bool offsets_are_sane(const batch::BlockLayout& layout, const std::byte* slot,
                      const protocol::BatchRecord& batch) {
  for (const batch::BlockLayout::FieldLayout& field : layout.fields) {
    if (!field.ragged) continue;
    const std::byte* offsets = slot + field.offsets;
    const std::uint64_t rows = field.rows_most * layout.samples;
    std::uint64_t before = 0;
    for (std::uint64_t i = batch.from; i <= std::uint64_t{batch.from} + batch.samples; ++i) {
      const auto now = static_cast<std::uint64_t>(offset_at(offsets, i));
      if (now < before || now > rows || (i > batch.from && now - before > field.rows_most))
        return false;
      before = now;
    }
  }
  return true;
}

// Points `batch` at samples [from, ...) of a slot.
void show(const batch::BlockLayout& layout, const std::byte* slot, std::uint32_t from,
          HeldBatch& held, bf_batch& batch) {
  held.arrays.reserve(layout.fields.size());
  for (const batch::BlockLayout::FieldLayout& field : layout.fields) {
    if (field.ragged) {
      const auto* offsets = reinterpret_cast<const std::int64_t*>(slot + field.offsets);
      held.arrays.push_back({slot + field.values, offsets + from});
    } else {
      held.arrays.push_back({slot + field.values + field.row_bytes * from, nullptr});
    }
  }
  batch.fields = static_cast<std::uint32_t>(held.arrays.size());
  batch.arrays = held.arrays.data();
  batch.keys = reinterpret_cast<const std::uint64_t*>(slot + layout.keys) + from;
  batch.wanted = reinterpret_cast<const std::uint64_t*>(slot + layout.wanted) + from;
  batch.marks = reinterpret_cast<const std::uint8_t*>(slot + layout.marks) + from;
}

// Fillers come after all other samples, and rehearsed samples after the fillers.
void add_marks(const protocol::BatchRecord& batch, std::span<std::uint8_t> marks) {
  const std::size_t rehearsed = batch.samples - batch.rehearsed;
  const std::size_t fillers = rehearsed - batch.fillers;
  for (std::size_t i = fillers; i < rehearsed; ++i) marks[i] |= batch::kFiller;
  for (std::size_t i = rehearsed; i < marks.size(); ++i) marks[i] |= batch::kRehearsed;
}

}  // namespace

const batch::BlockLayout& Loader::layout_of(std::uint32_t samples) {
  constexpr std::size_t kLayoutsMost = 64;
  const auto found = layouts_.find(samples);
  if (found != layouts_.end()) return found->second;
  if (layouts_.size() >= kLayoutsMost) layouts_.clear();
  return layouts_.emplace(samples, batch::BlockLayout(admission_.spec, samples)).first->second;
}

std::string Loader::slab_problem(const Slab* slab) const {
  const protocol::BatchRecord& batch = record_.batch;
  if (batch.step < next_step_) return fmt::format("step {} after step {}", batch.step, next_step_);
  if (slab == nullptr) return fmt::format("a batch in slab {}, which is not there", batch.slab);
  // The numbers of a layout are bounded by the slab's size, so this is checked before one is made.
  if (batch.slot_samples > slab->mapping.memory().size() / sample_bytes_)
    return fmt::format("a slot of {} samples in slab {}", batch.slot_samples, batch.slab);
  return "";
}

std::unique_ptr<HeldBatch> Loader::in_place(const batch::BlockLayout& layout,
                                            std::shared_ptr<const Slab> slab,
                                            bf_batch& batch) const {
  const protocol::BatchRecord& record = record_.batch;
  auto held = std::make_unique<HeldBatch>();
  show(layout, slab->mapping.memory().data() + record.offset, record.from, *held, batch);
  held->slab = std::move(slab);
  if (record.fillers + record.rehearsed != 0) {
    held->marks.assign(batch.marks, batch.marks + record.samples);
    add_marks(record, held->marks);
    batch.marks = held->marks.data();
  }
  return held;
}

std::unique_ptr<HeldBatch> Loader::copied(const batch::BlockLayout& from, const std::byte* slot,
                                          const batch::BlockLayout& to, bf_batch& batch) const {
  const protocol::BatchRecord& record = record_.batch;
  auto held = std::make_unique<HeldBatch>();
  held->copy = make_aligned(to.bytes);
  std::byte* copy = held->copy.get();
  batch::copy_samples(from, slot, record.from, record.from + record.samples, to, copy, 0, 0);
  add_marks(record, {reinterpret_cast<std::uint8_t*>(copy + to.marks), record.samples});
  show(to, copy, 0, *held, batch);
  return held;
}

bf_status Loader::give(bf_batch& batch) {
  const protocol::BatchRecord& record = record_.batch;
  auto slab = session_->slab(record.slab);
  if (!slab) {
    session_->look_at_socket();  // it may have come just before the end
    slab = session_->slab(record.slab);
  }
  if (const std::string problem = slab_problem(slab.get()); !problem.empty()) {
    lost(problem);
    return BF_TIMEOUT;
  }
  const batch::BlockLayout& layout = layout_of(record.slot_samples);
  const std::span<const std::byte> memory = slab->mapping.memory();
  const std::byte* slot = memory.data() + record.offset;
  if (record.offset > memory.size() || layout.bytes > memory.size() - record.offset ||
      !offsets_are_sane(layout, slot, record)) {
    lost(fmt::format("a batch that does not lie in slab {}", record.slab));
    return BF_TIMEOUT;
  }
  // A batch is in place only while one credit stays for the next. So a program that holds all
  // batches gets copies, and never waits for itself.
  const std::shared_ptr<Link>& link = session_->link();
  batch.copied = copies_ || link->held_in_place() + 1 >= admission_.credits;
  std::unique_ptr<HeldBatch> held =
      batch.copied
          ? copied(layout, slot, batch::BlockLayout(admission_.spec, record.samples), batch)
          : in_place(layout, std::move(slab), batch);
  held->link = link;
  held->step = record.step;
  return given(batch, std::move(held));
}

// Once the batch is counted as given, nothing may fail any more.
bf_status Loader::given(bf_batch& batch, std::unique_ptr<HeldBatch> held) {
  const protocol::BatchRecord& record = record_.batch;
  const std::shared_ptr<Link> link = held->link;
  if (!batch.copied) link->hold_in_place();
  batch.handle = hold(std::move(held));
  if (const std::string problem = track_.give(record, record_.slices, record_.indices);
      !problem.empty()) {
    session_->lose(problem);
    release(batch.handle);
    return end(BF_PROTOCOL, fmt::format("the service gave what it must not: {}; open a loader with "
                                        "a state that was saved before",
                                        problem));
  }
  has_record_ = false;
  if (batch.copied) link->released_copied(record.step);
  is_given_ = true;
  given_step_ = record.step;
  next_step_ = record.step + 1;
  lost_at_ = {};
  batch.step = step_++;
  batch.epoch = record.epoch;
  batch.last_of_epoch = static_cast<int>(record.last_of_epoch);
  batch.samples = record.samples;
  batch.fillers = record.fillers;
  batch.rehearsed = record.rehearsed;
  batch.repeats = record.repeats;
  samples_ += record.samples;
  copied_ += batch.copied ? 1 : 0;
  return BF_OK;
}

}  // namespace batchflow::client
