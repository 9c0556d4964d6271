#include "runtime/prepare/tiff_codes.h"

#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

namespace batchflow::prepare {
namespace {

constexpr std::uint16_t kTiffShort = 3, kTiffLong = 4;

// Writes TIFFs with one strip, and no pixels in it.
class HeadWriter {
 public:
  explicit HeadWriter(std::vector<std::byte>& out) : out_(out) { out_.clear(); }

  void write(const TiffPieces& pieces) {
    constexpr std::uint16_t kEntries = 11;
    constexpr std::uint32_t kHead = 8, kEntry = 12;
    const std::uint32_t behind = kHead + 2 + kEntries * kEntry + 4;
    const bool is_little = std::uint16_t{1} == [] {
      const std::byte bytes[2] = {std::byte{1}, std::byte{0}};
      std::uint16_t number = 0;
      std::memcpy(&number, bytes, 2);
      return number;
    }();
    put<std::uint16_t>(is_little ? TIFF_LITTLEENDIAN : TIFF_BIGENDIAN);
    put<std::uint16_t>(TIFF_VERSION_CLASSIC);
    put<std::uint32_t>(kHead);
    put<std::uint16_t>(kEntries);
    const bool is_colour = pieces.samples >= 3;
    number(TIFFTAG_IMAGEWIDTH, pieces.width);
    number(TIFFTAG_IMAGELENGTH, pieces.rows);
    if (pieces.samples > 2)
      entry(TIFFTAG_BITSPERSAMPLE, kTiffShort, pieces.samples, behind);
    else
      shorts(TIFFTAG_BITSPERSAMPLE, pieces.samples, 8);
    shorts(TIFFTAG_COMPRESSION, 1, static_cast<std::uint16_t>(pieces.compression));
    shorts(TIFFTAG_PHOTOMETRIC, 1, is_colour ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
    number(TIFFTAG_STRIPOFFSETS, kHead);
    shorts(TIFFTAG_SAMPLESPERPIXEL, 1, static_cast<std::uint16_t>(pieces.samples));
    number(TIFFTAG_ROWSPERSTRIP, pieces.rows);
    number(TIFFTAG_STRIPBYTECOUNTS, 1);
    shorts(TIFFTAG_PLANARCONFIG, 1, PLANARCONFIG_CONTIG);
    shorts(TIFFTAG_PREDICTOR, 1, static_cast<std::uint16_t>(pieces.predictor));
    put<std::uint32_t>(0);  // there is no other directory
    for (std::uint32_t i = 0; i < pieces.samples; ++i) put<std::uint16_t>(8);
  }

 private:
  template <class T>
  void put(T value) {
    for (const std::byte byte : std::as_bytes(std::span(&value, 1))) out_.push_back(byte);
  }
  void entry(std::uint32_t tag, std::uint16_t type, std::uint32_t count, std::uint32_t value) {
    put(static_cast<std::uint16_t>(tag));
    put(type);
    put(count);
    put(value);
  }
  void number(std::uint32_t tag, std::uint32_t value) { entry(tag, kTiffLong, 1, value); }
  void shorts(std::uint32_t tag, std::uint32_t count, std::uint16_t value) {
    put(static_cast<std::uint16_t>(tag));
    put(kTiffShort);
    put(count);
    put(value);
    put(count > 1 ? value : std::uint16_t{0});
  }

  std::vector<std::byte>& out_;
};

}  // namespace

// What the library calls with the object as its handle.
struct TiffCodes::Callbacks {
  static TiffCodes& codes_of(thandle_t handle) { return *static_cast<TiffCodes*>(handle); }

  static tmsize_t read(thandle_t handle, void* out, tmsize_t size) {
    TiffCodes& self = codes_of(handle);
    const std::size_t left = self.file_.size() - self.at_;
    const std::size_t count = std::min(left, static_cast<std::size_t>(size));
    std::memcpy(out, self.file_.data() + self.at_, count);
    self.at_ += count;
    return static_cast<tmsize_t>(count);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t seek(thandle_t handle, toff_t to, int from) {
    TiffCodes& self = codes_of(handle);
    const std::size_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? self.at_ : self.file_.size();
    self.at_ = std::min(self.file_.size(), base + static_cast<std::size_t>(to));
    return self.at_;
  }
  static toff_t size(thandle_t handle) { return codes_of(handle).file_.size(); }
  static int close(thandle_t) { return 0; }
  // Keeps the first error, which is the cause of the others.
  static int error(TIFF*, void* handle, const char*, const char* format, va_list values) {
    TiffCodes& self = *static_cast<TiffCodes*>(handle);
    if (!self.problem_.empty()) return 1;
    char text[200];
    std::vsnprintf(text, sizeof text, format, values);
    self.problem_ = text;
    return 1;
  }
  static int warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }
};

bool TiffCodes::begin(const TiffPieces& pieces) {
  end();
  problem_.clear();
  at_ = 0;
  HeadWriter(file_).write(pieces);
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  if (!options) return false;
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(kTiffLibraryMost));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), Callbacks::error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), Callbacks::warning, this);
  open_ =
      TIFFClientOpenExt("picture", "rmc", this, Callbacks::read, Callbacks::write, Callbacks::seek,
                        Callbacks::close, Callbacks::size, nullptr, nullptr, options.get());
  return open_ != nullptr;
}

bool TiffCodes::read(std::span<const std::byte> stored, std::span<std::uint8_t> out) {
  // The library writes to what it is given only where it has to turn bits, which is not asked for.
  return TIFFReadFromUserBuffer(open_, 0, const_cast<std::byte*>(stored.data()),
                                static_cast<tmsize_t>(stored.size()), out.data(),
                                static_cast<tmsize_t>(out.size())) != 0;
}

void TiffCodes::end() {
  if (open_) TIFFClose(open_);
  open_ = nullptr;
}

}  // namespace batchflow::prepare
