#include "runtime/client/slot_batch.h"

#include <cstdint>
#include <cstring>
#include <utility>

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

bool lies_in(std::span<const std::byte> memory, const batch::BlockLayout& layout,
             const protocol::BatchRecord& record) {
  return record.offset <= memory.size() && layout.bytes <= memory.size() - record.offset &&
         offsets_are_sane(layout, memory.data() + record.offset, record);
}

std::unique_ptr<HeldBatch> batch_in_place(const batch::BlockLayout& layout,
                                          std::shared_ptr<const Slab> slab,
                                          const protocol::BatchRecord& record, bf_batch& batch) {
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

std::unique_ptr<HeldBatch> batch_copied(const batch::BlockLayout& from, const std::byte* slot,
                                        const batch::BlockLayout& to,
                                        const protocol::BatchRecord& record, bf_batch& batch) {
  auto held = std::make_unique<HeldBatch>();
  held->copy = make_aligned(to.bytes);
  std::byte* copy = held->copy.get();
  batch::copy_samples(from, slot, record.from, record.from + record.samples, to, copy, 0, 0);
  add_marks(record, {reinterpret_cast<std::uint8_t*>(copy + to.marks), record.samples});
  show(to, copy, 0, *held, batch);
  return held;
}

}  // namespace batchflow::client
