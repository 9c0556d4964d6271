#include "programs/output/terminal.h"

#include <doctest/doctest.h>

namespace batchflow::test::terminal_test {

TEST_CASE("what would move a cursor or turn text around is written in letters") {
  CHECK(output::printable("a\nb\x1b[2J\x7f") == "a\\x0ab\\x1b[2J\\x7f");
  CHECK(output::printable("\u0085 \u009b") == "\\x85 \\x9b");
  CHECK(output::printable("cat\u202egpj.exe\u2066\u2069\u200f\u061c\u2028") ==
        "cat\\u202egpj.exe\\u2066\\u2069\\u200f\\u061c\\u2028");
  // All else stays unchanged, also bytes that are not UTF-8, but not a byte that alone is a control
  // character.
  for (const char* text :
       {"grün", "猫", "😀", "\u2027\u202f\u2065\u206a\u200d", "\xff\xc3", "\xe2\x80"})
    CHECK(output::printable(text) == (std::string_view(text) == "\xe2\x80" ? "\xe2\\x80" : text));
  CHECK(output::printable("\x9b"
                          "2J\xc0\x9b") == "\\x9b2J\\x1b");
}

}  // namespace batchflow::test::terminal_test
