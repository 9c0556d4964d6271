// Files that are pictures, or say so: ordinary ones, ones that are large in every way there is, and
// ones that claim what they are not.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "tests/runtime/prepare/other_pictures.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test {

inline void append(Encoded& to, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  to.insert(to.end(), bytes.begin(), bytes.end());
}
inline std::string big_endian(std::uint32_t number) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(number >> shift));
  return text;
}

inline void append_chunk(Encoded& png, std::string_view name, std::string_view body) {
  const std::string summed = std::string(name) + std::string(body);
  append(png, big_endian(static_cast<std::uint32_t>(body.size())));
  append(png, summed);
  append(png,
         big_endian(static_cast<std::uint32_t>(crc32(
             0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size())))));
}

inline std::string deflated(const std::string& text) {
  uLongf bytes = compressBound(text.size());
  std::string out(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(out.data()), &bytes,
           reinterpret_cast<const Bytef*>(text.data()), text.size());
  out.resize(bytes);
  return out;
}

// A PNG of a few bytes with a header that claims so many pixels.
inline Encoded claiming_png(std::uint32_t width, std::uint32_t height, int depth, int colour,
                            bool interlaced = false) {
  Encoded png;
  append(png, "\x89PNG\r\n\x1a\n");
  std::string head = big_endian(width) + big_endian(height);
  for (const int one : {depth, colour, 0, 0, interlaced ? 1 : 0})
    head.push_back(static_cast<char>(one));
  append_chunk(png, "IHDR", head);
  if (colour == PNG_COLOR_TYPE_PALETTE) append_chunk(png, "PLTE", std::string(768, '\x7f'));
  append_chunk(png, "IDAT", deflated(std::string(64, '\0')));
  append_chunk(png, "IEND", {});
  return png;
}

// With texts that become so many MiB each.
inline Encoded texted_png(int texts, std::size_t mib) {
  const std::string body = std::string("Comment\0\0", 9) + deflated(std::string(mib << 20, 'x'));
  const Encoded plain = encode_png(make_pixels(300, 200, 3, 7), 300, 200);
  // Behind the signature and the header.
  constexpr std::ptrdiff_t kHead = 8 + 25;
  Encoded png(plain.begin(), plain.begin() + kHead);
  for (int i = 0; i < texts; ++i) append_chunk(png, "zTXt", body);
  png.insert(png.end(), plain.begin() + kHead, plain.end());
  return png;
}

// A JPEG with a frame header that claims so many pixels.
inline Encoded claiming_jpeg(std::uint32_t width, std::uint32_t height, const JpegWay& way) {
  Encoded jpeg = encode_jpeg(64, 48, way);
  for (std::size_t i = 2; i + 9 < jpeg.size(); ++i) {
    const auto marker = std::to_integer<int>(jpeg[i + 1]);
    const bool is_frame = jpeg[i] == std::byte{0xff} && marker >= 0xc0 && marker <= 0xcf &&
                          marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (!is_frame) continue;
    jpeg[i + 5] = static_cast<std::byte>(height >> 8);
    jpeg[i + 6] = static_cast<std::byte>(height);
    jpeg[i + 7] = static_cast<std::byte>(width >> 8);
    jpeg[i + 8] = static_cast<std::byte>(width);
    break;
  }
  return jpeg;
}

inline void append_number(Encoded& bytes, std::uint32_t number, int size) {
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(number >> 8 * i));
}

// A BMP with a header that claims so many pixels.
inline Encoded claiming_bmp(std::uint32_t width, std::uint32_t height) {
  Encoded bmp;
  append(bmp, std::string("BM") + std::string(8, '\0'));
  append_number(bmp, 54, 4);
  append_number(bmp, 40, 4);
  append_number(bmp, width, 4);
  append_number(bmp, height, 4);
  append_number(bmp, 1, 2);
  append_number(bmp, 24, 2);
  append(bmp, std::string(200, '\0'));
  return bmp;
}

// A moving WebP that claims so many pixels, with a frame of 256 x 256.
inline Encoded claiming_webp(std::uint32_t width, std::uint32_t height) {
  const Encoded frame = webp_of_many_codes(300);
  const auto size = static_cast<std::uint32_t>(frame.size() - 12);
  Encoded webp;
  append(webp, "RIFF");
  append_number(webp, 4 + 18 + 24 + size, 4);
  append(webp, "WEBPVP8X");
  append_number(webp, 10, 4);
  append_number(webp, 2, 4);
  append_number(webp, width - 1, 3);
  append_number(webp, height - 1, 3);
  append(webp, "ANMF");
  append_number(webp, 16 + size, 4);
  append_number(webp, 0, 3);
  append_number(webp, 0, 3);
  append_number(webp, 255, 3);
  append_number(webp, 255, 3);
  append_number(webp, 0, 4);
  webp.insert(webp.end(), frame.begin() + 12, frame.end());
  return webp;
}

inline Encoded even_png(int width, int height, int colour, int depth, bool interlaced = false) {
  const int channels = colour == PNG_COLOR_TYPE_RGB_ALPHA ? 4
                       : colour == PNG_COLOR_TYPE_RGB     ? 3
                                                          : 1;
  const std::size_t row = (static_cast<std::size_t>(width * channels * depth) + 7) / 8;
  return encode_png(std::vector<std::uint8_t>(row * static_cast<std::size_t>(height), 0x55), width,
                    height, colour, depth, interlaced);
}

// Of every kind, with pixels that are not there: up to 10^18.
inline std::vector<Encoded> claiming_pictures() {
  std::vector<Encoded> all;
  for (const auto& [width, height] : {std::pair{1u, 1u},
                                      {1'000'000u, 1'000'000u},
                                      {0x7fffffffu, 0x7fffffffu},
                                      {1u, 0x7fffffffu},
                                      {0x7fffffffu, 1u},
                                      {65536u, 65536u},
                                      {8000u, 8000u}}) {
    all.push_back(claiming_png(width, height, 8, PNG_COLOR_TYPE_RGB));
    all.push_back(claiming_png(width, height, 16, PNG_COLOR_TYPE_GRAY));
    all.push_back(claiming_png(width, height, 16, PNG_COLOR_TYPE_RGB_ALPHA, true));
    all.push_back(claiming_png(width, height, 8, PNG_COLOR_TYPE_PALETTE));
  }
  JpegWay progressive;
  progressive.progressive = true;
  JpegWay inked;
  inked.from = JCS_CMYK;
  for (const JpegWay& way : {JpegWay{}, progressive, inked})
    for (const auto& [width, height] :
         {std::pair{65500u, 65500u}, {65500u, 1u}, {1u, 65500u}, {8000u, 8000u}, {4000u, 3000u}})
      all.push_back(claiming_jpeg(width, height, way));
  for (const auto& [width, height] :
       {std::pair{0xffffffu, 0xffffffu}, {1u, 0xffffffu}, {8000u, 8000u}}) {
    all.push_back(claiming_bmp(width, height));
    all.push_back(claiming_webp(width, height));
  }
  return all;
}

// Their pixels are there, or half of them.
inline std::vector<Encoded> large_pictures() {
  std::vector<Encoded> all;
  JpegWay inked;
  inked.from = JCS_CMYK;
  JpegWay progressive;
  progressive.progressive = true;
  all.push_back(texted_png(200, 4));
  all.push_back(even_png(20'000, 20'000, PNG_COLOR_TYPE_GRAY, 1));
  all.push_back(even_png(3600, 3600, PNG_COLOR_TYPE_GRAY, 8));
  all.push_back(even_png(2400, 2400, PNG_COLOR_TYPE_GRAY, 16));
  all.push_back(even_png(2000, 2000, PNG_COLOR_TYPE_RGB_ALPHA, 16, true));
  all.push_back(even_png(1, 900'000, PNG_COLOR_TYPE_GRAY, 8));
  all.push_back(even_png(900'000, 1, PNG_COLOR_TYPE_RGB, 8));
  progressive.h = progressive.v = 2;
  all.push_back(encode_jpeg(2200, 2000, progressive));
  all.push_back(encode_jpeg(3200, 2400));
  all.push_back(encode_jpeg(1200, 900, inked));
  all.push_back(webp_of_many_codes(4096));
#ifdef BATCHFLOW_WEBP
  all.push_back(encode_webp(2000, 1500, true));
#endif
#ifdef BATCHFLOW_TIFF
  all.push_back(encode_tiff(2000, 1500, 1500));
#endif
  if (Encoded avif = encode_avif(900, 700, {}); !avif.empty()) all.push_back(std::move(avif));
  Encoded cut = encode_jpeg(1600, 1200);
  cut.resize(cut.size() / 2);
  all.push_back(std::move(cut));
  return all;
}

inline bool is_png_file(const Encoded& file) {
  return !file.empty() && file[0] == std::byte{0x89};
}

inline void write_pictures(const std::filesystem::path& folder, const std::vector<Encoded>& all) {
  for (std::size_t i = 0; i < all.size(); ++i)
    write_file(folder / "class" / fmt::format("{:04}.{}", i, is_png_file(all[i]) ? "png" : "jpg"),
               all[i]);
}

}  // namespace batchflow::test
