#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

// Not inline: where GCC 12 sees how large the vector is, it warns of what cannot happen.
void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace batchflow::sources
