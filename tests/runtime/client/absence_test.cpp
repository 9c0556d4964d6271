#include "runtime/client/absence.h"

#include <doctest/doctest.h>

namespace batchflow::test::absence_test {
using namespace std::chrono_literals;
using client::Absence;
using Time = Absence::Clock::time_point;

TEST_CASE("client: an absence lasts from the first loss until a batch comes") {
  Absence absence;
  absence.set_longest(60s);
  absence.begin("it was killed", Time(10s));
  CHECK(absence.given_up_at() == Time(70s));
  CHECK(absence.next_try() == Time(10s));
  // The next service is lost before it has given anything.
  absence.begin("its ring is damaged", Time(40s));
  CHECK(absence.given_up_at() == Time(70s));
  CHECK(absence.because() == "its ring is damaged");
  absence.end();
  absence.begin("it was killed", Time(90s));
  CHECK(absence.given_up_at() == Time(150s));
}

TEST_CASE("client: tries become rarer, down to one a second, and begin anew with each absence") {
  Absence absence;
  absence.begin("it was killed", Time(0s));
  absence.tried(Time(0s));
  CHECK(absence.next_try() == Time(50ms));
  absence.tried(Time(50ms));
  CHECK(absence.next_try() == Time(150ms));
  for (int i = 0; i < 10; ++i) absence.tried(Time(1s));
  CHECK(absence.next_try() == Time(2s));
  absence.end();
  absence.begin("it was killed", Time(5s));
  absence.tried(Time(5s));
  CHECK(absence.next_try() == Time(5050ms));
}

}  // namespace batchflow::test::absence_test
