#include "traces/generator.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "tests/config_error.h"

namespace batchflow::test::generator_test {

namespace {

std::uint64_t digest(const traces::AccessTrace& trace) {
  std::uint64_t h = 0;
  for (std::size_t i = 0; i < trace.requests(); ++i) h = hash(h, trace.items[i], trace.size_of(i));
  return h;
}

std::string error_of(const std::string& spec) {
  return config_error([&] { traces::generate_access_trace(spec); });
}

}  // namespace

TEST_CASE("permuted epochs: each item once an epoch, another order each") {
  constexpr std::size_t kItems = 1000;
  const traces::AccessTrace trace = traces::generate_access_trace("gen:perm,n=1000,epochs=3");
  REQUIRE(trace.requests() == 3 * kItems);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint32_t> items(trace.items.begin() + static_cast<long>(epoch * kItems),
                                     trace.items.begin() + static_cast<long>((epoch + 1) * kItems));
    CHECK(std::is_sorted(items.begin(), items.end()) == (epoch == 0));  // numbered as they appear
    std::sort(items.begin(), items.end());
    CHECK(std::adjacent_find(items.begin(), items.end()) == items.end());
  }
}

TEST_CASE("jobs at different speeds: as many requests as their speeds say") {
  CHECK(traces::generate_access_trace("gen:perm,n=100,epochs=12,jobs=4").requests() ==
        1200 * 10 / 4);
  CHECK(traces::generate_access_trace("gen:perm,n=100,epochs=4,jobs=3,speeds=equal").requests() ==
        1200);
  CHECK(traces::generate_access_trace("gen:perm,n=100,epochs=4,jobs=2,speeds=1:4").requests() ==
        500);
}

TEST_CASE("question mark and ampersand separate as commas do") {
  CHECK(digest(traces::generate_access_trace("gen:perm,n=50,epochs=2,seed=3")) ==
        digest(traces::generate_access_trace("gen:perm?n=50&epochs=2&seed=3")));
}

TEST_CASE("the seed decides, and sizes lie within their bounds") {
  const std::string spec = "gen:zipf,n=500,requests=4000,size=8,size_most=100";
  CHECK(digest(traces::generate_access_trace(spec)) == digest(traces::generate_access_trace(spec)));
  CHECK(digest(traces::generate_access_trace(spec)) !=
        digest(traces::generate_access_trace(spec + ",seed=2")));
  const traces::AccessTrace trace = traces::generate_access_trace(spec);
  CHECK(*std::min_element(trace.item_sizes.begin(), trace.item_sizes.end()) == 8);
  CHECK(*std::max_element(trace.item_sizes.begin(), trace.item_sizes.end()) == 100);
}

TEST_CASE("weights and popularity are as skewed as they should be") {
  const traces::AccessTrace zipf = traces::generate_access_trace("gen:zipf,n=1000,requests=200000");
  std::vector<std::uint64_t> counts(zipf.distinct_items());
  for (std::uint32_t item : zipf.items) ++counts[item];
  std::sort(counts.rbegin(), counts.rend());
  // The k-th of 1000 has 1/k / H(1000) of the requests, H = 7.485; 3 % is over 5 deviations.
  CHECK(static_cast<double>(counts[0]) == doctest::Approx(200000 / 7.485).epsilon(0.03));
  CHECK(static_cast<double>(counts[1]) == doctest::Approx(200000 / 7.485 / 2).epsilon(0.05));
  const traces::AccessTrace weighted =
      traces::generate_access_trace("gen:weighted,n=20000,epochs=1");
  // With equal weights 1 - 1/e = 0.632 of the items would be drawn.
  CHECK(weighted.distinct_items() < 20000 * 0.6);
}

TEST_CASE("a wrong generator is one line that names the nearest") {
  CHECK(error_of("gen:prem").find("write 'gen:perm'") != std::string::npos);
  CHECK(error_of("gen:perm,epoch=2").find("write 'epochs'") != std::string::npos);
  CHECK(error_of("gen:perm,n=0").find("from 1") != std::string::npos);
  CHECK(error_of("gen:perm,n").find("sets no parameter") != std::string::npos);
  CHECK(error_of("gen:perm,jobs=2,speeds=1:2:3").find("write falling") != std::string::npos);
  CHECK(error_of("gen:perm,jobs=2,speeds=1:0").find("write falling") != std::string::npos);
  CHECK(error_of("gen:perm,n=1000000000,epochs=1000").find("too many") != std::string::npos);
  // Their product wraps in 64 bits, to a number that would be allowed.
  CHECK(
      error_of("gen:perm,n=4000000000,epochs=1000000000,jobs=2,speeds=1:99999").find("too many") !=
      std::string::npos);
  CHECK(error_of("gen:perm,n=5,epochs=2,n=6").find("'n' is set twice") != std::string::npos);
  CHECK(error_of("gen:perm,size=5,size_most=4").find("below size 5") != std::string::npos);
  CHECK(error_of("gen:perm n=5").find("space") != std::string::npos);
  // 4 * 10^9 items at about 100 bytes: more memory than any machine has that runs this.
  CHECK(error_of("gen:zipf,n=4000000000,requests=1").find("GB of memory") != std::string::npos);
}

TEST_CASE("golden digests: a generated trace never changes") {
  CHECK(digest(traces::generate_access_trace("gen:perm,n=1000,epochs=3,jobs=3")) ==
        5013896395538551051ULL);
  CHECK(digest(traces::generate_access_trace("gen:weighted,n=1000,epochs=3")) ==
        460420573250510427ULL);
  CHECK(digest(traces::generate_access_trace(
            "gen:zipf,n=1000,requests=9000,size=4,size_most=400")) == 762005454688957729ULL);
}

}  // namespace batchflow::test::generator_test
