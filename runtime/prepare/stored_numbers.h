// Numbers in the bytes of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace batchflow::prepare {

// REQUIRES: size bytes from `at` on
inline std::uint32_t little_number(std::span<const std::byte> bytes, std::size_t at,
                                   std::size_t size) {
  std::uint32_t number = 0;
  for (std::size_t i = size; i > 0; --i)
    number = number << 8 | std::to_integer<std::uint32_t>(bytes[at + i - 1]);
  return number;
}
inline std::uint32_t big_number(std::span<const std::byte> bytes, std::size_t at,
                                std::size_t size) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < size; ++i)
    number = number << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return number;
}

}  // namespace batchflow::prepare
