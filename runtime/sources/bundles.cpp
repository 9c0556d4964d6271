#include "runtime/sources/bundles.h"

#include <algorithm>
#include <bit>

#include "core/base/check.h"

namespace batchflow::sources {
namespace {

// Large enough that a read costs little a sample, small enough that a first block does not wait for
// many bytes that it does not need.
constexpr Bytes kBundle = 64 << 10;
constexpr Bytes kSampleMost = kBundle / 4;
// What may lie between two samples, such as a record that was passed over: it is read with them.
constexpr Bytes kGapMost = 4096;

// Whether each sample begins at the end of the one before it, nearly, or in a file of its own.
bool follow_one_another(const SampleIndex& index, const StopAsked& stop) {
  if (index.is_dense()) return true;
  StopCheck check(stop);
  Extent before = index.extent(SampleId(0));
  for (SampleId sample(1); sample.value < index.samples(); ++sample.value) {
    check();
    const Extent extent = index.extent(sample);
    const std::uint64_t end = before.offset + before.bytes;
    const bool follows = extent.file == before.file
                             ? extent.offset >= end && extent.offset - end <= kGapMost
                             : extent.file > before.file;
    if (!follows) return false;
    before = extent;
  }
  return true;
}

// The last sample of the bundle that lies in the same file as `from`.
SampleId last_in_file(const SampleIndex& index, std::uint8_t shift, SampleId from) {
  const std::uint64_t end =
      engine::first_in_bundle(from, shift).value + (std::uint64_t{1} << shift);
  SampleId last(std::min(index.samples(), end) - 1);
  const std::uint32_t file = index.extent(from).file;
  if (index.extent(last).file == file) return last;
  SampleId in_file = from;
  while (last.value - in_file.value > 1) {
    const SampleId middle(in_file.value + (last.value - in_file.value) / 2);
    (index.extent(middle).file == file ? in_file : last) = middle;
  }
  return in_file;
}

Extent stretch(const SampleIndex& index, SampleId first, SampleId last) {
  Extent extent = index.extent(first);
  const Extent end = index.extent(last);
  extent.bytes = end.offset + end.bytes - extent.offset;
  return extent;
}

}  // namespace

std::uint8_t bundle_shift(const SampleIndex& index, Bytes total, const StopAsked& stop) {
  const std::uint64_t samples = index.samples();
  if (index.kind() == RecordKind::whole || samples < 2) return 0;
  const Bytes mean = std::max<Bytes>(1, total / samples);
  if (mean > kSampleMost) return 0;
  auto shift = static_cast<std::uint8_t>(
      std::min<Bytes>(std::bit_width(kBundle / mean) - 1, engine::Catalogue::kBundleShiftMost));
  // Many small files would be read for one sample.
  while (shift > 0 && index.files() > samples >> shift) --shift;
  return shift > 0 && follow_one_another(index, stop) ? shift : 0;
}

void stretches(const SampleIndex& index, std::uint8_t shift, SampleId first,
               std::vector<Extent>& out) {
  BF_CHECK(first == engine::first_in_bundle(first, shift));
  out.clear();
  const std::uint64_t end = std::min(index.samples(), first.value + (std::uint64_t{1} << shift));
  for (SampleId from = first; from.value < end;) {
    const SampleId last = last_in_file(index, shift, from);
    out.push_back(stretch(index, from, last));
    from = SampleId(last.value + 1);
  }
}

Bytes offset_in_bundle(const SampleIndex& index, std::uint8_t shift, SampleId sample) {
  const Extent extent = index.extent(sample);
  SampleId from = engine::first_in_bundle(sample, shift);
  Extent begin = index.extent(from);
  Bytes before = 0;
  while (begin.file != extent.file) {
    const SampleId last = last_in_file(index, shift, from);
    before += stretch(index, from, last).bytes;
    from = SampleId(last.value + 1);
    begin = index.extent(from);
  }
  return before + extent.offset - begin.offset;
}

}  // namespace batchflow::sources
