#include "traces/text_fields.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/base/random.h"

namespace batchflow::test::text_fields_test {

namespace {

std::vector<std::string_view> fields_of(std::string_view line, char delimiter = ',') {
  std::vector<std::string_view> fields;
  traces::split(line, delimiter, fields);
  return fields;
}

std::string texts_of(std::string_view line) {
  std::string result, buffer;
  for (std::string_view field : fields_of(line)) {
    result += fmt::format("[{}]", traces::field_text(field, buffer));
  }
  return result;
}

}  // namespace

TEST_CASE("fields are split at delimiters, trimmed, and quotes hold theirs") {
  CHECK(texts_of("a, b ,\tc\r") == "[a][b][c]");
  CHECK(texts_of("") == "[]");
  CHECK(texts_of(",") == "[][]");
  CHECK(texts_of("\"a,b\",c") == "[a,b][c]");
  CHECK(texts_of(" \"a \"\"b\"\"\" , c") == "[a \"b\"][c]");
  CHECK(texts_of("\"\",\"\"\"\"") == "[][\"]");
  CHECK(texts_of("\"open,b") == "[\"open][b]");
  CHECK(texts_of("a\"b,c\"d") == "[a\"b][c\"d]");
  CHECK(fields_of("a|b,c|", '|').size() == 3);
}

TEST_CASE("decimal numbers are exact") {
  CHECK(traces::decimal("1.5", 2) == 150);
  CHECK(traces::decimal("1.005", 2) == 101);
  CHECK(traces::decimal("1.004999", 2) == 100);
  CHECK(traces::decimal("-0.25", 9) == -250'000'000);
  CHECK(traces::decimal("0.1234567894", 9) == 123'456'789);
  CHECK(traces::decimal("0.1234567895", 9) == 123'456'790);
  CHECK(traces::decimal("7", 0) == 7);
  CHECK(traces::decimal("7.5", 0) == 8);
  CHECK(traces::decimal("7.", 0) == 7);
  CHECK(traces::decimal("000000000000000000000000000001", 9) == 1'000'000'000);
  CHECK(traces::decimal("9000000000000000000", 0) == 9'000'000'000'000'000'000);
  CHECK(traces::decimal("9000000000", 9) == 9'000'000'000'000'000'000);
  for (const char* wrong : {"",
                            "-",
                            ".",
                            ".5",
                            "+1",
                            "1e",
                            "e3",
                            "1e+-3",
                            "1e1.5",
                            "1e41",
                            "1.2.3e5",
                            ".5e1",
                            "1e3 ",
                            "1.2.3",
                            "1 ",
                            " 1",
                            "x",
                            "--1",
                            "nan",
                            "9000000000000000001",
                            "18446744073709551616",
                            "99999999999999999999999999999999999999"}) {
    CAPTURE(wrong);
    CHECK(traces::decimal(wrong, 0) == std::nullopt);
  }
  CHECK(traces::decimal("9000000001", 9) == std::nullopt);
}

TEST_CASE("exponents move the point, and lose nothing") {
  CHECK(traces::decimal("1e-05", 9) == 10'000);
  CHECK(traces::decimal("3.9e9", 9) == 3'900'000'000'000'000'000);
  CHECK(traces::decimal("1.7092872005e+09", 9) == 1'709'287'200'500'000'000);
  CHECK(traces::decimal("-12.5E1", 0) == -125);
  CHECK(traces::decimal("12e-1", 0) == 1);
  CHECK(traces::decimal("15e-1", 0) == 2);
  CHECK(traces::decimal("0e40", 9) == 0);
  CHECK(traces::decimal("9e-40", 9) == 0);
  CHECK(traces::decimal("123e-3", 9) == 123'000'000);
  CHECK(traces::decimal("1e19", 0) == std::nullopt);
}

TEST_CASE("calendar times, with and without a zone") {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const auto ns = [](std::string_view text) { return traces::calendar_time(text).value().ns; };
  CHECK(ns("1970-01-01 00:00:00") == 0);
  CHECK(ns("1969-12-31 23:59:59") == -kSecond);
  CHECK(ns("2000-02-29T12:00:00") == 951'825'600 * kSecond);
  CHECK(ns("2017-10-07 01:12:09.5") == 1'507'338'729 * kSecond + kSecond / 2);
  CHECK(ns("2023-03-01 08:18:22+08:00") == ns("2023-03-01T00:18:22Z"));
  CHECK(ns("2023-03-01 08:18:22-0330") == ns("2023-03-01 11:48:22+00"));
  CHECK(!traces::calendar_time("2017-10-07 01:12:09")->has_zone);
  CHECK(traces::calendar_time("2017-10-07 01:12:09Z")->has_zone);
  for (const char* wrong :
       {"", "2017-10-07", "2017-10-07 01:12", "2017-13-07 01:12:09", "2017-02-29 01:12:09",
        "2017-10-07 24:12:09", "2017-10-07 01:60:09", "2017-10-07 01:12:61", "2017-10-07 01:12:09.",
        "2017-10-07 01:12:09 PDT", "2017-10-07 01:12:09+8", "2017/10/07 01:12:09",
        "1066-10-14 09:00:00", "9999-12-31 23:59:59", "2O17-10-07 01:12:09"}) {
    CAPTURE(wrong);
    CHECK(!traces::calendar_time(wrong));
  }
}

TEST_CASE("each second of the calendar is written as it is read") {
  Random random(5);
  for (int i = 0; i < 20'000; ++i) {
    const auto second = static_cast<std::int64_t>(random.below(6'000'000'000)) - 3'000'000'000;
    const auto again = traces::calendar_time(traces::calendar_text(second * 1'000'000'000));
    REQUIRE(again);
    REQUIRE(again->ns == second * 1'000'000'000);
  }
}

}  // namespace batchflow::test::text_fields_test
