#include "runtime/batch/batch_parts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/check.h"

namespace batchflow::batch {
namespace {

constexpr std::array<std::byte, 65536> kZeros{};

}  // namespace

BatchParts::BatchParts(const BlockLayout& layout, const std::byte* slot, std::uint32_t from,
                       std::uint32_t to, const BlockLayout& to_layout)
    : slot_(slot), from_(from), to_(to) {
  BF_CHECK(from <= to && to <= layout.samples && to - from == to_layout.samples);
  for (std::size_t i = 0; i < layout.fields.size(); ++i)
    add_field(layout.fields[i], to_layout.fields[i]);
  const Bytes n = to - from;
  constexpr Bytes kKey = sizeof(std::uint64_t);
  add(to_layout.keys, {slot + layout.keys + from * kKey, n * kKey});
  add(to_layout.wanted, {slot + layout.wanted + from * kKey, n * kKey});
  add(to_layout.marks, {slot + layout.marks + from, n});
  add_zeros(to_layout.bytes);
}

void BatchParts::add_field(const BlockLayout::FieldLayout& source,
                           const BlockLayout::FieldLayout& target) {
  const std::byte* const values = slot_ + source.values;
  if (!source.ragged)
    return add(target.values,
               {values + source.row_bytes * from_, source.row_bytes * (to_ - from_)});
  const auto offset = [&](std::uint32_t row) {
    std::int64_t value;
    std::memcpy(&value, slot_ + source.offsets + Bytes{row} * sizeof value, sizeof value);
    return value;
  };
  const std::int64_t first = offset(from_);
  add(target.values, {values + source.row_bytes * static_cast<Bytes>(first),
                      source.row_bytes * static_cast<Bytes>(offset(to_) - first)});
  std::vector<std::byte>& made =
      made_.emplace_back((Bytes{to_ - from_} + 1) * sizeof(std::int64_t));
  for (std::uint32_t row = from_; row <= to_; ++row) {
    const std::int64_t value = offset(row) - first;
    std::memcpy(made.data() + Bytes{row - from_} * sizeof value, &value, sizeof value);
  }
  add(target.offsets, made);
}

void BatchParts::add(Bytes at, Piece bytes) {
  add_zeros(at);
  parts_.push_back(bytes);
  end_ += bytes.size();
}

void BatchParts::add_zeros(Bytes end) {
  while (end_ < end) {
    const Bytes some = std::min<Bytes>(end - end_, kZeros.size());
    parts_.emplace_back(kZeros.data(), some);
    end_ += some;
  }
}

}  // namespace batchflow::batch
