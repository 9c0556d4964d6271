#include "runtime/prepare/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/prepare/numbers.h"
#include "runtime/sources/npy.h"

namespace batchflow::prepare {
namespace {

class NpyMask final : public Decoder {
 public:
  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    bytes_ = bytes;
    sources::MemoryView view(bytes);
    problem_ = sources::read_npy_header(view, header_);
    if (!problem_.empty()) return false;
    // One channel may stand before or behind.
    std::vector<std::uint64_t> shape = {header_.rows};
    shape.insert(shape.end(), header_.shape.begin(), header_.shape.end());
    if (shape.size() == 3 && shape.front() == 1)
      shape.erase(shape.begin());
    else if (shape.size() == 3 && shape.back() == 1)
      shape.pop_back();
    if (shape.size() != 2) return fail("it is no array of [height, width]");
    if (!converts(header_.type, batch::ElementType::i64))
      return fail("its values are no whole numbers");
    constexpr std::uint64_t side_most = std::numeric_limits<int>::max();
    if (shape[0] == 0 || shape[1] == 0 || shape[0] > side_most || shape[1] > side_most ||
        shape[0] * shape[1] > limits.pixels_most)
      return fail(fmt::format("{} x {} pixels, of which {} are allowed", shape[1], shape[0],
                              limits.pixels_most));
    extent_ = {static_cast<int>(shape[1]), static_cast<int>(shape[0])};
    const Bytes has = bytes.size() - std::min<Bytes>(header_.data, bytes.size());
    if (has != shape[0] * shape[1] * batch::element_bytes(header_.type))
      return fail("it has not as many numbers as its header says");
    return true;
  }
  Extent2 extent() const override { return extent_; }
  Extent2 decoded_most(const Box&) const override { return extent_; }
  Bytes needs(const Box&) const override {
    return memory::counted_product(static_cast<Bytes>(extent_.width), sizeof(std::int64_t));
  }
  Box decode(const Box&, PictureBuffer& out) override {
    out.reset(extent_);
    const auto width = static_cast<std::size_t>(extent_.width);
    std::byte* const row = row_.have(width * sizeof(std::int64_t));
    const std::byte* from = bytes_.data() + header_.data;
    for (int y = 0; y < extent_.height; ++y, from += width * batch::element_bytes(header_.type)) {
      convert(header_.type, from, batch::ElementType::i64, row, width);
      std::uint8_t* to = out.row(y);
      for (std::size_t x = 0; x < width; ++x, to += kChannels) {
        const auto number = sources::load<std::int64_t>({row + x * 8, 8});
        if (number < 0 || number > kMaskNumberMost) {
          fail(fmt::format("it has the value {}, and masks have 0 to {}", number, kMaskNumberMost));
          return {};
        }
        const Colour pixel = mask_pixel(static_cast<std::uint32_t>(number));
        std::memcpy(to, pixel.data(), kChannels);
      }
    }
    return whole(extent_);
  }
  std::string_view problem() const override { return problem_; }
  bool ran_out_of_memory() const override { return false; }
  void end() override {}
  Bytes held() const override { return row_.bytes(); }
  void drop() override { row_.drop(); }

 private:
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  std::span<const std::byte> bytes_;
  sources::NpyHeader header_;
  Extent2 extent_;
  memory::ScratchMemory row_;
  std::string problem_;
};

bool is_npy(std::span<const std::byte> bytes) {
  return sources::as_text(bytes).starts_with("\x93NUMPY");
}

template <class T>
bool write_as(const PictureView& mask, std::uint32_t most, std::byte* out) {
  bool fits = true;
  for (int y = 0; y < mask.extent.height; ++y) {
    const std::uint8_t* pixel = mask.row(y);
    for (int x = 0; x < mask.extent.width; ++x, pixel += kChannels, out += sizeof(T)) {
      const std::uint32_t number = pixel[0] | pixel[1] << 8 | pixel[2] << 16;
      fits = fits && number <= most;
      const T value = static_cast<T>(number);
      std::memcpy(out, &value, sizeof value);
    }
  }
  return fits;
}

}  // namespace

Decoder* MaskDecoders::find(std::span<const std::byte> bytes) {
  if (is_png(bytes)) {
    if (!png_) png_ = make_png_decoder(PngPixels::values);
    return png_.get();
  }
  if (!is_npy(bytes)) return nullptr;
  if (!npy_) npy_ = std::make_unique<NpyMask>();
  return npy_.get();
}

void MaskDecoders::end() {
  if (png_) png_->end();
}

Bytes MaskDecoders::held() const {
  return (png_ ? png_->held() : 0) + (npy_ ? npy_->held() : 0);
}

void MaskDecoders::drop() {
  if (png_) png_->drop();
  if (npy_) npy_->drop();
}

Colour mask_pixel(std::uint32_t number) {
  return {static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8),
          static_cast<std::uint8_t>(number >> 16)};
}

void follow_with_mask(std::span<const Operation> operations, std::uint32_t fill,
                      std::vector<Operation>& out) {
  out.clear();
  for (const Operation& operation : operations) {
    if (auto* const scaling = std::get_if<Scaling>(&operation)) {
      Scaling nearest = *scaling;
      nearest.filter = Filter::nearest;
      out.push_back(nearest);
    } else if (auto* const pad = std::get_if<Pad>(&operation)) {
      out.push_back(Pad{pad->box, {pad->style.mode, mask_pixel(fill)}});
    } else if (auto* const warp = std::get_if<Warp>(&operation)) {
      out.push_back(Warp{warp->matrix, {Filter::nearest, mask_pixel(fill)}});
    }
  }
}

bool is_mask_type(batch::ElementType type) {
  using batch::ElementType;
  return type != ElementType::f16 && type != ElementType::bf16 && type != ElementType::f64;
}

std::uint32_t mask_number_most(batch::ElementType type) {
  const Bytes bytes = batch::element_bytes(type);
  if (bytes > 2) return kMaskNumberMost;
  const bool is_signed = type == batch::ElementType::i8 || type == batch::ElementType::i16;
  return (1u << (8 * bytes - (is_signed ? 1 : 0))) - 1;
}

bool write_mask(const PictureView& mask, batch::ElementType type, std::byte* out) {
  using batch::ElementType;
  const std::uint32_t most = mask_number_most(type);
  switch (type) {
    case ElementType::u8:
      return write_as<std::uint8_t>(mask, most, out);
    case ElementType::i8:
      return write_as<std::int8_t>(mask, most, out);
    case ElementType::u16:
      return write_as<std::uint16_t>(mask, most, out);
    case ElementType::i16:
      return write_as<std::int16_t>(mask, most, out);
    case ElementType::i32:
      return write_as<std::int32_t>(mask, most, out);
    case ElementType::i64:
      return write_as<std::int64_t>(mask, most, out);
    default:
      return write_as<float>(mask, most, out);
  }
}

}  // namespace batchflow::prepare
