#include "runtime/service/http/page_key.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

constexpr std::string_view kName = "key=";

// Takes as long wherever two texts of one length differ, so that no key can be guessed by parts.
bool are_same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned differ = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    differ |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return differ == 0;
}

}  // namespace

std::string make_page_key() {
  std::array<std::uint64_t, 2> bits{};
  if (getrandom(bits.data(), sizeof bits, 0) != sizeof bits) return {};
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

KeyShown key_shown(std::string_view target, std::string_view key) {
  const std::size_t mark = target.find('?');
  std::string_view query = mark == target.npos ? std::string_view() : target.substr(mark + 1);
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    if (one.starts_with(kName))
      return !key.empty() && are_same(one.substr(kName.size()), key) ? KeyShown::right
                                                                     : KeyShown::wrong;
    query.remove_prefix(std::min(query.size(), one.size() + 1));
  }
  return KeyShown::none;
}

}  // namespace batchflow::service
