// Which of several nodes coordinates: each term is taken once, and what a coordinator has carried
// out is known to the next one.
#if __has_include(<openssl/ssl.h>)  // else there are no clusters
#include "runtime/service/cluster/terms.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::terms_test {
namespace {

using namespace std::chrono_literals;
using service::HeldTerm;
using service::Term;
using service::TermFolder;
using service::TermWatch;

constexpr std::chrono::milliseconds kSilence{100};

TermWatch watch(const TermFolder& folder, const std::string& name,
                std::chrono::milliseconds silence = kSilence) {
  return {folder, name, silence, {}};
}

Term term(std::uint64_t number, const std::string& holder) {
  Term made;
  made.number = number;
  made.holder = holder;
  return made;
}

}  // namespace

TEST_CASE("of many that want a term, one gets it, and all know the cluster by one name") {
  const Folder folder;
  for (std::uint64_t number = 1; number <= 20; ++number) {
    std::vector<std::thread> threads;
    std::atomic<int> taken{0};
    std::vector<std::string> names(8);
    for (std::size_t i = 0; i < names.size(); ++i) {
      threads.emplace_back([&, i] {
        const TermFolder own(std::filesystem::path(folder.path()) / "terms");
        names[i] = own.cluster();
        std::string problem;
        if (own.take(number, std::to_string(i), problem)) ++taken;
        CHECK(problem == "");
      });
    }
    for (std::thread& one : threads) one.join();
    CHECK(taken == 1);
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == 1);
  }
}

TEST_CASE("a term that is renewed stays, and one that is not is followed by the next") {
  const Folder folder;
  const TermFolder terms(folder.path());
  constexpr std::chrono::milliseconds kLong{1000};  // beside other work a thread may wait for long
  TermWatch first = watch(terms, "a", kLong), second = watch(terms, "b", kLong);
  REQUIRE(first.look().taken);
  {
    std::atomic<int> lost{0};
    HeldTerm held(terms, term(1, "a"), kLong);
    held.serve("tcp://a:1", [&](const std::string&) { ++lost; });
    for (int i = 0; i < 20; ++i) {
      CHECK_FALSE(second.look().taken);
      std::this_thread::sleep_for(kLong / 10);
    }
    const Term now = second.look().now;
    CHECK(now.holder == "a");
    CHECK(now.address == "tcp://a:1");
    CHECK(now.renewed > 5);
    CHECK_FALSE(held.is_over());
    CHECK(lost == 0);
  }
  const TermWatch::Seen seen = second.look();  // it was given up
  CHECK(seen.taken);
  CHECK(seen.now.number == 2);
  CHECK(terms.is_over(1));
  CHECK_FALSE(terms.is_over(2));
  CHECK_FALSE(first.look().taken);  // its address is not there yet
  std::this_thread::sleep_for(2 * kLong);
  CHECK(first.look().taken);  // nothing has renewed it
  CHECK(terms.is_over(2));
}

TEST_CASE("a node that may be cut off leaves the next term to others for a while") {
  const Folder folder;
  const TermFolder terms(folder.path());
  TermWatch back{terms, "a", kSilence, TermWatch::Clock::now() + 200ms};
  CHECK_FALSE(back.look().taken);
  std::this_thread::sleep_for(250ms);
  CHECK(back.look().taken);
}

TEST_CASE("one that slept through several terms finds that its own is over") {
  const Folder folder;
  const TermFolder terms(folder.path());
  std::string problem;
  for (std::uint64_t number = 1; number <= 6; ++number) {
    REQUIRE(terms.take(number, "a", problem));
    std::ofstream(terms.promises_of(number)) << number;
    terms.remove_before(number);
    for (std::uint64_t before = 1; before < number; ++before) CHECK(terms.is_over(before));
    CHECK_FALSE(terms.is_over(number));
    CHECK(terms.promises_before(number) ==
          (number == 1 ? std::filesystem::path() : terms.promises_of(number - 1)));
  }
  // It cannot bring its file back either.
  CHECK_FALSE(terms.write(term(1, "a")));
  CHECK(terms.is_over(1));
  CHECK(terms.newest().number == 6);
}

// The coordinator writes what it promises, looks for a newer term, and carries it out; meanwhile
// another takes the next term and reads.
TEST_CASE("whatever was carried out, the next coordinator has read") {
  const Folder folder;
  const TermFolder terms(folder.path());
  std::string problem;
  REQUIRE(terms.take(1, "a", problem));
  for (std::uint64_t number = 1; number <= 200; ++number) {
    Random random(number);
    std::vector<int> carried_out;
    std::atomic<std::size_t> count = 0;
    std::ofstream promises(terms.promises_of(number));
    std::thread old([&] {
      for (int promise = 0; promise < 100'000; ++promise) {
        promises << promise << std::endl;
        if (terms.is_over(number)) return;
        carried_out.push_back(promise);
        ++count;
      }
    });
    const std::size_t before = 1 + random.below(50);
    while (count < before) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(100)));
    REQUIRE(terms.take(number + 1, "b", problem));
    std::ifstream in(terms.promises_before(number + 1));
    const std::set<int> read((std::istream_iterator<int>(in)), std::istream_iterator<int>());
    old.join();
    for (const int one : carried_out) REQUIRE(read.contains(one));
    terms.remove_before(number + 1);
  }
}

TEST_CASE("a coordinator that cannot renew its term is told") {
  const Folder folder;
  const TermFolder terms(folder.path());
  std::string problem;
  REQUIRE(terms.take(1, "a", problem));
  std::atomic<int> lost{0};
  HeldTerm held(terms, term(1, "a"), kSilence);
  SUBCASE("since its file cannot be written") {
    const std::filesystem::path file = std::filesystem::path(folder.path()) / "term.1";
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    CHECK_FALSE(held.is_over());
  }
  SUBCASE("since another has taken the next") {
    REQUIRE(terms.take(2, "b", problem));
  }
  held.serve("", [&](const std::string& why) {
    CHECK(why != "");
    ++lost;
  });
  for (int i = 0; i < 500 && lost == 0; ++i) std::this_thread::sleep_for(10ms);
  CHECK(lost == 1);
}

TEST_CASE("a folder with other things in it is no danger") {
  const Folder folder;
  const std::filesystem::path path = folder.path();
  for (const char* name : {"term.", "term.x", "term.7x", "term.-1", "term.99999999999999999999999",
                           "promises.y", "other"})
    std::ofstream(path / name) << "nonsense";
  const TermFolder terms(path);
  CHECK(terms.newest().number == 0);
  CHECK(terms.promises_before(100) == "");
  std::ofstream(path / "term.3") << "{\"holder\": 7}";
  CHECK(terms.newest().number == 3);
  CHECK(terms.newest().address == "");
  std::filesystem::create_directory(path / "term.5");
  CHECK(terms.newest().number == 5);
  TermWatch one = watch(terms, "a");
  CHECK_FALSE(one.look().taken);
  std::this_thread::sleep_for(2 * kSilence);
  CHECK(one.look().taken);
  CHECK(terms.newest().number == 6);
  std::ofstream(path / "cluster") << "";
  CHECK_THROWS_AS(TermFolder{path}, ConfigError);
  CHECK_THROWS_AS(TermFolder{path / "other"}, ConfigError);
}

}  // namespace batchflow::test::terms_test
#endif
