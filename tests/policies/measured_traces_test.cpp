#include "tests/policies/measured_traces.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/base/random.h"

namespace batchflow::test {
namespace {

class Draws {  // splitmix64, which core's Random is too, with reals in (0, 1]
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  double unit() { return static_cast<double>((random_.draw() >> 11) + 1) * 0x1.0p-53; }
  void shuffle_ids(std::vector<std::uint32_t>& ids) { shuffle(std::span(ids), random_); }
  double pareto() {  // u^-0.75
    const double root = std::sqrt(unit());
    return root * std::sqrt(root);
  }

 private:
  Random random_;
};

std::vector<std::uint32_t> first_ids(std::uint32_t n) {
  std::vector<std::uint32_t> ids(n);
  for (std::uint32_t i = 0; i < n; ++i) ids[i] = i;
  return ids;
}

std::size_t place(const std::vector<double>& prefix, double x) {
  const auto at = std::lower_bound(prefix.begin(), prefix.end(), x) - prefix.begin();
  return std::min(static_cast<std::size_t>(at), prefix.size() - 1);
}

void permuted(traces::AccessTraceBuilder& out, std::uint32_t n, int epochs, std::uint64_t seed) {
  Draws draws(seed);
  std::vector<std::uint32_t> ids = first_ids(n);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    draws.shuffle_ids(ids);
    for (std::uint32_t id : ids) out.add(id, 1);
  }
}

// Job j asks every period[j] ticks, in its own permuted epochs.
void four_jobs(traces::AccessTraceBuilder& out, std::uint32_t n, std::uint64_t ticks,
               std::uint64_t seed) {
  constexpr std::uint64_t kPeriods[] = {3, 4, 6, 12};
  std::vector<Draws> draws;
  std::vector<std::vector<std::uint32_t>> orders(4, first_ids(n));
  std::size_t at[4] = {};
  for (std::uint64_t job = 0; job < 4; ++job) draws.emplace_back(seed + job);
  for (std::uint64_t tick = 1; tick <= ticks; ++tick) {
    for (std::size_t job = 0; job < 4; ++job) {
      if (tick % kPeriods[job] != 0) continue;
      if (at[job] == 0) draws[job].shuffle_ids(orders[job]);
      out.add(orders[job][at[job]], 1);
      at[job] = (at[job] + 1) % n;
    }
  }
}

void weighted(traces::AccessTraceBuilder& out, std::uint32_t n, int epochs, std::uint64_t seed) {
  Draws draws(seed);
  std::vector<double> weights(n), prefix(n);
  for (double& weight : weights) weight = 1.0 / draws.pareto();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (std::uint32_t i = 0; epoch > 0 && i < n; ++i) {
      if (draws.below(10) == 0) weights[i] = 1.0 / draws.pareto();
    }
    double sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) prefix[i] = sum += weights[i];
    for (std::uint32_t k = 0; k < n; ++k) out.add(place(prefix, draws.unit() * sum), 1);
  }
}

void zipf(traces::AccessTraceBuilder& out, std::uint32_t n, std::uint32_t requests,
          std::uint32_t least, std::uint32_t most, std::uint64_t seed, bool one_size) {
  Draws draws(seed);
  std::vector<std::uint32_t> ids = first_ids(n), sizes(n);
  std::vector<double> prefix(n);
  draws.shuffle_ids(ids);
  for (std::uint32_t& size : sizes) {
    const double drawn = std::floor(static_cast<double>(least) / draws.pareto());
    size = drawn > most ? most : static_cast<std::uint32_t>(std::max(drawn, 1.0));
  }
  double sum = 0;
  for (std::uint32_t rank = 0; rank < n; ++rank) prefix[rank] = sum += 1.0 / (rank + 1.0);
  for (std::uint32_t k = 0; k < requests; ++k) {
    const std::uint32_t id = ids[place(prefix, draws.unit() * sum)];
    out.add(id, one_size ? 1 : sizes[id]);
  }
}

}  // namespace

traces::AccessTrace measured_trace(const std::string& name) {
  traces::AccessTraceBuilder out(name);
  if (name == "a_perm") {
    permuted(out, 100000, 5, 101);
  } else if (name == "b_jobs4") {
    four_jobs(out, 50000, 1200000, 202);
  } else if (name == "c_imp") {
    weighted(out, 100000, 5, 303);
  } else if (name == "d_zipf" || name == "d_zipf1") {
    zipf(out, 200000, 2000000, 8, 16384, 404, name == "d_zipf1");
  } else if (name == "e_tiny") {
    zipf(out, 300, 5000, 8, 1024, 505, false);
  } else {
    throw std::invalid_argument(name);
  }
  return out.finish();
}

}  // namespace batchflow::test

TEST_CASE("the measured traces are those that were measured") {
  struct Expected {
    const char* name;
    std::size_t requests, distinct;
    std::uint64_t working_set, bytes;
  };
  constexpr Expected kExpected[] = {
      {"a_perm", 500000, 100000, 100000, 500000}, {"b_jobs4", 1000000, 50000, 50000, 1000000},
      {"c_imp", 500000, 89312, 89312, 500000},    {"d_zipf", 2000000, 158768, 4691201, 69343496},
      {"e_tiny", 5000, 295, 8064, 268973},
  };
  for (const Expected& expected : kExpected) {
    CAPTURE(expected.name);
    const batchflow::traces::AccessTrace trace = batchflow::test::measured_trace(expected.name);
    CHECK(trace.requests() == expected.requests);
    CHECK(trace.distinct_items() == expected.distinct);
    CHECK(trace.working_set_bytes == expected.working_set);
    CHECK(trace.bytes_requested == expected.bytes);
  }
}
