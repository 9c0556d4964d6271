// Pictures for tests: made from a seed, and encoded in every way that JPEG and PNG know.
#pragma once

#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
// Needs what <cstdio> declares.
#include <jpeglib.h>

#include "core/base/check.h"
#include "core/base/random.h"
#include "runtime/prepare/picture.h"

namespace batchflow::test {

using Encoded = std::vector<std::byte>;

// Slopes, edges and noise, in each of the channels or in all alike.
inline std::vector<std::uint8_t> make_pixels(int width, int height, int channels,
                                             std::uint64_t seed, int noise = 40,
                                             bool coloured = true) {
  Random random(hash(seed, width, height));
  std::vector<std::uint8_t> pixels;
  pixels.reserve(static_cast<std::size_t>(width * height * channels));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int edge = (x / 7 + y / 5) % 3 == 0 ? 60 : 0;
      int grain = 0;
      for (int c = 0; c < channels; ++c) {
        const int slope = c % 2 == 0 ? x * 160 / width : y * 160 / height;
        if (noise > 0 && (coloured || c == 0))
          grain = static_cast<int>(random.below(static_cast<unsigned>(noise)));
        pixels.push_back(
            static_cast<std::uint8_t>(std::min(255, slope + edge * (c + 1) / 2 + grain)));
      }
    }
  }
  return pixels;
}

struct JpegWay {
  J_COLOR_SPACE from = JCS_RGB;  // of the pixels: JCS_RGB, JCS_GRAYSCALE or JCS_CMYK
  bool as_ycck = false;
  int h = 1, v = 1;  // how many luma samples there are to one of chroma
  int quality = 90;
  bool progressive = false;
  int restart_rows = 0;
  bool arithmetic = false;
  bool own_codes = false;  // made for the picture, instead of those of the standard
};

inline Encoded encode_jpeg(const std::vector<std::uint8_t>& pixels, int width, int height,
                           const JpegWay& way) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  const int channels = way.from == JCS_RGB ? 3 : way.from == JCS_CMYK ? 4 : 1;
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = channels;
  jpeg.in_color_space = way.from;
  jpeg_set_defaults(&jpeg);
  if (way.as_ycck) jpeg_set_colorspace(&jpeg, JCS_YCCK);
  jpeg_set_quality(&jpeg, way.quality, TRUE);
  jpeg.comp_info[0].h_samp_factor = way.h;
  jpeg.comp_info[0].v_samp_factor = way.v;
  jpeg.restart_in_rows = way.restart_rows;
  jpeg.arith_code = way.arithmetic ? TRUE : FALSE;
  jpeg.optimize_coding = way.own_codes ? TRUE : FALSE;
  if (way.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < height; ++y) {
    auto* row = const_cast<std::uint8_t*>(pixels.data()) +
                static_cast<std::size_t>(y) * static_cast<std::size_t>(width * channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  Encoded encoded(size);
  std::memcpy(encoded.data(), memory, size);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);
  return encoded;
}

inline Encoded encode_jpeg(int width, int height, const JpegWay& way = {}, std::uint64_t seed = 1) {
  const int channels = way.from == JCS_RGB ? 3 : way.from == JCS_CMYK ? 4 : 1;
  return encode_jpeg(make_pixels(width, height, channels, seed), width, height, way);
}

// `pixels` has rows as PNG stores them, for that colour type and depth.
inline Encoded encode_png(const std::vector<std::uint8_t>& pixels, int width, int height,
                          int colour = PNG_COLOR_TYPE_RGB, int depth = 8, bool interlaced = false) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  BF_CHECK(png && info);
  Encoded encoded;
  png_set_write_fn(
      png, &encoded,
      [](png_structp to, png_bytep bytes, std::size_t size) {
        auto* out = static_cast<Encoded*>(png_get_io_ptr(to));
        const auto* from = reinterpret_cast<const std::byte*>(bytes);
        out->insert(out->end(), from, from + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), depth,
               colour, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (colour == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> colours;
    for (int i = 0; i < 1 << depth; ++i)
      colours.push_back({static_cast<png_byte>(255 - i), static_cast<png_byte>(7 * i), 3});
    png_set_PLTE(png, info, colours.data(), 1 << depth);
  }
  png_write_info(png, info);
  const std::size_t stride = png_get_rowbytes(png, info);
  std::vector<png_bytep> rows;
  for (int y = 0; y < height; ++y)
    rows.push_back(const_cast<png_bytep>(pixels.data()) + static_cast<std::size_t>(y) * stride);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return encoded;
}

}  // namespace batchflow::test
