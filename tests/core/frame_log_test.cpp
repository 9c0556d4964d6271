#include "core/log/frame_log.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "core/base/random.h"

namespace batchflow::test::frame_log_test {

namespace {

using ByteList = std::vector<std::byte>;

ByteList bytes_of(std::string_view text) {
  ByteList bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

struct Log {
  ByteList bytes;
  std::vector<ByteList> payloads;
  std::vector<std::size_t> frame_ends;  // where each payload is whole
};

Log small_log(bool closed) {
  Log log;
  log::FrameWriter writer(log::LogKind::journal, 3, bytes_of("header"), log::FrameWriter::kNoBound,
                          log.bytes);
  for (const std::string_view text : {"first", "", "a third frame", "4"}) {
    log.payloads.push_back(bytes_of(text));
    CHECK(writer.append(log.payloads.back(), {}, log.bytes));
    log.frame_ends.push_back(log.bytes.size());
  }
  if (closed) writer.close(bytes_of("end"), log.bytes);
  CHECK(writer.written() == log.bytes.size());
  return log;
}

struct Result {
  std::vector<ByteList> payloads;
  log::LogEnd end = log::LogEnd::none;
  Bytes cut = 0;
  Bytes hole = 0;
  bool refused = false;
};

Result read(std::span<const std::byte> log) {
  Result result;
  try {
    log::FrameReader reader(log, "log", log::LogKind::journal, 3);
    std::span<const std::byte> payload;
    while (reader.next(payload)) result.payloads.emplace_back(payload.begin(), payload.end());
    result.end = reader.end();
    result.cut = reader.bytes_cut();
    result.hole = reader.hole();
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).starts_with("log: "));
    result.refused = true;
  }
  return result;
}

}  // namespace

TEST_CASE("crc32c has its well-known value, in pieces as at once") {
  const ByteList digits = bytes_of("123456789");
  CHECK(log::crc32c(digits) == 0xe3069283);
  for (std::size_t cut = 0; cut <= digits.size(); ++cut) {
    const std::span<const std::byte> all(digits);
    CHECK(log::crc32c(all.subspan(cut), log::crc32c(all.first(cut))) == 0xe3069283);
  }
}

TEST_CASE("what was written is read, with its header and its end") {
  const Log log = small_log(true);
  log::FrameReader reader(log.bytes, "log", log::LogKind::journal, 3);
  const auto header = bytes_of("header");
  CHECK(std::equal(header.begin(), header.end(), reader.header().begin(), reader.header().end()));
  const Result result = read(log.bytes);
  CHECK(result.payloads == log.payloads);
  CHECK(result.end == log::LogEnd::closed);
  CHECK(result.cut == 0);
  CHECK(read(small_log(false).bytes).end == log::LogEnd::none);
}

TEST_CASE("cut at every byte, all whole frames come back and the rest is counted") {
  for (const bool closed : {false, true}) {
    const Log log = small_log(closed);
    for (std::size_t size = 0; size < log.bytes.size(); ++size) {
      CAPTURE(size);
      const Result result = read(std::span(log.bytes).first(size));
      REQUIRE_FALSE(result.refused);
      std::size_t whole = 0;
      while (whole < log.frame_ends.size() && log.frame_ends[whole] <= size) ++whole;
      REQUIRE(result.payloads.size() == whole);
      REQUIRE(std::equal(result.payloads.begin(), result.payloads.end(), log.payloads.begin()));
      REQUIRE(result.end == log::LogEnd::none);
      if (whole > 0) REQUIRE(result.cut == size - log.frame_ends[whole - 1]);
      // The same with the tail as zeros, as a file system may leave it.
      ByteList zeros(
          log.bytes.begin(),
          log.bytes.begin() + static_cast<std::ptrdiff_t>(whole ? log.frame_ends[whole - 1] : 0));
      if (whole > 0) {
        zeros.resize(size, std::byte{0});
        REQUIRE(read(zeros).payloads.size() == whole);
      }
    }
  }
}

TEST_CASE("a flip of any bit is refused, or costs no more than the last frame") {
  for (const bool closed : {false, true}) {
    const Log log = small_log(closed);
    for (std::size_t bit = 0; bit < log.bytes.size() * 8; ++bit) {
      CAPTURE(bit);
      ByteList flipped = log.bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      const Result result = read(flipped);
      if (result.refused) continue;
      // Harmless: only in the last frame, whose bytes are counted as cut.
      const std::size_t last_begin =
          closed ? log.frame_ends.back() : log.frame_ends[log.frame_ends.size() - 2];
      REQUIRE(bit / 8 >= last_begin);
      REQUIRE(result.cut == log.bytes.size() - last_begin);
      REQUIRE(result.payloads.size() == log.payloads.size() - (closed ? 0 : 1));
    }
  }
}

TEST_CASE("frames lost, repeated or exchanged are found") {
  const Log log = small_log(true);
  const auto frame = [&](std::size_t i) {
    return std::pair(log.bytes.begin() + static_cast<std::ptrdiff_t>(log.frame_ends[i - 1]),
                     log.bytes.begin() + static_cast<std::ptrdiff_t>(log.frame_ends[i]));
  };
  ByteList lost = log.bytes;
  lost.erase(lost.begin() + (frame(2).first - log.bytes.begin()),
             lost.begin() + (frame(2).second - log.bytes.begin()));
  CHECK(read(lost).refused);
  ByteList repeated = log.bytes;
  repeated.insert(repeated.begin() + (frame(2).second - log.bytes.begin()), frame(2).first,
                  frame(2).second);
  CHECK(read(repeated).refused);
  ByteList more = log.bytes;
  more.push_back(std::byte{1});
  CHECK(read(more).refused);  // nothing comes after an end mark
}

TEST_CASE("another kind, another version and another file are named as such") {
  const Log log = small_log(true);
  CHECK_THROWS_WITH_AS(log::FrameReader(log.bytes, "x", log::LogKind::promises, 3),
                       doctest::Contains("x: not a promise log"), ConfigError);
  CHECK_THROWS_WITH_AS(log::FrameReader(log.bytes, "x", log::LogKind::journal, 4),
                       doctest::Contains("version 3, this program reads version 4"), ConfigError);
  CHECK_THROWS_AS(
      log::FrameReader(bytes_of("time,id,size\n1,2,3\n"), "x", log::LogKind::journal, 3),
      ConfigError);
}

TEST_CASE("at its bound a log ends with a mark and never exceeds it") {
  for (Bytes bound = 64; bound < 400; ++bound) {
    ByteList bytes;
    log::FrameWriter writer(log::LogKind::journal, 3, bytes_of("h"), bound, bytes);
    const auto payload = bytes_of("0123456789");
    std::size_t accepted = 0;
    for (int i = 0; i < 50; ++i) accepted += writer.append(payload, bytes_of("end"), bytes);
    REQUIRE(writer.ended());
    REQUIRE(bytes.size() <= bound);
    // The next frame would not have fitted before the mark.
    REQUIRE(bytes.size() + log::FrameWriter::kFrameBytes + payload.size() > bound);
    const Result result = read(bytes);
    REQUIRE(result.payloads.size() == accepted);
    REQUIRE(result.end == log::LogEnd::at_bound);
  }
}

TEST_CASE("random damage is read or refused, never more") {
  const Log log = small_log(true);
  for (std::uint64_t seed = 0; seed < 50'000; ++seed) {
    INFO("replay: seed " << seed << " of this test");
    Random random(hash(seed));
    ByteList bytes = log.bytes;
    for (std::uint64_t i = 0; i <= random.below(5); ++i) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    }
    bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(random.below(10)), bytes.end());
    REQUIRE(read(bytes).payloads.size() <= log.payloads.size());
  }
}

TEST_CASE("a hole of zeros with later frames behind it ends the log where it begins") {
  // Frames of 9 to 408 bytes; a file system loses blocks of 512 bytes or more.
  Log log;
  Random random(hash(22));
  log::FrameWriter writer(log::LogKind::journal, 3, bytes_of("header"), log::FrameWriter::kNoBound,
                          log.bytes);
  while (log.bytes.size() < 20'000) {
    ByteList payload(random.below(400));
    for (std::byte& byte : payload) byte = static_cast<std::byte>(1 + random.below(255));
    log.payloads.push_back(payload);
    writer.append(payload, {}, log.bytes);
    log.frame_ends.push_back(log.bytes.size());
  }
  for (const std::size_t block : {512, 4096}) {
    for (std::size_t from = block; from + block < log.bytes.size(); from += block) {
      // Whole blocks; or one from where the last write before it had ended.
      const auto after = std::upper_bound(log.frame_ends.begin(), log.frame_ends.end(), from);
      for (const std::size_t begin : {from, *after < from + block ? *after : from}) {
        CAPTURE(begin);
        ByteList holed = log.bytes;
        std::fill(holed.begin() + static_cast<std::ptrdiff_t>(begin),
                  holed.begin() + static_cast<std::ptrdiff_t>(from + block), std::byte{0});
        const Result result = read(holed);
        REQUIRE_FALSE(result.refused);
        std::size_t whole = 0;
        while (log.frame_ends[whole] <= begin) ++whole;
        REQUIRE(result.payloads.size() == whole);
        REQUIRE(std::equal(result.payloads.begin(), result.payloads.end(), log.payloads.begin()));
        REQUIRE(result.cut == log.bytes.size() - log.frame_ends[whole - 1]);
        // In the block that is lost, or where its first frame begins.
        REQUIRE(result.hole >= begin);
        REQUIRE(result.hole < from + block);
        REQUIRE(result.end == log::LogEnd::none);
      }
    }
  }
  // One wrong byte is damage.
  ByteList wrong = log.bytes;
  wrong[5000] = std::byte{0};
  CHECK(read(wrong).refused);
}

}  // namespace batchflow::test::frame_log_test
