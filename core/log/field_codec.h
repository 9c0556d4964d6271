// Writes and reads the fields of events in the compact form of the logs. Used by event_codec and
// promise_log alone.
//
// Numbers take seven bits a byte. Ids are stored plus one, so that `none` takes one byte. A list of
// samples is stored by its differences. The reader takes bytes from any source: a list cannot claim
// more entries than there are bytes left, nor an enumeration a value that does not exist.
#pragma once

#include <bit>
#include <deque>
#include <string_view>
#include <vector>

#include "core/base/arena.h"
#include "core/base/byte_codec.h"
#include "core/engine/event_fields.h"
#include "core/order/position_bytes.h"

namespace batchflow::log {

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

constexpr std::uint64_t last_value(Order) {
  return static_cast<std::uint64_t>(Order::live);
}
constexpr std::uint64_t last_value(Form) {
  return static_cast<std::uint64_t>(Form::prepared);
}
constexpr std::uint64_t last_value(Tier) {
  return static_cast<std::uint64_t>(Tier::store);
}
constexpr std::uint64_t last_value(engine::Outcome) {
  return static_cast<std::uint64_t>(engine::Outcome::corrupt);
}
constexpr std::uint64_t last_value(engine::Refusal) {
  return static_cast<std::uint64_t>(engine::Refusal::other_buffer);
}
constexpr std::uint64_t last_value(engine::Keep) {
  return static_cast<std::uint64_t>(engine::Keep::dropped);
}

class FieldWriter {
 public:
  explicit FieldWriter(std::vector<std::byte>& out) : out_(out), bytes_(out) {}

  template <class T>
  void operator()(std::string_view /*name*/, const T& field) {
    put(field);
  }
  void count(std::uint64_t value) { bytes_.count(value); }
  ByteWriter& bytes() { return bytes_; }
  std::vector<std::byte>& out() { return out_; }

  template <class T>
  void put(const T& field) {
    if constexpr (is_id<T>) {
      bytes_.count(static_cast<decltype(field.value)>(field.value + 1));
    } else if constexpr (is_list<T>) {
      put_list(field);
    } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
      bytes_.u8(static_cast<std::uint8_t>(field));
    } else if constexpr (std::is_integral_v<T>) {
      bytes_.count(field);
    } else if constexpr (std::is_same_v<T, double>) {
      bytes_.u64(std::bit_cast<std::uint64_t>(field));
    } else if constexpr (std::is_same_v<T, float>) {
      const auto bits = std::bit_cast<std::uint32_t>(field);
      for (int shift = 0; shift < 32; shift += 8)
        bytes_.u8(static_cast<std::uint8_t>(bits >> shift));
    } else if constexpr (std::is_same_v<T, Duration>) {
      bytes_.count(zigzag(field.count()));
    } else if constexpr (std::is_same_v<T, Instant>) {
      put(field.time_since_epoch());
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      bytes_.count(field.size());
      for (const char c : field) bytes_.u8(static_cast<std::uint8_t>(c));
    } else if constexpr (std::is_same_v<T, const order::Position*>) {
      put_position(field);
    } else {
      for_each_field(field, *this);
    }
  }

 private:
  template <class T>
  void put_list(std::span<const T> list) {
    bytes_.count(list.size());
    if constexpr (std::is_same_v<T, SampleId>) {
      std::uint64_t last = 0;
      for (const SampleId sample : list) {
        bytes_.count(zigzag(static_cast<std::int64_t>(sample.value - last)));
        last = sample.value;
      }
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      // Plus two: kUnknownUse and kNeverUsed, the two greatest numbers, take a byte each.
      for (const std::uint64_t value : list) bytes_.count(value + 2);
    } else {
      for (const T& value : list) put(value);
    }
  }

  void put_position(const order::Position* position) {
    if (!position) return bytes_.count(0);
    std::vector<std::byte> text;
    order::encode(*position, text);
    bytes_.count(text.size() + 1);
    out_.insert(out_.end(), text.begin(), text.end());
  }

  std::vector<std::byte>& out_;
  ByteWriter bytes_;
};

// The lists, texts and positions that it reads live in the arena and the deque it was given.
class FieldReader {
 public:
  FieldReader(std::span<const std::byte> in, Arena& arena, std::deque<order::Position>& positions)
      : bytes_(in), arena_(arena), positions_(positions) {}

  bool ok() const { return bytes_.ok(); }
  bool at_end() const { return bytes_.at_end(); }
  std::uint64_t count(std::uint64_t most = UINT64_MAX) { return bytes_.count(most); }
  ByteReader& bytes() { return bytes_; }

  template <class T>
  void operator()(std::string_view /*name*/, T& field) {
    take(field);
  }

  template <class T>
  void take(T& field) {
    if constexpr (is_id<T>) {
      using Rep = decltype(field.value);
      field.value = static_cast<Rep>(bytes_.count(static_cast<Rep>(-1)) - 1);
    } else if constexpr (is_list<T>) {
      take_list(field);
    } else if constexpr (std::is_same_v<T, bool>) {
      field = bytes_.count(1) != 0;
    } else if constexpr (std::is_enum_v<T>) {
      field = static_cast<T>(bytes_.count(last_value(T{})));
    } else if constexpr (std::is_integral_v<T>) {
      field = static_cast<T>(bytes_.count(static_cast<T>(-1)));
    } else if constexpr (std::is_same_v<T, double>) {
      field = std::bit_cast<double>(bytes_.u64());
    } else if constexpr (std::is_same_v<T, float>) {
      std::uint32_t bits = 0;
      for (int shift = 0; shift < 32; shift += 8) bits |= std::uint32_t{bytes_.u8()} << shift;
      field = std::bit_cast<float>(bits);
    } else if constexpr (std::is_same_v<T, Duration>) {
      field = Duration(unzigzag(bytes_.count()));
    } else if constexpr (std::is_same_v<T, Instant>) {
      field = Instant(Duration(unzigzag(bytes_.count())));
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      take_text(field);
    } else if constexpr (std::is_same_v<T, const order::Position*>) {
      take_position(field);
    } else {
      for_each_field(field, *this);
    }
  }

 private:
  template <class T>
  void take_list(std::span<const T>& list) {
    const auto values = arena_.make<T>(static_cast<std::size_t>(bytes_.count(bytes_.left())));
    std::uint64_t last = 0;
    for (T& value : values) {
      if constexpr (std::is_same_v<T, SampleId>) {
        last += static_cast<std::uint64_t>(unzigzag(bytes_.count()));
        value = SampleId(last);
      } else if constexpr (std::is_same_v<T, std::uint64_t>) {
        value = bytes_.count() - 2;
      } else {
        take(value);
      }
    }
    list = values;
  }

  void take_text(std::string_view& text) {
    const auto chars = arena_.make<char>(static_cast<std::size_t>(bytes_.count(bytes_.left())));
    for (char& c : chars) c = static_cast<char>(bytes_.u8());
    text = {chars.data(), chars.size()};
  }

  void take_position(const order::Position*& position) {
    position = nullptr;
    const std::uint64_t size = bytes_.count(bytes_.left());
    if (size == 0) return;
    const std::vector<std::uint8_t> text = bytes_.bytes(size - 1);
    std::string problem;
    auto read = order::decode_position(std::as_bytes(std::span(text)), problem);
    if (!read) return bytes_.fail();
    position = &positions_.emplace_back(std::move(*read));
  }

  ByteReader bytes_;
  Arena& arena_;
  std::deque<order::Position>& positions_;
};

}  // namespace batchflow::log
