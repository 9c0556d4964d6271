// SHA-256 (FIPS 180-4): names the content of a plugin's file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace batchflow::plugin {

using Sha256 = std::array<std::uint8_t, 32>;
Sha256 sha256(std::span<const std::byte> bytes);
std::string hex(std::span<const std::uint8_t> bytes);

}  // namespace batchflow::plugin
