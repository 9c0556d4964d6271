#include "runtime/protocol/secret.h"

#include <cstdint>
#include <random>

#include "fmt/format.h"

namespace batchflow::protocol {

std::string make_secret() {
  std::random_device chance;
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{:08x}", static_cast<std::uint32_t>(chance()));
  return text;
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    differs |= static_cast<unsigned char>(a[i]) ^
               static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return differs == 0;
}

}  // namespace batchflow::protocol
