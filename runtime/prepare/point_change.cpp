#include "runtime/prepare/point_change.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/colour.h"

namespace batchflow::prepare {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Counts = std::array<std::uint64_t, 256>;

std::size_t pixels_of(const PictureBuffer& picture) {
  const Extent2 extent = picture.extent();
  return static_cast<std::size_t>(extent.width) * static_cast<std::size_t>(extent.height);
}

template <class Value>
Table table_of(const Value& value) {
  Table table;
  for (int i = 0; i < 256; ++i)
    table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value(i));
  return table;
}
Table unchanged() {
  return table_of([](int i) { return i; });
}

void look_up(const std::array<Table, kChannels>& tables, PictureBuffer& picture) {
  std::uint8_t* at = picture.pixels();
  for (std::size_t i = pixels_of(picture); i > 0; --i, at += kChannels) {
    at[0] = tables[0][at[0]];
    at[1] = tables[1][at[1]];
    at[2] = tables[2][at[2]];
  }
}

std::array<Counts, kChannels> counts_of(PictureBuffer& picture) {
  std::array<Counts, kChannels> counts{};
  const std::uint8_t* at = picture.pixels();
  for (std::size_t i = pixels_of(picture); i > 0; --i, at += kChannels) {
    ++counts[0][at[0]];
    ++counts[1][at[1]];
    ++counts[2][at[2]];
  }
  return counts;
}

Table stretched(const Counts& counts) {
  int least = 0, most = 255;
  while (least < 255 && counts[static_cast<std::size_t>(least)] == 0) ++least;
  while (most > 0 && counts[static_cast<std::size_t>(most)] == 0) --most;
  if (most <= least) return unchanged();
  const double scale = 255.0 / (most - least), offset = -least * scale;
  return table_of([&](int i) { return std::clamp(static_cast<int>(i * scale + offset), 0, 255); });
}

Table equalized(const Counts& counts) {
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](auto n) { return n > 0; });
  const std::uint64_t step = last == counts.rend() ? 0 : (all - *last) / 255;
  if (step == 0) return unchanged();
  std::uint64_t before = step / 2;
  Table table;
  for (std::size_t i = 0; i < table.size(); before += counts[i], ++i)
    table[i] = static_cast<std::uint8_t>(std::min<std::uint64_t>(before / step, 255));
  return table;
}

void apply_to_all(const Table& table, PictureBuffer& picture) {
  look_up({table, table, table}, picture);
}

template <class ToTable>
void apply_by_counts(const ToTable& to_table, PictureBuffer& picture) {
  const std::array<Counts, kChannels> counts = counts_of(picture);
  look_up({to_table(counts[0]), to_table(counts[1]), to_table(counts[2])}, picture);
}

void make_grey(PictureBuffer& picture) {
  std::uint8_t* at = picture.pixels();
  for (std::size_t i = pixels_of(picture); i > 0; --i, at += kChannels)
    at[0] = at[1] = at[2] = static_cast<std::uint8_t>(kernels::grey_of(at));
}

}  // namespace

void apply(const PointChange& change, PictureBuffer& picture) {
  switch (change.kind) {
    case PointChange::Kind::greyscale:
      return make_grey(picture);
    case PointChange::Kind::invert:
      return apply_to_all(table_of([](int i) { return 255 - i; }), picture);
    case PointChange::Kind::posterize: {
      const int lost = (1 << (8 - static_cast<int>(change.amount))) - 1;
      return apply_to_all(table_of([lost](int i) { return i & ~lost; }), picture);
    }
    case PointChange::Kind::solarize:
      return apply_to_all(table_of([&change](int i) { return i < change.amount ? i : 255 - i; }),
                          picture);
    case PointChange::Kind::autocontrast:
      return apply_by_counts(stretched, picture);
    case PointChange::Kind::equalize:
      return apply_by_counts(equalized, picture);
  }
}

}  // namespace batchflow::prepare
