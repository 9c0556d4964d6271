// The compact form of a position, for the promise log and the journal.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/order/position.h"

namespace batchflow::order {

void encode(const Position& position, std::vector<std::byte>& out);
// Empty, with the reason in `problem`, when the bytes are not one whole position.
std::optional<Position> decode_position(std::span<const std::byte> bytes, std::string& problem);

}  // namespace batchflow::order
