#include "runtime/objects/parts.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"

namespace batchflow::test::parts_test {
namespace {

using objects::Parts;

std::span<std::byte> memory_of(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_CASE("parts are filled one behind the other, in any steps") {
  for (std::size_t step = 1; step <= 10; ++step) {
    std::string a(3, '.'), none, b(1, '.'), c(6, '.');
    const std::vector<std::span<std::byte>> memory = {memory_of(none), memory_of(a),
                                                      memory_of(none), memory_of(b),
                                                      memory_of(c),    memory_of(none)};
    Parts parts{memory};
    std::string_view text = "0123456789";
    while (parts.left() > 0) {
      CHECK(parts.left() == text.size());
      CHECK_FALSE(parts.next().empty());
      parts.put(bytes_of(text.substr(0, step)));
      text.remove_prefix(std::min(step, text.size()));
    }
    CHECK(text.empty());
    CHECK(a + b + c == "0123456789");
  }
}

TEST_CASE("a copy goes on from the same byte, and what is skipped stays") {
  std::string a(4, '.'), b(4, '.');
  const std::vector<std::span<std::byte>> memory = {memory_of(a), memory_of(b)};
  const Parts all{memory};
  Parts rest = all;
  rest.skip(5);
  CHECK(rest.left() == 3);
  CHECK(rest.next().size() == 3);
  rest.put(bytes_of("xyz"));
  CHECK(rest.left() == 0);
  CHECK(all.left() == 8);
  CHECK(a + b == ".....xyz");
  CHECK(Parts().left() == 0);
}

}  // namespace
}  // namespace batchflow::test::parts_test
