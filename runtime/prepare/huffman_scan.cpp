#include "runtime/prepare/huffman_scan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/check.h"

namespace batchflow::prepare {
namespace {

using Entry = HuffmanTable::Entry;

constexpr std::uint8_t kMarker = 0xff, kRestart = 0xd0;
constexpr std::size_t kLast = 63;  // coefficient of a block

// From the order in which coefficients are stored to the order of rows. In damaged data an index
// may go beyond the last coefficient, and then it means the last.
constexpr auto kRowsOrder = [] {
  std::array<std::uint8_t, kLast + 2 * HuffmanTable::kBeyond> order{};
  order.fill(kLast);
  std::size_t at = 0;
  for (int diagonal = 0; diagonal < 15; ++diagonal)
    for (int i = std::max(0, diagonal - 7); i <= std::min(7, diagonal); ++i) {
      const int row = diagonal % 2 == 0 ? diagonal - i : i;
      order[at++] = static_cast<std::uint8_t>(8 * row + diagonal - row);
    }
  return order;
}();

// The longest code and the longest number for each coefficient, and what a refill reads.
constexpr std::size_t kBlockBytesMost = 64 * (16 + 15) / 8;
constexpr std::size_t kPadding = kBlockBytesMost + 2 * sizeof(std::uint64_t);

// The number of `size` bits that ends where the first `bits` bits end: negative if it begins with
// 0.
int number(std::uint64_t window, unsigned bits, unsigned size) {
  const int beyond = 1 << size;
  const int low = static_cast<int>(window >> ((64 - bits) & 63)) & (beyond - 1);
  // Not a branch: half of all numbers are negative.
  const int negative = (low - (beyond >> 1)) >> 31;
  return low + (negative & (1 - beyond));
}

Entry entry(std::uint8_t symbol, unsigned length) {
  const unsigned size = symbol & 15, zeros = symbol >> 4, bits = length + size;
  // Fifteen zeros without a number are sixteen zeros; fewer are the end of the block.
  const unsigned ahead = size == 0 && zeros != 15 ? HuffmanTable::kBeyond : zeros + 1;
  return {bits | bits << 8 | size << 16 | ahead << 24};
}

struct Bits {
  std::uint64_t window;
  std::uint64_t ahead;  // in its lowest byte
  const std::uint8_t* next;

  // Refills to at least 56 bits.
  void refill() {
    std::uint64_t word;
    std::memcpy(&word, next, sizeof word);
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    window |= word >> (ahead & 63);
    next += 7 - ((ahead >> 3) & 7);
    ahead |= 56;
  }

  // Drops as many bits as the lowest byte of `word` says. Nothing reads what stands above the
  // lowest byte of `ahead`.
  void drop(std::uint64_t word) {
    window <<= word & 63;
    ahead -= word;
  }
};

}  // namespace

bool HuffmanTable::set(const HuffmanCode& code) {
  if (is_set_ && code == code_) return true;
  is_set_ = false;
  code_ = code;
  entries_.fill(0);
  unsigned next = 0;  // code, as 16 bits
  unsigned symbol = 0;
  for (unsigned length = 1; length <= kLongest; ++length) {
    const unsigned step = 1u << (kLongest - length);
    for (unsigned i = 0; i < code.lengths[length]; ++i) {
      if (symbol == code.symbols.size() || next + step > 1u << kLongest) return false;
      const Entry found = entry(code.symbols[symbol], length);
      if (length <= kBits && found.bits() <= kQuickMost)
        std::fill_n(entries_.begin() + (next >> (kLongest - kBits)), step >> (kLongest - kBits),
                    found.word);
      ++symbol;
      next += step;
    }
    beyond_[length] = next;
    end_[length] = symbol;
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) add_second(i);
  is_set_ = true;
  return true;
}

// Adds a second code to the entry if all of it and its number are among the bits that the table
// looks at.
void HuffmanTable::add_second(std::size_t index) {
  const Entry first{entries_[index]};
  if (first.bits() == 0 || first.bits() >= kBits || first.ahead() == kBeyond) return;
  const Entry second{entries_[(index << first.bits()) & (entries_.size() - 1)]};
  const unsigned bits = first.bits() + second.bits();
  if (second.bits() == 0 || bits > kBits) return;
  const int value = number(std::uint64_t{index} << (64 - kBits), bits, second.size());
  entries_[index] = (first.word & ~std::uint64_t{255}) | bits |
                    std::uint64_t{second.ahead()} << 32 |
                    std::uint64_t{static_cast<std::uint16_t>(value)} << 48;
}

Entry HuffmanTable::longer(std::uint64_t window) const {
  const auto bits = static_cast<unsigned>(window >> (64 - kLongest));
  for (unsigned length = 1; length <= kLongest; ++length) {
    if (bits >= beyond_[length]) continue;
    const unsigned back = (beyond_[length] - 1 - bits) >> (kLongest - length);
    return entry(code_.symbols[end_[length] - 1 - back], length);
  }
  return {};
}

void HuffmanScan::begin(std::span<const std::uint8_t> bytes, std::span<const BlockCodes> codes,
                        std::size_t mcus, std::size_t restart_every) {
  BF_CHECK(codes.size() <= kBlocksMost);
  for (const BlockCodes& one : codes)
    BF_CHECK(one.component < kComponents && dc_.at(one.dc).is_set() && ac_.at(one.ac).is_set());
  std::ranges::copy(codes, codes_.begin());
  blocks_ = codes.size();
  const std::size_t together = restart_every != 0 ? std::min(restart_every, mcus) : mcus;
  segment_most_ = together * blocks_ * kBlockBytesMost;
  rest_ = bytes;
  restart_every_ = before_restart_ = restart_every;
  restart_number_ = 0;
  dc_before_ = {};
  take_segment();
}

void HuffmanScan::take_segment() {
  const std::size_t most = std::min(rest_.size(), segment_most_);
  segment_.resize(std::max(segment_.size(), most + kPadding));
  const std::uint8_t* from = rest_.data();
  const std::uint8_t* const end = from + rest_.size();
  std::uint8_t* to = segment_.data();
  const std::uint8_t* const full = to + most;
  while (from != end) {
    const void* found = std::memchr(from, kMarker, static_cast<std::size_t>(end - from));
    const auto* upto = found ? static_cast<const std::uint8_t*>(found) : end;
    to = std::copy_n(from, std::min(upto - from, full - to), to);
    // Any number of 0xff may stand before a marker. One before a zero is data. What libjpeg-turbo
    // makes of more than one before a zero is not always the same.
    from = std::find_if(upto, end, [](std::uint8_t byte) { return byte != kMarker; });
    if (from == end) break;
    if (*from != 0 || from - upto > 1) {
      from = upto;
      break;
    }
    if (to != full) *to++ = kMarker;
    ++from;
  }
  rest_ = {from, end};
  segment_bytes_ = static_cast<std::size_t>(to - segment_.data());
  std::fill_n(to, kPadding, std::uint8_t{0});
  window_ = ahead_ = 0;
  next_ = segment_.data();
}

HuffmanScan::Result HuffmanScan::restart() {
  const auto number =
      std::ranges::find_if(rest_, [](std::uint8_t byte) { return byte != kMarker; });
  if (number == rest_.end()) return Result::no_more_data;
  if (*number != kRestart + restart_number_) return Result::wrong_restart;
  rest_ = {number + 1, rest_.end()};
  restart_number_ = static_cast<std::uint8_t>((restart_number_ + 1) % 8);
  before_restart_ = restart_every_;
  dc_before_ = {};
  take_segment();
  return Result::done;
}

template <bool wanted>
[[gnu::always_inline]] inline HuffmanScan::Result HuffmanScan::decode(Block* const* blocks) {
  Bits bits{window_, ahead_, next_};
  for (std::size_t i = 0; i < blocks_; ++i) {
    const BlockCodes codes = codes_[i];
    bits.refill();
    Entry first = dc_[codes.dc].at(bits.window);
    if (first.word == 0) first = dc_[codes.dc].longer(bits.window);
    if (first.word == 0) return Result::bad_code;
    std::int32_t& dc = dc_before_[codes.component];
    if (__builtin_add_overflow(dc, number(bits.window, first.bits(), first.size()), &dc))
      return Result::bad_code;
    bits.drop(first.bits());
    std::int16_t* const block = wanted ? *blocks[i] : nullptr;
    if (wanted) block[0] = static_cast<std::int16_t>(dc);

    const HuffmanTable& ac = ac_[codes.ac];
    std::size_t at = 0;
    // False: the block ends here.
    const auto step = [&](Entry entry) __attribute__((always_inline)) {
      at += entry.ahead();
      // The second is written first, so that it is overwritten if there is none. If no number
      // follows a code, it writes a zero, which is already there.
      if (wanted) {
        block[kRowsOrder[at + entry.second_ahead()]] = entry.second();
        block[kRowsOrder[at]] =
            static_cast<std::int16_t>(number(bits.window, entry.bits(), entry.size()));
      }
      if (at >= kLast) {
        bits.drop(entry.bits());
        return false;
      }
      at += entry.second_ahead();
      bits.drop(entry.word);
      return at < kLast;
    };
    for (;;) {
      bits.refill();
      Entry entry = ac.at(bits.window);
      if (entry.word != 0) [[likely]] {
        if (!step(entry)) break;
        // What that entry left is enough for another.
        entry = ac.at(bits.window);
        if (entry.word != 0) [[likely]] {
          if (!step(entry)) break;
          continue;
        }
        bits.refill();
      }
      entry = ac.longer(bits.window);
      if (entry.word == 0) return Result::bad_code;
      if (!step(entry)) break;
    }
    const auto read = static_cast<std::size_t>(bits.next - segment_.data()) * 8;
    if (read - (bits.ahead & 63) > segment_bytes_ * 8) return Result::no_more_data;
  }
  window_ = bits.window;
  ahead_ = bits.ahead & 63;
  next_ = bits.next;
  return Result::done;
}

HuffmanScan::Result HuffmanScan::decode_anywhere(Block* const* blocks) {
  return blocks ? decode<true>(blocks) : decode<false>(nullptr);
}

#if defined(__x86_64__)
// With shifts by a number in any register.
[[gnu::target("bmi,bmi2")]] HuffmanScan::Result HuffmanScan::decode_bmi2(Block* const* blocks) {
  return blocks ? decode<true>(blocks) : decode<false>(nullptr);
}
#endif

HuffmanScan::Result HuffmanScan::next(Block* const* blocks) {
  if (restart_every_ != 0) {
    if (before_restart_ == 0)
      if (const Result result = restart(); result != Result::done) return result;
    --before_restart_;
  }
#if defined(__x86_64__)
  static const bool has_bmi2 = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (has_bmi2) return decode_bmi2(blocks);
#endif
  return decode_anywhere(blocks);
}

}  // namespace batchflow::prepare
