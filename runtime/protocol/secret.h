// Secrets of the service's making, and how two are compared.
#pragma once

#include <string>
#include <string_view>

namespace batchflow {

// 128 bits that nobody guesses, in hexadecimal digits.
std::string make_secret();
// In a time that does not tell where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace batchflow
