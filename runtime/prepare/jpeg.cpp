#include <fmt/format.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
// These two need the headers above them.
#include <jpeglib.h>
// The numbers of its messages, which jpeglib.h does not have.
#include <jerror.h>
// The parts of a decoder, which it does not have either. Not every distribution ships this header.
#if __has_include(<jpegint.h>)
#include <jpegint.h>
#define BATCHFLOW_OWN_SCAN 1
#endif

#include "runtime/failpoint/failpoint.h"
#include "runtime/prepare/decode.h"
#include "runtime/prepare/huffman_scan.h"

namespace batchflow::prepare {
namespace {

// Warnings after which the picture is not what was stored.
bool means_corrupt(int message) {
  switch (message) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
      return true;
    default:
      return false;
  }
}

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  jmp_buf stop;
  char problem[JMSG_LENGTH_MAX];
  bool no_memory;
};

[[noreturn]] void stop(j_common_ptr decoder) {
  auto* errors = reinterpret_cast<Errors*>(decoder->err);
  errors->base.format_message(decoder, errors->problem);
  errors->no_memory = errors->base.msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(errors->stop, 1);
}

void on_message(j_common_ptr decoder, int level) {
  if (level < 0 && means_corrupt(decoder->err->msg_code)) stop(decoder);
}

void on_progress(j_common_ptr decoder) {
  const auto* jpeg = reinterpret_cast<j_decompress_ptr>(decoder);
  if (jpeg->input_scan_number <= DecodeLimits::kScansMost) return;
  auto* errors = reinterpret_cast<Errors*>(decoder->err);
  std::snprintf(errors->problem, sizeof errors->problem, "more than %d scans",
                DecodeLimits::kScansMost);
  std::longjmp(errors->stop, 1);
}

// As Pillow does: CMYK in a JPEG is inverted, and black is taken off the three others.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::size_t pixels, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; ++i) {
    const int light = cmyk[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[4 * i + c]) * light + 128;
      rgb[3 * i + c] = static_cast<std::uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

// Between setjmp and a jump to it no object with a destructor may begin its life. So objects that
// need one are members.
class JpegDecoder final : public Decoder {
 public:
  explicit JpegDecoder(JpegScans scans) : own_scan_(scans == JpegScans::own) {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = stop;
    errors_.base.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&jpeg_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    errors_.problem[0] = 0;
    errors_.no_memory = false;
    // Begins with a new object. An object that is used again keeps tables, and a picture that lacks
    // one would be decoded with that of the picture before.
    end();
    if (setjmp(errors_.stop) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    stored_ = bytes.size();
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    if (BF_FAILPOINT("prepare.jpeg.memory")) ERREXIT1(&jpeg_, JERR_OUT_OF_MEMORY, 0);
    jpeg_read_header(&jpeg_, TRUE);
    if (std::uint64_t{jpeg_.image_width} * jpeg_.image_height > limits.pixels_most)
      return say(fmt::format("{} x {} pixels, of which {} are allowed", jpeg_.image_width,
                             jpeg_.image_height, limits.pixels_most));
    const bool cmyk = jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
    jpeg_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    // It would make pictures that lack coefficients different at the edge of a part.
    jpeg_.do_block_smoothing = FALSE;
    return true;
  }

  Extent2 extent() const override {
    return {static_cast<int>(jpeg_.image_width), static_cast<int>(jpeg_.image_height)};
  }

  Extent2 decoded_most(const Box& wanted) const override {
    constexpr int kAroundMost = 2 * kMargin + kWidthLeast + 2 * kMcuMost;
    return {std::min(extent().width, wanted.width + kAroundMost), wanted.height};
  }

  // For a picture of several scans, the library keeps all coefficients. Beside them it has some
  // rows of MCUs at a time, and this class has a copy of the data.
  Bytes needs(const Box&) const override {
    Bytes coefficients = 0, rows = 0;
    for (int i = 0; i < jpeg_.num_components; ++i) {
      const jpeg_component_info& one = jpeg_.comp_info[i];
      const Bytes across = rounded_up(one.width_in_blocks, one.h_samp_factor);
      const Bytes down = rounded_up(one.height_in_blocks, one.v_samp_factor);
      coefficients += across * down * sizeof(JBLOCK) + down * sizeof(JBLOCKROW);
      rows += Bytes{jpeg_.image_width} + kMcuMost;
    }
    rows *= static_cast<Bytes>(jpeg_.max_v_samp_factor) * DCTSIZE * kRowGroups;
    const bool keeps_all =
        jpeg_has_multiple_scans(const_cast<j_decompress_ptr>(&jpeg_)) || jpeg_.progressive_mode;
    return kLibraryMost + stored_ + rows + (keeps_all ? coefficients : 0);
  }

  Box decode(const Box& wanted, PictureBuffer& out) override {
    if (setjmp(errors_.stop) != 0) return {};
    jpeg_start_decompress(&jpeg_);
    const Box part = crop_columns(wanted);
    take_scan(part);
    out.reset(part.extent());
    row_.have(static_cast<Bytes>(part.width) * static_cast<Bytes>(jpeg_.output_components));
    skip_rows(part.y);
    for (int y = 0; y < part.height; ++y) read_row(out.row(y));
    // The rest is looked at without being decoded, except for its last row: libjpeg does not look
    // at what it is told to skip to the end.
    if (const int rest = rows_left(); rest > 0) {
      skip_rows(rest - 1);
      read_row(nullptr);
    }
    jpeg_finish_decompress(&jpeg_);
    return part;
  }

  std::string_view problem() const override { return errors_.problem; }
  bool ran_out_of_memory() const override { return errors_.no_memory; }

  void end() override { jpeg_destroy_decompress(&jpeg_); }
  Bytes held() const override { return scan_.kept_bytes() + row_.bytes(); }
  void drop() override {
    scan_.drop();
    row_.drop();
  }

 private:
  // The sides of an MCU: four blocks at most.
  static constexpr int kMcuMost = 4 * DCTSIZE;
  // How many rows of MCUs the library has at once: decoded ones, what it makes of them with those
  // around, and the copies that it converts.
  static constexpr Bytes kRowGroups = 4;
  // Tables, and what does not depend on the size.
  static constexpr Bytes kLibraryMost = Bytes{256} << 10;

  static Bytes rounded_up(Bytes value, int to) {
    const auto unit = static_cast<Bytes>(std::max(1, to));
    return (value + unit - 1) / unit * unit;
  }

  // If chroma is stored at a lower resolution, a pixel is made with its neighbours. At the edge of
  // a part these would be missing, so a little more is decoded.
  static constexpr int kMargin = 4;
  // Below this width, libjpeg enlarges chroma in another way.
  static constexpr int kWidthLeast = 64;

  bool say(std::string_view problem) {
    const std::size_t length = std::min(problem.size(), sizeof errors_.problem - 1);
    problem.copy(errors_.problem, length);
    errors_.problem[length] = 0;
    return false;
  }

  int rows_left() const { return static_cast<int>(jpeg_.output_height - jpeg_.output_scanline); }

  Box crop_columns(const Box& wanted) {
    const int width = static_cast<int>(jpeg_.output_width);
    int from = std::max(0, wanted.x - kMargin);
    const int to = std::min(width, std::max(wanted.x + wanted.width + kMargin, from + kWidthLeast));
    from = std::max(0, std::min(from, to - kWidthLeast));
    if (from == 0 && to == width) return {0, wanted.y, width, wanted.height};
    auto x = static_cast<JDIMENSION>(from);
    auto columns = static_cast<JDIMENSION>(to - from);
    jpeg_crop_scanline(&jpeg_, &x, &columns);
    return {static_cast<int>(x), wanted.y, static_cast<int>(columns), wanted.height};
  }

  void skip_rows(int rows) {
    // As for columns, the rows before a part are decoded and left out.
    const int decoded = std::min(rows, kMargin);
    if (rows > decoded) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(rows - decoded));
    for (int i = 0; i < decoded; ++i) read_row(nullptr);
  }

  void read_row(std::uint8_t* rgb) {
    const bool converts = jpeg_.output_components != kChannels;
    auto* const beside = reinterpret_cast<std::uint8_t*>(row_.data());
    JSAMPROW row = rgb && !converts ? rgb : beside;
    jpeg_read_scanlines(&jpeg_, &row, 1);
    if (rgb && converts) cmyk_to_rgb(beside, jpeg_.output_width, rgb);
  }

#ifdef BATCHFLOW_OWN_SCAN
  // For pictures of the commonest kind, this class decodes the codes instead of the library. The
  // library asks for one MCU after another, and makes pixels of them as usual.
  void take_scan(const Box& part) {
    if (!own_scan_ || jpeg_.progressive_mode || jpeg_.arith_code ||
        jpeg_.inputctl->has_multiple_scans || !set_codes())
      return;
    HuffmanScan::BlockCodes codes[HuffmanScan::kBlocksMost];
    const auto blocks = static_cast<std::size_t>(jpeg_.blocks_in_MCU);
    for (std::size_t i = 0; i < blocks; ++i) {
      const int component = jpeg_.MCU_membership[i];
      const jpeg_component_info* info = jpeg_.cur_comp_info[component];
      codes[i] = {static_cast<std::uint8_t>(component), static_cast<std::uint8_t>(info->dc_tbl_no),
                  static_cast<std::uint8_t>(info->ac_tbl_no)};
    }
    scan_.begin({jpeg_.src->next_input_byte, jpeg_.src->bytes_in_buffer}, {codes, blocks},
                std::size_t{jpeg_.MCUs_per_row} * jpeg_.MCU_rows_in_scan, jpeg_.restart_interval);
    const int mcu_width = jpeg_.comps_in_scan == 1 ? DCTSIZE : jpeg_.max_h_samp_factor * DCTSIZE;
    const auto mcu = [&](int x) { return static_cast<JDIMENSION>(x / mcu_width); };
    first_wanted_ = mcu(part.x);
    last_wanted_ = mcu(part.x + part.width - 1);
    column_ = 0;
    jpeg_.client_data = this;
    jpeg_.entropy->decode_mcu = next_mcu;
  }

  bool set_codes() {
    for (int i = 0; i < jpeg_.comps_in_scan; ++i) {
      const jpeg_component_info* info = jpeg_.cur_comp_info[i];
      const auto dc = static_cast<std::size_t>(info->dc_tbl_no);
      const auto ac = static_cast<std::size_t>(info->ac_tbl_no);
      if (!scan_.dc(dc).set(code_of(*jpeg_.dc_huff_tbl_ptrs[dc])) ||
          !scan_.ac(ac).set(code_of(*jpeg_.ac_huff_tbl_ptrs[ac])))
        return false;
    }
    return true;
  }

  static HuffmanCode code_of(const JHUFF_TBL& table) {
    HuffmanCode code;
    std::copy(std::begin(table.bits), std::end(table.bits), code.lengths.begin());
    std::copy(std::begin(table.huffval), std::end(table.huffval), code.symbols.begin());
    return code;
  }

  static boolean next_mcu(j_decompress_ptr jpeg, JBLOCKROW* blocks) {
    static_cast<JpegDecoder*>(jpeg->client_data)->next_mcu(blocks);
    return TRUE;
  }

  void next_mcu(JBLOCKROW* blocks) {
    // Outside the part no pixels are made.
    const bool wanted = blocks && column_ >= first_wanted_ && column_ <= last_wanted_;
    if (++column_ == jpeg_.MCUs_per_row) column_ = 0;
    const HuffmanScan::Result result = scan_.next(wanted ? blocks : nullptr);
    if (result != HuffmanScan::Result::done) {
      jpeg_.err->msg_code = result == HuffmanScan::Result::bad_code       ? JWRN_HUFF_BAD_CODE
                            : result == HuffmanScan::Result::no_more_data ? JWRN_HIT_MARKER
                                                                          : JWRN_MUST_RESYNC;
      stop(reinterpret_cast<j_common_ptr>(&jpeg_));
    }
    jpeg_.src->next_input_byte = scan_.rest().data();
    jpeg_.src->bytes_in_buffer = scan_.rest().size();
  }
#else
  void take_scan(const Box&) {}
#endif

  const bool own_scan_;
  HuffmanScan scan_;
  // In MCUs of a row.
  JDIMENSION first_wanted_ = 0, last_wanted_ = 0, column_ = 0;
  jpeg_decompress_struct jpeg_{};
  Errors errors_{};
  jpeg_progress_mgr progress_{};
  memory::ScratchMemory row_;
  Bytes stored_ = 0;
};

#define BATCHFLOW_TEXT(x) #x
#define BATCHFLOW_VALUE(x) BATCHFLOW_TEXT(x)

}  // namespace

std::unique_ptr<Decoder> make_jpeg_decoder(JpegScans scans) {
  return std::make_unique<JpegDecoder>(scans);
}

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8} &&
         bytes[2] == std::byte{0xff};
}

std::string jpeg_build() {
  // The loaded library names its year; the headers name the version.
  jpeg_error_mgr errors;
  jpeg_std_error(&errors);
#ifdef LIBJPEG_TURBO_VERSION
  constexpr const char* version = "libjpeg-turbo " BATCHFLOW_VALUE(LIBJPEG_TURBO_VERSION);
#else
  constexpr const char* version = "libjpeg";
#endif
  return fmt::format("{} ({})", version, errors.jpeg_message_table[JMSG_COPYRIGHT]);
}

}  // namespace batchflow::prepare
