// Converts numbers from one element type to another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "runtime/batch/batch_spec.h"

namespace batchflow::prepare {

using kernels::to_bf16;
using kernels::to_f16;

// Whether every number of type `from`, but for rounding, is one of type `to`.
bool converts(batch::ElementType from, batch::ElementType to);
// REQUIRES: converts(from, to)
void convert(batch::ElementType from, const std::byte* in, batch::ElementType to, std::byte* out,
             std::uint64_t count);

// Writes one number as type `type`, if that type has this value.
void write_integer(std::int64_t value, batch::ElementType type, std::byte* out);

}  // namespace batchflow::prepare
