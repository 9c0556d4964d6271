// Readers and generators over damaged input: an error in one line that names the file, or another
// trace that is sound; never a crash, nor more time and memory than the input can ask for.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "tests/policies/random_seeds.h"
#include "tests/traces/damage.h"
#include "tests/traces/trace_files.h"
#include "traces/access_trace.h"
#include "traces/generator.h"

namespace batchflow::test::fuzz_test {

namespace {

// Small traces in every form that is read.
std::vector<std::string> corpus() {
  std::string plain, named = "size,\"ID\",other,time\r\n", binary;
  for (std::uint64_t i = 0; i < 40; ++i) {
    plain += fmt::format("{},{},{}\n", i, i * i % 11, i % 5);
    named += fmt::format("{},{},x,{}.5\r\n", i % 5, i * i % 11, i);
    const auto append = [&](std::uint64_t value, int bytes) {
      for (int byte = 0; byte < bytes; ++byte) binary += static_cast<char>(value >> (8 * byte));
    };
    append(i, 4);
    append(mix(i % 7), 8);
    append(9, 4);
    append(UINT64_MAX, 8);
  }
  std::string returns = plain;
  std::replace(returns.begin(), returns.end(), '\n', '\r');
  return {plain, "time,id,size\n" + plain, named, returns, binary, zstd(plain), zstd(binary)};
}

void check_sound(const traces::AccessTrace& trace) {
  CHECK(trace.requests() > 0);
  for (std::uint32_t item : trace.items) REQUIRE(item < trace.distinct_items());
}

void check_error(const ConfigError& error, const std::string& place) {
  const std::string what = error.what();
  CAPTURE(what);
  CHECK(what.find(place) != std::string::npos);
  CHECK(what.size() < place.size() + 400);
}

void read_damaged(std::uint64_t seed) {
  static const std::vector<std::string> originals = corpus();
  constexpr traces::TraceFormat kFormats[] = {
      traces::TraceFormat::by_content, traces::TraceFormat::by_content, traces::TraceFormat::csv,
      traces::TraceFormat::oracle_general};
  File file;
  Random random(seed);
  const std::string& path = file.with(damaged(originals[random.below(originals.size())], random));
  try {
    check_sound(traces::read_access_trace(path, kFormats[random.below(4)]));
  } catch (const ConfigError& error) {
    check_error(error, path);
  }
}

void generate_damaged(std::uint64_t seed) {
  const std::string originals[] = {"gen:perm,n=20,epochs=3,jobs=2,speeds=3:1,size=2,size_most=9",
                                   "gen:weighted?n=20&epochs=3&changed=0.5&seed=4",
                                   "gen:zipf,n=20,requests=90,alpha=0.7,size=5"};
  constexpr std::string_view kBytes = ",?&=:.-+ \x1bnsegx0";
  Random random(seed);
  std::string spec = originals[random.below(3)];
  for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
    const auto at = 4 + static_cast<std::size_t>(random.below(spec.size() - 4));
    if (random.below(2) == 0) spec.erase(at, 1 + random.below(3));
    spec.insert(std::min(at, spec.size()), 1, kBytes[random.below(kBytes.size())]);
  }
  try {
    check_sound(traces::generate_access_trace(spec));
  } catch (const ConfigError& error) {
    check_error(error, "");
  }
}

}  // namespace

TEST_CASE("what is damaged below is sound") {
  File file;
  for (const std::string& original : corpus())
    check_sound(traces::read_access_trace(file.with(original)));
}

TEST_CASE("damaged traces are errors, or other traces") {
  for_seeds("test_traces", "damaged traces*", 400, read_damaged);
}

TEST_CASE("damaged generators are errors, or other generators") {
  for_seeds("test_traces", "damaged generators*", 500, generate_damaged);
}

TEST_SUITE("long") {
  TEST_CASE("damaged input is an error, or other input, many seeds") {
    for_seeds("test_traces", "damaged traces*", 100000, read_damaged);
    for_seeds("test_traces", "damaged generators*", 20000, generate_damaged);
  }
}

TEST_CASE("a little compressed data that stands for much is read in little memory, or refused") {
  File file;
  constexpr std::size_t kMuch = std::size_t{16} << 20;
  for (const char byte : {'\n', ',', '7', ' ', '\r', '\0', '\x99'}) {
    CAPTURE(static_cast<int>(byte));
    CHECK_THROWS_AS(traces::read_access_trace(file.with(zstd(std::string(kMuch, byte)))),
                    ConfigError);
  }
}

}  // namespace batchflow::test::fuzz_test
