#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>

#include "core/check.h"
#include "runtime/prepare/decode.h"

namespace batchflow {
namespace {

constexpr std::size_t kProblemMost = 200;
// Of one chunk beside the pixels (profiles, texts): they are inflated, and not used.
constexpr std::size_t kChunkMost = 8 << 20;

// As in jpeg.cpp: nothing with a destructor begins its life where libpng may jump.
class PngDecoder final : public Decoder {
 public:
  ~PngDecoder() override { close(); }

  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    close();
    bytes_ = bytes;
    problem_[0] = 0;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    BF_CHECK(png_);
    info_ = png_create_info_struct(png_);
    BF_CHECK(info_);
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_chunk_malloc_max(png_, kChunkMost);
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    const std::uint32_t width = png_get_image_width(png_, info_);
    const std::uint32_t height = png_get_image_height(png_, info_);
    if (std::uint64_t{width} * height > limits.pixels_most) {
      std::snprintf(problem_.data(), problem_.size(), "%u x %u pixels, of which %llu are allowed",
                    width, height, static_cast<unsigned long long>(limits.pixels_most));
      return false;
    }
    extent_ = {static_cast<int>(width), static_cast<int>(height)};
    return true;
  }

  Extent2 extent() const override { return extent_; }

  // Rows depend on those before them, and may be interlaced: it is always the whole.
  Box decode(const Box&, PictureBuffer& out) override {
    // Grey of 16 bits is clipped, all other numbers of 16 bits are cut to their upper half; alpha
    // is left out.
    wide_grey_ = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY &&
                 png_get_bit_depth(png_, info_) == 16;
    out.reset(extent_);
    rows_.resize(static_cast<std::size_t>(extent_.height));
    if (wide_grey_) wide_.resize(rows_.size() * static_cast<std::size_t>(extent_.width) * 2);
    for (std::size_t y = 0; y < rows_.size(); ++y)
      rows_[y] = wide_grey_ ? wide_.data() + y * static_cast<std::size_t>(extent_.width) * 2
                            : out.row(static_cast<int>(y));
    if (setjmp(png_jmpbuf(png_)) != 0) return {};
    if (!wide_grey_) {
      png_set_palette_to_rgb(png_);
      png_set_expand_gray_1_2_4_to_8(png_);
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) !=
        static_cast<std::size_t>(extent_.width) * (wide_grey_ ? 2 : kChannels))
      png_error(png_, "rows are not as long as their header says");
    png_read_image(png_, rows_.data());
    png_read_end(png_, nullptr);
    if (wide_grey_) clip_grey(out);
    return whole(extent_);
  }

  std::string_view problem() const override { return problem_.data(); }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self->problem_.data(), self->problem_.size(), "%s", text);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep out, std::size_t size) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (size > self->bytes_.size()) png_error(png, "the data ends early");
    std::memcpy(out, self->bytes_.data(), size);
    self->bytes_ = self->bytes_.subspan(size);
  }

  void clip_grey(PictureBuffer& out) const {
    const auto width = static_cast<std::size_t>(extent_.width);
    for (int y = 0; y < extent_.height; ++y) {
      const std::uint8_t* grey = rows_[static_cast<std::size_t>(y)];
      std::uint8_t* rgb = out.row(y);
      for (std::size_t x = 0; x < width; ++x)
        std::memset(rgb + 3 * x, grey[2 * x] != 0 ? 255 : grey[2 * x + 1], 3);
    }
  }

  void close() {
    if (png_) png_destroy_read_struct(&png_, &info_, nullptr);
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> bytes_;
  std::array<char, kProblemMost> problem_{};
  Extent2 extent_;
  bool wide_grey_ = false;
  std::vector<png_bytep> rows_;
  std::vector<std::uint8_t> wide_;
};

}  // namespace

std::unique_ptr<Decoder> make_png_decoder() {
  return std::make_unique<PngDecoder>();
}

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 &&
         png_sig_cmp(reinterpret_cast<const unsigned char*>(bytes.data()), 0, 8) == 0;
}

}  // namespace batchflow
