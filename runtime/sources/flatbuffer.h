// Reads flatbuffers, the encoding of Arrow's messages. A read that would leave the bytes answers 0
// and makes ok() false.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

class FlatTable {
 public:
  // The root of the bytes. `ok` stays as long as this and what comes from it.
  FlatTable(std::span<const std::byte> bytes, bool& ok) : bytes_(bytes), ok_(&ok) {
    at_ = number<std::uint32_t>(0);
  }

  template <class T>
  T get(unsigned field, T otherwise) const {
    const std::uint64_t at = place(field);
    return at == 0 ? otherwise : number<T>(at);
  }
  bool has(unsigned field) const { return place(field) != 0; }
  // REQUIRES: has(field)
  FlatTable table(unsigned field) const { return table_at(place(field)); }
  std::string_view text(unsigned field) const {
    const std::uint64_t at = place(field);
    if (at == 0) return {};
    const std::uint64_t begin = at + number<std::uint32_t>(at);
    const std::uint64_t bytes = number<std::uint32_t>(begin);
    if (begin + 4 > bytes_.size() || bytes > bytes_.size() - begin - 4) return fail(), "";
    return as_text(bytes_.subspan(begin + 4, bytes));
  }
  // A list of tables, or of structs of `each` bytes.
  std::uint64_t count(unsigned field, std::uint64_t each = 4) const {
    const std::uint64_t at = place(field);
    if (at == 0) return 0;
    const std::uint64_t begin = at + number<std::uint32_t>(at);
    const std::uint64_t found = number<std::uint32_t>(begin);
    if (begin + 4 > bytes_.size() || found > (bytes_.size() - begin - 4) / each) return fail(), 0;
    return found;
  }
  // REQUIRES: index < count(field)
  FlatTable table(unsigned field, std::uint64_t index) const {
    const std::uint64_t at = place(field);
    return table_at(at + number<std::uint32_t>(at) + 4 + 4 * index);
  }
  template <class T>
  T in_struct(unsigned field, std::uint64_t index, std::uint64_t each, std::uint64_t offset) const {
    const std::uint64_t at = place(field);
    return number<T>(at + number<std::uint32_t>(at) + 4 + each * index + offset);
  }

 private:
  FlatTable table_at(std::uint64_t at) const {
    FlatTable other = *this;
    other.at_ = at + number<std::uint32_t>(at);
    return other;
  }
  // Of a field's value; 0: it is not there.
  std::uint64_t place(unsigned field) const {
    const std::int64_t back = number<std::int32_t>(at_);
    const std::int64_t table = static_cast<std::int64_t>(at_) - back;
    if (table < 0) return fail(), 0;
    const auto head = static_cast<std::uint64_t>(table);
    const std::uint64_t entry = 4 + 2 * std::uint64_t{field};
    if (entry + 2 > number<std::uint16_t>(head)) return 0;
    const std::uint64_t offset = number<std::uint16_t>(head + entry);
    return offset == 0 ? 0 : at_ + offset;
  }
  template <class T>
  T number(std::uint64_t at) const {
    if (at > bytes_.size() || sizeof(T) > bytes_.size() - at) return fail(), T{};
    return load<T>(bytes_, at);
  }
  void fail() const { *ok_ = false; }

  std::span<const std::byte> bytes_;
  bool* ok_;
  std::uint64_t at_ = 0;
};

}  // namespace batchflow::sources
