// A position as the JSON object that `state_dict` holds. Bitmaps are base64; their first bit is the
// lowest of byte 0.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/order/position.h"

namespace batchflow::order {

std::string to_json(const Position& position);
// Empty, with the reason in `problem`, when the text is no position.
std::optional<Position> position_from_json(std::string_view text, std::string& problem);

}  // namespace batchflow::order
