#include "traces/access_trace.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <zstd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/config_error.h"
#include "core/random.h"

using namespace batchflow;

namespace {

// A folder of its own for each test, gone with it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "batchflow-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& content) const {
    const std::string path = (path_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::filesystem::path path_;
};

std::string compressed(const std::string& content) {
  std::string result(ZSTD_compressBound(content.size()), '\0');
  result.resize(ZSTD_compress(result.data(), result.size(), content.data(), content.size(), 3));
  return result;
}

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

std::string error_of(const std::string& path, TraceFormat format = TraceFormat::by_content) {
  try {
    read_access_trace(path, format);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

constexpr auto kNoNext = AccessTrace::kNoNext;

void check_example(const AccessTrace& trace) {
  CHECK(trace.items == std::vector<std::uint32_t>{0, 1, 0, 2});
  CHECK(trace.next_uses == std::vector<std::uint32_t>{2, kNoNext, kNoNext, kNoNext});
  CHECK(trace.item_sizes == std::vector<std::uint32_t>{5, 7, 1});
  CHECK(trace.sizes.empty());
  CHECK(trace.one_size == 0);
  CHECK(trace.working_set_bytes == 13);
  CHECK(trace.bytes_requested == 18);
  CHECK(trace.requests_of_size_zero == 1);
}
// The largest id there is, and a request of size zero.
const std::string kCsv =
    "1,18446744073709551615,5\n1,3,7\n2,18446744073709551615,5\n2,9,0\n3,4,1\n";

}  // namespace

TEST_CASE("CSV with and without a header, with any line ends, compressed or not") {
  const Folder folder;
  check_example(read_access_trace(folder.file("a.csv", kCsv)));
  check_example(read_access_trace(folder.file("b.csv", "time,id,size\n" + kCsv)));
  check_example(read_access_trace(folder.file("c", "timestamp, object, bytes\r\n" + kCsv + "\n")));
  check_example(read_access_trace(folder.file("d", "\xef\xbb\xbf" + kCsv)));
  check_example(read_access_trace(folder.file("e.csv.zst", compressed(kCsv))));
  check_example(read_access_trace(folder.file("f.csv", compressed(kCsv))));
  check_example(read_access_trace(folder.file("g.csv", kCsv.substr(0, kCsv.size() - 1))));
  std::string crlf;
  for (char c : kCsv) crlf += c == '\n' ? std::string(" \r\n") : std::string(1, c);
  check_example(read_access_trace(folder.file("h.csv", crlf)));
}

TEST_CASE("oracleGeneral, compressed or not; its next uses are computed anew") {
  const Folder folder;
  const std::string bytes = record(1, UINT64_MAX, 5, 2) + record(1, 3, 7, -1) +
                            record(2, UINT64_MAX, 5, -1) + record(2, 9, 0, -1) +
                            record(3, 4, 1, INT64_MAX);
  check_example(read_access_trace(folder.file("a.oracleGeneral.bin", bytes)));
  check_example(read_access_trace(folder.file("b.zst", compressed(bytes))));
}

TEST_CASE("the size of an item may change from request to request") {
  const Folder folder;
  const AccessTrace trace = read_access_trace(folder.file("a.csv", "0,1,5\n0,2,5\n0,1,6\n0,2,5\n"));
  CHECK(trace.sizes == std::vector<std::uint32_t>{5, 5, 6, 5});
  CHECK(trace.working_set_bytes == 10);
  CHECK(trace.bytes_requested == 21);
  CHECK(trace.one_size == 0);
  CHECK(read_access_trace(folder.file("b.csv", "0,1,5\n0,2,5\n")).one_size == 5);
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
  const AccessTrace a = read_access_trace(folder.file("a.csv", csv));
  const AccessTrace b = read_access_trace(folder.file("b.bin", binary));
  const AccessTrace c = read_access_trace(folder.file("c.csv.zst", compressed(csv)));
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
    const std::string error = error_of(path, TraceFormat::csv);
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
  CHECK(csv_error("y,1,1\n") == ":1: 'y,1,1' is no request; write time,id,size");
  CHECK(csv_error("1.2.3,1,1\n").starts_with(":1: the time"));
  CHECK(csv_error("0,1,1\n0,1\n") == ":2: '0,1' is no request; write time,id,size");
  CHECK(csv_error("0,1,1,4\n").starts_with(":1: '0,1,1,4' is no request"));
  CHECK(csv_error("time,id,size\n").starts_with(":1: no request"));
  CHECK(csv_error("id,time,size\n1,1,1\n").starts_with(":1: column 1 is 'id'"));
  CHECK(csv_error("time,id,size\n1,1,1\ntime,id,size\n").starts_with(":3: the time 'time'"));
  CHECK(csv_error("0,1,0\n").starts_with(":1: no request"));
  CHECK(csv_error(std::string(3 << 20, '7')).starts_with(":1: '7777"));
  const std::string cut = folder.file("cut.bin", record(0, 1, 1, -1) + "1234567");
  CHECK(error_of(cut).starts_with(cut + ":2: the last record has 7 of its 24 bytes"));
  CHECK(error_of(folder.file("none", "")).find("is empty; write") != std::string::npos);
  CHECK(error_of("/nowhere/at/all").find("No such file") != std::string::npos);
  CHECK(error_of("/").find("is a directory") != std::string::npos);
  const std::string whole = compressed(kCsv);
  const std::string half = folder.file("half.zst", whole.substr(0, whole.size() - 3));
  CHECK(error_of(half).find("cut short") != std::string::npos);
  const std::string bad = folder.file("bad.zst", whole.substr(0, 6) + std::string(40, '\x7f'));
  CHECK(error_of(bad).find("not valid zstd") != std::string::npos);
}

TEST_CASE("random damage of a trace is an error or another trace, never a crash") {
  const Folder folder;
  std::string csv = "time,id,size\n", binary;
  for (int i = 0; i < 40; ++i) {
    csv +=
        std::to_string(i) + "," + std::to_string(i * i % 11) + "," + std::to_string(i % 5) + "\n";
    binary += record(1, static_cast<std::uint64_t>(i % 7), 9, -1);
  }
  const std::string originals[] = {csv, binary, compressed(csv), compressed(binary)};
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::string bytes = originals[seed % 4];
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      const auto at = static_cast<std::size_t>(random.below(bytes.size()));
      switch (random.below(3)) {
        case 0:
          bytes[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          bytes.erase(at, 1 + random.below(20));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random.below(256)));
      }
      if (bytes.empty()) bytes = "x";
    }
    const std::string path = folder.file("damaged", bytes);
    try {
      const AccessTrace trace = read_access_trace(path);
      CHECK(trace.requests() > 0);
      for (std::uint32_t item : trace.items) REQUIRE(item < trace.distinct_items());
    } catch (const ConfigError& error) {
      CHECK(std::string(error.what()).starts_with(path));
    }
  }
}
