#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "runtime/failpoint/failpoint.h"
#include "runtime/prepare/decode.h"

namespace batchflow::prepare {
namespace {

constexpr std::size_t kProblemMost = 200;

// As in jpeg.cpp: nothing with a destructor begins its life where libpng may jump.
class PngDecoder final : public Decoder {
 public:
  explicit PngDecoder(PngPixels pixels) : as_values_(pixels == PngPixels::values) {}
  ~PngDecoder() override { end(); }

  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    end();
    bytes_ = bytes;
    problem_[0] = 0;
    no_memory_ = false;
    library_most_ = kHeadMost;
    if (!create()) {
      no_memory_ = true;
      return false;
    }
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    // Texts, profiles and the like are not wanted: they may be inflated to any size and number.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
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
    const int colours = png_get_color_type(png_, info_), bits = png_get_bit_depth(png_, info_);
    // Grey of 16 bits is clipped. All other numbers of 16 bits are cut to their upper half. Alpha
    // is left out.
    apart_ = colours == PNG_COLOR_TYPE_GRAY && bits == 16 ? 2 : 0;
    if (as_values_) {
      const bool one = (colours & PNG_COLOR_MASK_COLOR) == 0 || colours == PNG_COLOR_TYPE_PALETTE;
      if (!one && bits == 16) png_error(png_, "values of three times 16 bits are too large");
      apart_ = one ? (bits == 16 ? 2 : 1) : 0;
    }
    library_most_ = kHeadMost + row_bytes() * kRowsOfLibrary;
    return true;
  }

  Extent2 extent() const override { return extent_; }
  Extent2 decoded_most(const Box&) const override { return extent_; }

  Bytes needs(const Box&) const override {
    const auto height = static_cast<Bytes>(extent_.height);
    return memory::counted_sum(
        memory::counted_sum(library_most_, memory::counted_product(height, sizeof(png_bytep))),
        memory::counted_product(height, apart_ * static_cast<Bytes>(extent_.width)));
  }

  // Rows depend on those before them, and may be interlaced: it always decodes the whole.
  Box decode(const Box&, PictureBuffer& out) override {
    const auto height = static_cast<std::size_t>(extent_.height);
    const std::size_t apart_row = static_cast<std::size_t>(extent_.width) * apart_;
    out.reset(extent_);
    auto* const rows = reinterpret_cast<png_bytep*>(rows_.have(height * sizeof(png_bytep)));
    if (apart_ > 0) numbers_.have(height * apart_row);
    for (std::size_t y = 0; y < height; ++y)
      rows[y] = apart_ > 0 ? reinterpret_cast<png_bytep>(numbers_.data()) + y * apart_row
                           : out.row(static_cast<int>(y));
    if (setjmp(png_jmpbuf(png_)) != 0) return {};
    if (as_values_) {
      set_values();
    } else if (apart_ == 0) {
      png_set_palette_to_rgb(png_);
      png_set_expand_gray_1_2_4_to_8(png_);
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) !=
        static_cast<std::size_t>(extent_.width) * (apart_ > 0 ? apart_ : kChannels))
      png_error(png_, "rows are not as long as their header says");
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    if (as_values_ && apart_ > 0)
      spread_values(out);
    else if (apart_ > 0)
      clip_grey(out);
    return whole(extent_);
  }

  std::string_view problem() const override { return problem_.data(); }
  bool ran_out_of_memory() const override { return no_memory_; }

  void end() override {
    if (png_) png_destroy_read_struct(&png_, &info_, nullptr);
  }
  Bytes held() const override { return rows_.bytes() + numbers_.bytes(); }
  void drop() override {
    rows_.drop();
    numbers_.drop();
  }

 private:
  // What the library takes beside rows: its own state, zlib's, pieces of the file, palettes.
  static constexpr Bytes kHeadMost = Bytes{1} << 20;
  // The library has two rows at once, and may make a larger one of each.
  static constexpr Bytes kRowsOfLibrary = 4;

  // What stands before each piece of the library's memory.
  struct alignas(std::max_align_t) Piece {
    Bytes bytes;
  };

  bool create() {
    library_bytes_ = 0;
    png_ = BF_FAILPOINT("prepare.png.memory")
               ? nullptr
               : png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this,
                                          on_allocate, on_free);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) end();
    return info_ != nullptr;
  }

  // The bytes of a row as it is stored: four numbers of 16 bits a pixel at most.
  Bytes row_bytes() const {
    return memory::counted_product(static_cast<Bytes>(extent_.width), 8) + 64;
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self->problem_.data(), self->problem_.size(), "%s", text);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  // A null pointer is an error to the library, which names it.
  static png_voidp on_allocate(png_structp png, png_alloc_size_t bytes) {
    auto* self = static_cast<PngDecoder*>(png_get_mem_ptr(png));
    if (bytes > self->library_most_ - std::min(self->library_bytes_, self->library_most_))
      return nullptr;
    auto* const piece = static_cast<Piece*>(std::malloc(sizeof(Piece) + bytes));
    if (!piece) {
      self->no_memory_ = true;
      return nullptr;
    }
    piece->bytes = bytes;
    self->library_bytes_ += bytes;
    return piece + 1;
  }
  static void on_free(png_structp png, png_voidp memory) {
    auto* self = static_cast<PngDecoder*>(png_get_mem_ptr(png));
    auto* const piece = static_cast<Piece*>(memory) - 1;
    self->library_bytes_ -= piece->bytes;
    std::free(piece);
  }
  static void on_read(png_structp png, png_bytep out, std::size_t size) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (size > self->bytes_.size()) png_error(png, "the data ends early");
    std::memcpy(out, self->bytes_.data(), size);
    self->bytes_ = self->bytes_.subspan(size);
  }

  // The numbers of a palette and of one bit stay as they are, as in Pillow.
  void set_values() {
    png_set_strip_alpha(png_);
    const int bits = png_get_bit_depth(png_, info_);
    if (bits == 1 || png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE)
      png_set_packing(png_);
    else if (bits < 8)
      png_set_expand_gray_1_2_4_to_8(png_);
  }

  void spread_values(PictureBuffer& out) const {
    const auto width = static_cast<std::size_t>(extent_.width);
    const auto* from = reinterpret_cast<const std::uint8_t*>(numbers_.data());
    for (int y = 0; y < extent_.height; ++y) {
      std::uint8_t* to = out.row(y);
      for (std::size_t x = 0; x < width; ++x, from += apart_, to += kChannels) {
        to[0] = from[apart_ - 1];
        to[1] = apart_ == 2 ? from[0] : std::uint8_t{0};
        to[2] = 0;
      }
    }
  }

  void clip_grey(PictureBuffer& out) const {
    const auto width = static_cast<std::size_t>(extent_.width);
    const auto* grey = reinterpret_cast<const std::uint8_t*>(numbers_.data());
    for (int y = 0; y < extent_.height; ++y, grey += 2 * width) {
      std::uint8_t* rgb = out.row(y);
      for (std::size_t x = 0; x < width; ++x)
        std::memset(rgb + 3 * x, grey[2 * x] != 0 ? 255 : grey[2 * x + 1], 3);
    }
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> bytes_;
  std::array<char, kProblemMost> problem_{};
  Extent2 extent_;
  const bool as_values_;
  std::size_t apart_ = 0;  // bytes of a pixel that is first read elsewhere; 0: it is not
  bool no_memory_ = false;
  Bytes library_bytes_ = 0, library_most_ = 0;  // that the library has, and may have
  memory::ScratchMemory rows_;                  // where each row goes
  memory::ScratchMemory numbers_;               // what is read elsewhere
};

}  // namespace

std::unique_ptr<Decoder> make_png_decoder() {
  return std::make_unique<PngDecoder>(PngPixels::colours);
}

std::unique_ptr<Decoder> make_png_decoder(PngPixels pixels) {
  return std::make_unique<PngDecoder>(pixels);
}

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 &&
         png_sig_cmp(reinterpret_cast<const unsigned char*>(bytes.data()), 0, 8) == 0;
}

}  // namespace batchflow::prepare
