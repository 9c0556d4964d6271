// Numbers of one element type as another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/batch/batch_spec.h"

namespace batchflow::prepare {

// To the nearest, halves to the even one.
std::uint16_t to_f16(float value);
std::uint16_t to_bf16(float value);

// Whether every number of type `from` is, but for rounding, one of type `to`.
bool converts(batch::ElementType from, batch::ElementType to);
// REQUIRES: converts(from, to)
void convert(batch::ElementType from, const std::byte* in, batch::ElementType to, std::byte* out,
             std::uint64_t count);

// One number of type `type`, wherever it has that value.
void write_integer(std::int64_t value, batch::ElementType type, std::byte* out);

}  // namespace batchflow::prepare
