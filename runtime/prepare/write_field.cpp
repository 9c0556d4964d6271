#include "runtime/prepare/write_field.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/prepare/numbers.h"

namespace batchflow::prepare {
namespace {

void pad(std::uint64_t with, batch::ElementType type, std::byte* at, std::uint64_t count) {
  const auto value = static_cast<std::int64_t>(with);
  std::array<std::byte, 8> element;
  write_integer(value, type, element.data());
  for (std::uint64_t i = 0; i < count; ++i, at += batch::element_bytes(type))
    std::memcpy(at, element.data(), batch::element_bytes(type));
}

}  // namespace

bool write_field(const NumbersPlan& plan, const batch::Field& field, const sources::Part& part,
                 const batch::BlockWriter& out, std::size_t at_field, std::uint32_t index) {
  const Bytes row_bytes = plan.stored.row_bytes();
  const std::uint64_t rows = part.bytes.size() / row_bytes;
  const bool whole_rows = part.bytes.size() % row_bytes == 0;
  if (part.type != plan.stored.type || !whole_rows || rows > plan.stored.rows_most() ||
      (!plan.stored.ragged && rows != 1))
    return false;
  const std::uint64_t given = part.bytes.size() / batch::element_bytes(part.type);
  if (field.ragged) {
    std::byte* at = out.begin_rows(at_field, index);
    convert(part.type, part.bytes.data(), field.type, at, given);
    out.end_rows(at_field, index, rows);
    return true;
  }
  std::byte* at = out.row(at_field, index);
  const Bytes wanted = field.row_bytes() / batch::element_bytes(field.type);
  const std::uint64_t taken = std::min<std::uint64_t>(given, wanted);
  convert(part.type, part.bytes.data(), field.type, at, taken);
  if (taken < wanted)
    pad(plan.tokens->pad_with, field.type, at + taken * batch::element_bytes(field.type),
        wanted - taken);
  return true;
}

}  // namespace batchflow::prepare
