// Converts numbers from one element type to another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/batch/batch_spec.h"

namespace batchflow::prepare {

// Round to the nearest value, halves to the even one.
std::uint16_t to_f16(float value);
std::uint16_t to_bf16(float value);

// Whether every number of type `from`, but for rounding, is one of type `to`.
bool converts(batch::ElementType from, batch::ElementType to);
// REQUIRES: converts(from, to)
void convert(batch::ElementType from, const std::byte* in, batch::ElementType to, std::byte* out,
             std::uint64_t count);

// Writes one number as type `type`, if that type has this value.
void write_integer(std::int64_t value, batch::ElementType type, std::byte* out);

}  // namespace batchflow::prepare
