// AVIF, WebP and TIFF for tests. make_golden.py writes more kinds of the two last.
#pragma once

#ifdef BATCHFLOW_AVIF
#include <avif/avif.h>
#endif
#ifdef BATCHFLOW_TIFF
#include <tiffio.h>
#endif
#ifdef BATCHFLOW_WEBP
#include <webp/encode.h>
#endif

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/runtime/prepare/pictures.h"

namespace batchflow::test {

struct AvifWay {
  int channels = 3;  // 4: with alpha
  bool lossless = false;
  bool deep = false;  // ten bits
  int frames = 1;
};

inline constexpr int kLittleNoise = 8;  // in the pixels of those with loss

// Empty: there is no encoder here. Of the frames, each is darker than the one before.
inline Encoded encode_avif([[maybe_unused]] int width, [[maybe_unused]] int height,
                           [[maybe_unused]] const AvifWay& way) {
  Encoded encoded;
#ifdef BATCHFLOW_AVIF
  if (!avifCodecName(AVIF_CODEC_CHOICE_AUTO, AVIF_CODEC_FLAG_CAN_ENCODE)) return {};
  auto pixels = make_pixels(width, height, way.channels, 1, way.lossless ? 40 : kLittleNoise);
  avifEncoder* const encoder = avifEncoderCreate();
  encoder->speed = 10;
  const int loss = way.lossless ? AVIF_QUANTIZER_LOSSLESS : 12;
  encoder->minQuantizer = encoder->maxQuantizer = loss;
  encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = loss;
  avifRWData out = AVIF_DATA_EMPTY;
  for (int i = 0; i < way.frames; ++i) {
    avifImage* const image = avifImageCreate(
        static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height), way.deep ? 10 : 8,
        way.lossless ? AVIF_PIXEL_FORMAT_YUV444 : AVIF_PIXEL_FORMAT_YUV420);
    if (way.lossless) image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_IDENTITY;
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8;
    rgb.format = way.channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.pixels = pixels.data();
    rgb.rowBytes = static_cast<std::uint32_t>(width * way.channels);
    BF_CHECK(avifImageRGBToYUV(image, &rgb) == AVIF_RESULT_OK);
    BF_CHECK(avifEncoderAddImage(encoder, image, 1,
                                 way.frames == 1 ? AVIF_ADD_IMAGE_FLAG_SINGLE
                                                 : AVIF_ADD_IMAGE_FLAG_NONE) == AVIF_RESULT_OK);
    avifImageDestroy(image);
    for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(value / 2);
  }
  BF_CHECK(avifEncoderFinish(encoder, &out) == AVIF_RESULT_OK);
  encoded.resize(out.size);
  std::memcpy(encoded.data(), out.data, out.size);
  avifRWDataFree(&out);
  avifEncoderDestroy(encoder);
#endif
  return encoded;
}

#ifdef BATCHFLOW_WEBP
inline Encoded encode_webp(int width, int height, bool lossless) {
  const auto pixels = make_pixels(width, height, 3, 1);
  std::uint8_t* out = nullptr;
  const std::size_t size =
      lossless ? WebPEncodeLosslessRGB(pixels.data(), width, height, 3 * width, &out)
               : WebPEncodeRGB(pixels.data(), width, height, 3 * width, 80, &out);
  BF_CHECK(size > 0);
  Encoded encoded(size);
  std::memcpy(encoded.data(), out, size);
  WebPFree(out);
  return encoded;
}
#endif

#ifdef BATCHFLOW_TIFF
// RGB, compressed by LZW.
inline Encoded encode_tiff(int width, int height, int rows_of_strip) {
  const auto pixels = make_pixels(width, height, 3, 1);
  std::FILE* const file = std::tmpfile();
  BF_CHECK(file);
  TIFF* const tiff = TIFFFdOpen(dup(fileno(file)), "test", "w");
  BF_CHECK(tiff);
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_LZW);
  TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, rows_of_strip);
  for (int y = 0; y < height; ++y)
    BF_CHECK(TIFFWriteScanline(tiff, const_cast<std::uint8_t*>(pixels.data()) + 3 * width * y,
                               static_cast<std::uint32_t>(y)) == 1);
  TIFFClose(tiff);
  std::fseek(file, 0, SEEK_END);
  Encoded encoded(static_cast<std::size_t>(std::ftell(file)));
  std::rewind(file);
  BF_CHECK(std::fread(encoded.data(), 1, encoded.size(), file) == encoded.size());
  std::fclose(file);
  return encoded;
}
#endif

// A picture of 256 x 256 in which each block of 4 x 4 pixels names one of so many groups of codes.
// REQUIRES: groups <= 4096
inline Encoded webp_of_many_codes(std::uint32_t groups) {
  Encoded bits(20);
  std::size_t count = 0;
  const auto put = [&](std::uint32_t value, std::uint32_t size) {
    for (std::uint32_t i = 0; i < size; ++i, ++count) {
      if (count % 8 == 0) bits.push_back(std::byte{0});
      bits.back() |= static_cast<std::byte>((value >> i & 1) << count % 8);
    }
  };
  const auto put_code_of_one = [&] { put(0b0001, 4); };  // simple, one symbol, of one bit: 0
  // 256 symbols of eight bits each: the only length that there is takes no bits.
  const auto put_code_of_256 = [&] {
    put(0, 1);
    put(8, 4);  // twelve lengths of lengths, the last of which is that of 8
    for (int i = 0; i < 11; ++i) put(0, 3);
    put(1, 3);
    put(1, 1);
    put(3, 3);
    put(254, 8);
  };
  const auto put_reversed = [&](std::uint32_t value) {
    for (std::uint32_t i = 8; i > 0; --i) put(value >> (i - 1) & 1, 1);
  };
  put(0x2f, 8);
  put(255, 14);
  put(255, 14);
  put(0, 1 + 3);
  put(0, 1);  // nothing was done to the pixels
  put(0, 1);  // no cache
  put(1, 1);
  put(0, 3);
  put(0, 1);  // no cache
  put_code_of_256();
  put_code_of_256();
  for (int i = 0; i < 3; ++i) put_code_of_one();
  for (std::uint32_t i = 0; i < 64 * 64; ++i) {
    const std::uint32_t group = std::min(i, groups - 1);
    put_reversed(group & 255);
    put_reversed(group >> 8);
  }
  for (std::uint32_t i = 0; i < 5 * groups; ++i) put_code_of_one();
  if (bits.size() % 2 == 1) bits.push_back(std::byte{0});
  const auto size = static_cast<std::uint32_t>(bits.size() - 20);
  const auto number = [&](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) bits[at + i] = static_cast<std::byte>(value >> 8 * i);
  };
  std::memcpy(bits.data(), "RIFF", 4);
  number(4, size + 12);
  std::memcpy(bits.data() + 8, "WEBPVP8L", 8);
  number(16, size);
  return bits;
}

}  // namespace batchflow::test
