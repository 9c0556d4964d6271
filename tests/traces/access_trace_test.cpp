#include "traces/access_trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "tests/config_error.h"
#include "tests/traces/trace_files.h"

namespace batchflow::test::access_trace_test {

namespace {

template <class Integer>
void append(std::string& bytes, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

std::string record(std::uint32_t time, std::uint64_t id, std::uint32_t size, std::int64_t next) {
  std::string bytes;
  append(bytes, time);
  append(bytes, id);
  append(bytes, size);
  append(bytes, next);
  return bytes;
}

std::string error_of(const std::string& path,
                     traces::TraceFormat format = traces::TraceFormat::by_content) {
  return config_error([&] { traces::read_access_trace(path, format); });
}

constexpr auto kNoNext = traces::AccessTrace::kNoNext;

void check_example(const traces::AccessTrace& trace) {
  CHECK(trace.items == std::vector<std::uint32_t>{0, 1, 0, 2});
  CHECK(trace.next_uses == std::vector<std::uint32_t>{2, kNoNext, kNoNext, kNoNext});
  CHECK(trace.item_sizes == std::vector<std::uint32_t>{5, 7, 1});
  CHECK(trace.sizes.empty());
  CHECK(trace.one_size == 0);
  CHECK(trace.working_set_bytes == 13);
  CHECK(trace.bytes_requested == 18);
  CHECK(trace.requests_of_size_zero == 1);
}
// The largest possible id, and a request of size zero.
const std::string kCsv =
    "1,18446744073709551615,5\n1,3,7\n2,18446744073709551615,5\n2,9,0\n3,4,1\n";

}  // namespace

TEST_CASE("CSV with and without a header, with any line ends, compressed or not") {
  const Folder folder;
  check_example(traces::read_access_trace(folder.file("a.csv", kCsv)));
  check_example(traces::read_access_trace(folder.file("b.csv", "time,id,size\n" + kCsv)));
  check_example(
      traces::read_access_trace(folder.file("c", "timestamp, object, bytes\r\n" + kCsv + "\n")));
  check_example(traces::read_access_trace(folder.file("d", "\xef\xbb\xbf" + kCsv)));
  check_example(traces::read_access_trace(folder.file("e.csv.zst", zstd(kCsv))));
  check_example(traces::read_access_trace(folder.file("f.csv", zstd(kCsv))));
  check_example(traces::read_access_trace(folder.file("g.csv", kCsv.substr(0, kCsv.size() - 1))));
  std::string crlf;
  for (char c : kCsv) crlf += c == '\n' ? std::string(" \r\n") : std::string(1, c);
  check_example(traces::read_access_trace(folder.file("h.csv", crlf)));
  std::string returns = kCsv;
  std::replace(returns.begin(), returns.end(), '\n', '\r');
  check_example(traces::read_access_trace(folder.file("i.csv", returns)));
}

TEST_CASE("a header names the columns, in any order and case, and some may be of no use") {
  const Folder folder;
  const auto with_header = [&](const std::string& header, auto line) {
    std::string csv = header + "\n";
    for (std::size_t begin = 0; begin < kCsv.size(); begin = kCsv.find('\n', begin) + 1) {
      const std::size_t first = kCsv.find(',', begin), second = kCsv.find(',', first + 1);
      csv += line(kCsv.substr(begin, first - begin), kCsv.substr(first + 1, second - first - 1),
                  kCsv.substr(second + 1, kCsv.find('\n', begin) - second - 1)) +
             "\n";
    }
    check_example(traces::read_access_trace(folder.file("t.csv", csv)));
  };
  using Text = const std::string&;
  with_header("ID,Time,Size", [](Text t, Text i, Text s) { return i + "," + t + "," + s; });
  with_header("size,id,time", [](Text t, Text i, Text s) { return s + "," + i + "," + t; });
  with_header("\"Timestamp\", \"Key\", \"Bytes\"",
              [](Text t, Text i, Text s) { return t + "," + i + "," + s; });
  with_header("op,obj_id,next,obj_size,ts",
              [](Text t, Text i, Text s) { return "get," + i + ",-1," + s + "," + t; });
  with_header("key,size", [](Text, Text i, Text s) { return i + "," + s; });
  with_header("when,what,how much", [](Text t, Text i, Text s) { return t + "," + i + "," + s; });
}

TEST_CASE("oracleGeneral as other programs write it is taken for what it is") {
  const Folder folder;
  constexpr std::int64_t kNever[] = {-1, -2, 0, INT64_MAX, INT64_MAX - 1};
  for (const std::int64_t never : kNever) {
    for (const std::uint32_t start :
         {0u, 1'500'000'000u, 0x08088b1fu, 0x0000feffu, UINT32_MAX - 1}) {
      std::string bytes;
      for (std::uint32_t i = 0; i < 64; ++i) {
        // A clock that wraps, a little disorder, ids that are hashes, sizes up to the largest.
        const std::uint32_t time = start + i / 4 - (i % 5 == 0 && start > 5 ? 2 : 0);
        bytes += record(time, mix(i % 32), i % 2 == 0 ? UINT32_MAX : i,
                        i < 32 ? static_cast<std::int64_t>(i + 32) : never);
      }
      CAPTURE(never);
      CAPTURE(start);
      CHECK(traces::read_access_trace(folder.file("t", bytes)).distinct_items() == 32);
    }
  }
}

TEST_CASE("oracleGeneral, compressed or not; its next uses are computed anew") {
  const Folder folder;
  const std::string bytes = record(1, UINT64_MAX, 5, 2) + record(1, 3, 7, -1) +
                            record(2, UINT64_MAX, 5, -1) + record(2, 9, 0, -1) +
                            record(3, 4, 1, INT64_MAX);
  check_example(traces::read_access_trace(folder.file("a.oracleGeneral.bin", bytes)));
  check_example(traces::read_access_trace(folder.file("b.zst", zstd(bytes))));
}

TEST_CASE("the size of an item may change from request to request") {
  const Folder folder;
  const traces::AccessTrace trace =
      traces::read_access_trace(folder.file("a.csv", "0,1,5\n0,2,5\n0,1,6\n0,2,5\n"));
  CHECK(trace.sizes == std::vector<std::uint32_t>{5, 5, 6, 5});
  CHECK(trace.working_set_bytes == 10);
  CHECK(trace.bytes_requested == 21);
  CHECK(trace.one_size == 0);
  CHECK(traces::read_access_trace(folder.file("b.csv", "0,1,5\n0,2,5\n")).one_size == 5);
}

TEST_CASE("a trace larger than the reader's blocks arrives whole") {
  std::string csv, binary;
  Random random(3);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 300000; ++i) {
    const std::uint64_t id = random.below(50000) * 0x123456789abcdefULL;
    ids.push_back(id);
    csv += std::to_string(i) + "," + std::to_string(id) + ",4096\n";
    binary += record(static_cast<std::uint32_t>(i), id, 4096, 0);
  }
  const Folder folder;
  const traces::AccessTrace a = traces::read_access_trace(folder.file("a.csv", csv));
  const traces::AccessTrace b = traces::read_access_trace(folder.file("b.bin", binary));
  const traces::AccessTrace c = traces::read_access_trace(folder.file("c.csv.zst", zstd(csv)));
  CHECK(a.requests() == ids.size());
  CHECK(a.items == b.items);
  CHECK(a.items == c.items);
  CHECK(a.next_uses == b.next_uses);
  CHECK(a.one_size == 4096);
  for (std::size_t i = 0; i < a.requests(); ++i) {
    if (a.next_uses[i] == kNoNext) continue;
    REQUIRE(a.next_uses[i] > i);
    REQUIRE(ids[a.next_uses[i]] == ids[i]);
  }
}

TEST_CASE("bad input is one line with place and remedy") {
  const Folder folder;
  const auto csv_error = [&](const std::string& content) {
    const std::string path = folder.file("bad.csv", content);
    const std::string error = error_of(path, traces::TraceFormat::csv);
    CHECK(error.starts_with(path));
    CHECK(error.find('\n') == std::string::npos);
    return error.substr(std::min(path.size(), error.size()));
  };
  CHECK(csv_error("0,1,1\n0,x,1\n") ==
        ":2: the id 'x' is wrong; write an integer from 0 to 2^64 - 1");
  CHECK(csv_error("0,1,1\n0,-1,1\n").starts_with(":2: the id '-1' is wrong"));
  CHECK(csv_error("0,18446744073709551616,1\n").starts_with(":1: the id"));
  CHECK(csv_error("0,1,4294967296\n").starts_with(":1: the size"));
  CHECK(csv_error("0,1,\n").starts_with(":1: the size ''"));
  CHECK(csv_error("y,1,1\n") == ":1: the time 'y' is wrong; write a number of seconds");
  CHECK(csv_error("1.2.3,1,1\n").starts_with(":1: the time"));
  CHECK(csv_error("0,1,1\n0,1\n") == ":2: '0,1' is not a request; write time,id,size");
  CHECK(csv_error("0,1,1,4\n").starts_with(":1: '0,1,1,4' is not a request"));
  CHECK(csv_error("time,id,size\n").starts_with(":1: no request"));
  // An error in the first line does not make it a header.
  for (const char* time : {"-1", "nan", "\"1\"", ".5", "+1", "inf", ""}) {
    CHECK(csv_error(std::string(time) + ",1,1\n").starts_with(":1: the time '"));
  }
  CHECK(csv_error("1,1.5,1\n").starts_with(":1: the id '1.5'"));
  CHECK(csv_error("-1,-2,-3\n0,1,1\n").starts_with(":1: the time '-1'"));
  CHECK(csv_error("time,size,name\n0,1,1\n").starts_with(":1: no column is called id"));
  CHECK(csv_error("id,size,time\n0,1,x\n").starts_with(":2: the time 'x'"));
  CHECK(csv_error("id,when,what\n0,1,x\n").starts_with(":2: the size 'x'"));
  CHECK(csv_error("id,key,size\n0,1,1\n").starts_with(":1: columns 1 and 2 are both the id"));
  CHECK(csv_error("a,id,b,c\n0,1,1,1\n").starts_with(":1: no column is called size"));
  CHECK(csv_error("a,id,b,size\n0,1,1\n").ends_with("write 4 fields, as the header"));
  CHECK(csv_error("time,id,size\n1,1,1\ntime,id,size\n").starts_with(":3: the time 'time'"));
  CHECK(csv_error("0,1,0\n").starts_with(":1: no request"));
  CHECK(csv_error(std::string(3 << 20, '7')).starts_with(":1: '7777"));
  const std::string cut = folder.file("cut.bin", record(0, 1, 1, -1) + "1234567");
  CHECK(error_of(cut).starts_with(cut + ":2: the last record has 7 of its 24 bytes"));
  CHECK(error_of(folder.file("none", "")).find("is empty; write") != std::string::npos);
  CHECK(error_of("/nowhere/at/all").find("No such file") != std::string::npos);
  CHECK(error_of("/").find("is a directory") != std::string::npos);
  const std::string whole = zstd(kCsv);
  const std::string half = folder.file("half.zst", whole.substr(0, whole.size() - 3));
  CHECK(error_of(half).find("cut short") != std::string::npos);
  const std::string more = folder.file("more.zst", whole + "and something else");
  CHECK(error_of(more).find("has other bytes after its zstd data") != std::string::npos);
  CHECK(error_of(folder.file("e.zst", zstd(""))).ends_with("is empty; write at least one request"));
  CHECK(traces::read_access_trace(folder.file("two.zst", whole + whole)).requests() == 8);
  const std::string bad = folder.file("bad.zst", whole.substr(0, 6) + std::string(40, '\x7f'));
  CHECK(error_of(bad).find("not valid zstd") != std::string::npos);
}

}  // namespace batchflow::test::access_trace_test
