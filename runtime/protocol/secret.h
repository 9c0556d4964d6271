// Secrets that the service makes, and how two are compared.
#pragma once

#include <string>
#include <string_view>

namespace batchflow::protocol {

// 128 random bits in hexadecimal digits.
std::string make_secret();
// Takes a time that does not depend on where the two differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace batchflow::protocol
