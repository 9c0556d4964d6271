// The decoded form of a sample with several fields: the picture's, then the record as it is stored,
// then the size that the picture has there and the record's length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

struct KeptSample {
  std::span<const std::byte> picture;
  std::span<const std::byte> record;
  Extent2 stored_extent;
};

using KeptSampleEnd = std::array<std::uint64_t, 3>;  // width, height, length

// What stands behind the picture.
inline Bytes kept_sample_more(std::span<const std::byte> record) {
  return record.size() + sizeof(KeptSampleEnd);
}
inline void write_kept_sample(std::span<const std::byte> record, Extent2 stored, std::byte* out) {
  const KeptSampleEnd end = {static_cast<std::uint64_t>(stored.width),
                             static_cast<std::uint64_t>(stored.height), record.size()};
  std::memcpy(out, record.data(), record.size());
  std::memcpy(out + record.size(), end.data(), sizeof end);
}
// False when the bytes are not such a form. The picture is checked when it is read.
inline bool read_kept_sample(std::span<const std::byte> bytes, KeptSample& sample) {
  constexpr std::uint64_t side_most = 0x7fffffff / kChannels;
  KeptSampleEnd end;
  if (bytes.size() < sizeof end) return false;
  std::memcpy(end.data(), bytes.data() + bytes.size() - sizeof end, sizeof end);
  bytes = bytes.first(bytes.size() - sizeof end);
  const auto [width, height, length] = end;
  if (length > bytes.size() || width == 0 || height == 0 || width > side_most || height > side_most)
    return false;
  sample.picture = bytes.first(bytes.size() - length);
  sample.record = bytes.last(length);
  sample.stored_extent = {static_cast<int>(width), static_cast<int>(height)};
  return true;
}

}  // namespace batchflow::prepare
