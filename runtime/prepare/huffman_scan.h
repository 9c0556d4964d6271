// Decodes the entropy-coded data of a baseline JPEG that has one scan, which takes most of the time
// of decoding a picture. libjpeg-turbo asks about each code whether it is long, whether bits follow
// it, and whether these are a negative number. A processor can predict none of these answers. Here
// one look at the next bits gives all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace batchflow::prepare {

// A code as a file states it: how many codes there are of each length, from 1 on at [1], and what
// they stand for, in the order of the codes.
struct HuffmanCode {
  std::array<std::uint8_t, 17> lengths{};
  std::array<std::uint8_t, 256> symbols{};
  bool operator==(const HuffmanCode&) const = default;
};

class HuffmanTable {
 public:
  // What the next bits begin with: a code and the number behind it, and often a second code with
  // its number. It is one word, with the number of all these bits in its lowest byte, so that the
  // word itself can be used as a shift.
  struct Entry {
    std::uint64_t word = 0;  // 0: no such code

    unsigned bits() const { return static_cast<std::uint8_t>(word >> 8); }
    unsigned size() const { return static_cast<std::uint8_t>(word >> 16); }
    // How many indices a coefficient lies beyond the one before it.
    unsigned ahead() const { return static_cast<std::uint8_t>(word >> 24); }
    unsigned second_ahead() const { return static_cast<std::uint8_t>(word >> 32); }
    std::int16_t second() const { return static_cast<std::int16_t>(word >> 48); }
  };
  // At the end of a block: lies beyond the block from anywhere.
  static constexpr unsigned kBeyond = 64;
  // The most bits that an entry of at() takes: any window that was filled has two of them.
  static constexpr unsigned kQuickMost = 25;

  // False: codes of such lengths cannot be told apart, or there are more codes than symbols.
  bool set(const HuffmanCode& code);
  bool is_set() const { return is_set_; }

  // An entry of at most kQuickMost bits; or none, and then longer() may know it.
  Entry at(std::uint64_t window) const { return {entries_[window >> (64 - kBits)]}; }
  Entry longer(std::uint64_t window) const;

 private:
  static constexpr unsigned kBits = 11, kLongest = 16;

  void add_second(std::size_t index);

  bool is_set_ = false;  // `entries_` are those of `code_`
  HuffmanCode code_;
  std::array<std::uint64_t, 1 << kBits> entries_{};
  // For each length, the first code beyond those of this length, as 16 bits, and where their
  // symbols end.
  std::array<unsigned, kLongest + 1> beyond_{}, end_{};
};

class HuffmanScan {
 public:
  using Block = std::int16_t[64];
  // A block within an MCU: which component it is of, and in which codes it is written.
  struct BlockCodes {
    std::uint8_t component, dc, ac;
  };
  enum class Result : std::uint8_t { done, bad_code, no_more_data, wrong_restart };
  static constexpr std::size_t kCodes = 4, kComponents = 4, kBlocksMost = 10;

  HuffmanTable& dc(std::size_t number) { return dc_.at(number); }
  HuffmanTable& ac(std::size_t number) { return ac_.at(number); }

  // `bytes` begin behind the head of the scan, and must stay. They have `mcus` MCUs, and a restart
  // after every `restart_every`; 0: none. REQUIRES: the tables that `codes` name are set
  void begin(std::span<const std::uint8_t> bytes, std::span<const BlockCodes> codes,
             std::size_t mcus, std::size_t restart_every);

  // Decodes the next MCU into blocks of zeros. Null pointers: skips the MCU.
  Result next(Block* const* blocks);

  // What stands behind the data so far: a marker, or nothing.
  std::span<const std::uint8_t> rest() const { return rest_; }
  std::size_t kept_bytes() const { return segment_.capacity(); }
  void drop() { std::vector<std::uint8_t>().swap(segment_); }

 private:
  void take_segment();
  Result restart();
  template <bool wanted>
  Result decode(Block* const* blocks);
  Result decode_anywhere(Block* const* blocks);
  Result decode_bmi2(Block* const* blocks);

  std::array<HuffmanTable, kCodes> dc_, ac_;
  std::array<BlockCodes, kBlocksMost> codes_{};
  std::size_t blocks_ = 0;
  std::span<const std::uint8_t> rest_;

  // The data up to the next marker, without the zeros that are stuffed behind each 0xff, and not
  // more than its MCUs can take.
  std::vector<std::uint8_t> segment_;
  std::size_t segment_bytes_ = 0, segment_most_ = 0;
  // The first `ahead_` bits of the window are the next ones. The bits after these begin at next_.
  std::uint64_t window_ = 0, ahead_ = 0;
  const std::uint8_t* next_ = nullptr;

  std::size_t restart_every_ = 0, before_restart_ = 0;
  std::uint8_t restart_number_ = 0;
  std::array<std::int32_t, kComponents> dc_before_{};
};

}  // namespace batchflow::prepare
