// The kinds of fields that a batch can have. A field's kind says what it is read as, and what steps
// on the picture do to it. docs/fields.md has them as users see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace batchflow::prepare {

enum class FieldKind : std::uint8_t { picture, mask, boxes, points, numbers, bytes, sound };

// By kind, as pipelines write them.
inline constexpr std::string_view kFieldKindNames[] = {"picture", "mask",  "boxes", "points",
                                                       "numbers", "bytes", "sound"};
constexpr std::string_view kind_name(FieldKind kind) {
  return kFieldKindNames[static_cast<std::size_t>(kind)];
}

// Whether the steps that move pixels move it, too.
constexpr bool follows_picture(FieldKind kind) {
  return kind == FieldKind::mask || kind == FieldKind::boxes || kind == FieldKind::points;
}

}  // namespace batchflow::prepare
