// Messages between processes of one program: plain values, one behind the other. A reader takes
// bytes from any source, and never reads beyond their end; after the first failure all it returns
// is zero or empty, and ok() is false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace batchflow::apart {

class MessageWriter {
 public:
  explicit MessageWriter(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { append(&value, sizeof(value)); }
  template <class T>
  void list(std::span<const T> values) {
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size_bytes());
  }
  void text(std::string_view text) { list(std::span(text)); }

 private:
  void append(const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    const auto* const begin = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), begin, begin + bytes);
  }

  std::vector<std::byte>& out_;
};

class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> in) : in_(in) {}

  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }
  void fail() {
    ok_ = false;
    in_ = {};
  }

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    if (sizeof(value) > in_.size()) fail();
    if (!ok_) return value;
    std::memcpy(&value, in_.data(), sizeof(value));
    in_ = in_.subspan(sizeof(value));
    return value;
  }
  template <class T>
  void list(std::vector<T>& values) {
    const auto count = get<std::uint64_t>();
    if (count > in_.size() / sizeof(T)) fail();
    values.resize(ok_ ? static_cast<std::size_t>(count) : 0);
    if (values.empty()) return;
    std::memcpy(values.data(), in_.data(), values.size() * sizeof(T));
    in_ = in_.subspan(values.size() * sizeof(T));
  }
  // Fills `values` from a list of that length. A list of another length is a failure.
  template <class T>
  void fill(std::span<T> values) {
    if (get<std::uint64_t>() != values.size() || values.size_bytes() > in_.size()) fail();
    if (!ok_ || values.empty()) return;
    std::memcpy(values.data(), in_.data(), values.size_bytes());
    in_ = in_.subspan(values.size_bytes());
  }
  std::string text() {
    std::vector<char> found;
    list(found);
    return {found.begin(), found.end()};
  }

 private:
  std::span<const std::byte> in_;
  bool ok_ = true;
};

}  // namespace batchflow::apart
