// Undoes the compression of one strip or tile of a TIFF, by libtiff. The library never gets the
// directory of a file, which may name any number of tags of any size: tiff.cpp reads that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"

struct tiff;

namespace batchflow::prepare {

// How all strips or tiles of a picture are stored.
struct TiffPieces {
  std::uint32_t width = 0, rows = 0;
  std::uint32_t samples = 1;  // of a pixel, one byte each
  std::uint32_t compression = 1;
  std::uint32_t predictor = 1;
};

// What the library takes at most, beside the bytes that it is given.
inline constexpr Bytes kTiffLibraryMost = Bytes{1} << 20;

class TiffCodes {
 public:
  TiffCodes() = default;
  ~TiffCodes() { end(); }
  TiffCodes(const TiffCodes&) = delete;
  TiffCodes& operator=(const TiffCodes&) = delete;

  // False: the library has no memory, or does not know the compression.
  bool begin(const TiffPieces& pieces);
  // Fills `out`, which is a whole piece or its first rows.
  // REQUIRES: the last begin() said true
  bool read(std::span<const std::byte> stored, std::span<std::uint8_t> out);
  const std::string& problem() const { return problem_; }
  void end();

 private:
  struct Callbacks;
  std::vector<std::byte> file_;  // what the library takes for a TIFF
  std::size_t at_ = 0;           // how far it has read it
  tiff* open_ = nullptr;
  std::string problem_;
};

}  // namespace batchflow::prepare
