// Each failpoint is failed at, and killed at, while jobs of every kind run: local and remote ones,
// of one rank and of two, of rows, pictures, small files and plugins, relaxed and strict, with and
// without a second tier. Whatever happens, each job has each sample of each epoch once, and nothing
// is left behind. A place that is not reached fails the test.
#if __has_include(<openssl/ssl.h>)  // else there are no remote jobs
#include <cstdio>

#include "core/base/random.h"
#include "tests/runtime/service/faulty_node.h"
#include "tests/source_dir.h"

namespace batchflow::test::failpoints_test {
namespace {

// What a job is told, or the service says when it does not begin, where nothing else is possible.
// A job that is told so begins again, and is served.
struct Answer {
  const char* place;
  const char* words;
};
constexpr Answer kAnswers[] = {
    // A service, or the way to it, that fails while a job says hello or joins.
    {"protocol.connect", "Connection refused"},
    {"protocol.send", "did not answer"},
    {"protocol.receive", "did not answer"},
    {"service.connection.duplicate", "did not answer the first message"},
    {"service.connection.descriptors", "did not answer the request to join"},
    {"service.connection.read", "did not answer"},
    {"service.connection.send", "did not answer"},
    {"remote.connect", "Connection refused"},
    {"remote.handshake", "TLS: the connection was closed"},
    {"remote.handshake", "did not answer the first message"},
    {"remote.read", "did not answer"},
    {"remote.write", "did not answer"},
    {"remote.write", "the other side has closed the connection"},
    {"remote.thread", "did not answer the first message"},
    {"remote.relay.thread", "did not answer the first message"},
    {"remote.relay.new", "did not answer"},
    // What a job cannot have of its own machine, or of its service's.
    {"client.folder", "cannot be read: Too many open files"},
    {"client.memory", "this process has no memory left; free some and call again"},
    {"protocol.map", "cannot be mapped: Cannot allocate memory"},
    {"protocol.memory_file", "Too many open files"},
    {"remote.token.read", "token: Too many open files"},
    // A dataset or a pipeline that cannot be opened: tried again for the next job.
    {"service.dataset.thread", "no thread to open it: Resource temporarily unavailable; ask again"},
    {"service.pipeline.thread", "no thread to set it up: "},
    {"service.dataset.new", "the machine has no memory to open it; ask again"},
    {"service.pipeline.new", "the machine has no memory to set it up; ask again"},
    {"sources.file.open", "Too many open files; let this user read it"},
    {"sources.folder.list", "Input/output error; look at the drive it is on"},
    {"sources.read.error", "Input/output error; look at the drive it is on"},
    {"step.start", "its process cannot be started"},
    // A service that does not begin.
    {"service.log.open", "Input/output error; choose another path (--state)"},
    {"storage.staging.map", "no staging memory of 33554432 bytes: Cannot allocate memory"},
    // A packing that ends.
    {"sources.pack.write", "No space left on device; make room there"},
    {"sources.pack.sync", "Input/output error; make room there"},
};

enum class Side { service, job, pack };
constexpr const char* kSides[] = {"service", "job", "pack"};

struct Reached {
  Side side;
  std::string place;
  Scenario scenario = Scenario::ring;
  std::uint64_t times = 0;
};

// All places of all programs, and where each is reached.
class Survey {
 public:
  void add(Side side, Scenario scenario, const PlaceCounts& counts) {
    for (const auto& [place, count] : counts) {
      if (std::any_of(left_out_.begin(), left_out_.end(),
                      [&](const std::string& one) { return place.starts_with(one); }))
        continue;
      Reached& known =
          all_.try_emplace({side, place}, Reached{side, place, scenario, 0}).first->second;
      if (known.times == 0 && count.reached > 0) known = {side, place, scenario, count.reached};
      reached_[place] += count.reached;
    }
  }
  void leave_out(std::vector<std::string> beginnings) { left_out_ = std::move(beginnings); }
  std::vector<Reached> reached() const {
    std::vector<Reached> found;
    for (const auto& [key, one] : all_)
      if (one.times > 0) found.push_back(one);
    return found;
  }
  const std::map<std::string, std::uint64_t>& places() const { return reached_; }

 private:
  std::map<std::pair<Side, std::string>, Reached> all_;
  std::map<std::string, std::uint64_t> reached_;
  std::vector<std::string> left_out_;
};

// batchflowctl pack of the node's rows; its exit code, or minus the signal that ended it.
int pack(const FaultyNode& node, const std::string& failpoints, std::string* said = nullptr) {
  const std::string command =
      fmt::format("BATCHFLOW_FAILPOINTS='{}' {} pack {} {} >{} 2>&1", failpoints, BATCHFLOWCTL,
                  node.path("rows"), node.path("packed"), node.path("said"));
  const int status = std::system(command.c_str());
  std::ifstream in(node.path("said"));
  if (said) said->assign(std::istreambuf_iterator<char>(in), {});
  return WEXITSTATUS(status) > 128 ? 128 - WEXITSTATUS(status) : WEXITSTATUS(status);
}
bool is_packed(const FaultyNode& node) {
  const std::string command =
      fmt::format("{} verify {} >{} 2>&1", BATCHFLOWCTL, node.path("packed"), node.path("said"));
  return std::system(command.c_str()) == 0;
}

Survey survey(FaultyNode& node) {
  Survey all;
  std::vector<std::string> left_out;
  if (!node.has_tls()) {
    MESSAGE("skipped: there is no openssl command");
    left_out.push_back("remote.handshake");
  }
  for (const Scenario scenario : {Scenario::ring, Scenario::pool, Scenario::spill}) {
    CAPTURE(name_of(scenario));
    const FaultyRun run = node.run(scenario, "*=count", "*=count");
    CAPTURE(run.said);
    CHECK(run.wrong == "");
    for (const std::string& told : run.told) CHECK_MESSAGE(told.empty(), told);
    // Where the kernel refuses a ring, nothing goes wrong with one.
    if (scenario == Scenario::ring && run.said.find("storage io_uring") == run.said.npos) {
      MESSAGE("skipped: io_uring is refused here");
      left_out.insert(left_out.end(), {"storage.ring.", "storage.chain."});
    }
    all.leave_out(left_out);
    all.add(Side::service, scenario, run.service);
    all.add(Side::job, scenario, run.jobs);
  }
  std::filesystem::remove_all(node.path("packed"));
  std::filesystem::remove(node.path("report"));
  CHECK(pack(node, "*=count,report=" + node.path("report")) == 0);
  PlaceCounts packing = read_report(node.path("report"));
  // What else batchflowctl has in common with the others is theirs.
  std::erase_if(packing, [](const auto& one) { return !one.first.starts_with("sources."); });
  all.add(Side::pack, Scenario::ring, packing);
  return all;
}

// Any of them may cost a rank its connection, and thereby the other ranks of its job: at once, or
// when they have lost theirs too, some steps later, and none has been told.
constexpr const char* kOtherRanks[] = {"one of its ranks has ended, or its connection has",
                                       "the ranks are not at the same position"};

bool is_expected(const std::string& place, const std::string& told) {
  for (const char* words : kOtherRanks)
    if (told.find(words) != told.npos) return true;
  for (const Answer& one : kAnswers)
    if (one.place == place && told.find(one.words) != told.npos) return true;
  return false;
}

// Acts some times, spread over the run.
std::string rule(const Reached& one, std::uint64_t seed) {
  const double chance = std::min(1.0, 6.0 / static_cast<double>(one.times));
  return fmt::format("seed={},{}=fail:{:.6f}:4", seed, one.place, chance);
}

struct Outcome {
  std::uint64_t reached = 0;
  std::uint64_t acted = 0;
  bool killed = false;
};

Outcome fail_at(FaultyNode& node, const Reached& one, const std::string& how) {
  const bool in_service = one.side == Side::service;
  const FaultyRun run = node.run(one.scenario, in_service ? how : "", in_service ? "" : how);
  CAPTURE(one.place);
  CAPTURE(kSides[static_cast<int>(one.side)]);
  CAPTURE(how);
  CAPTURE(run.said);
  CHECK(run.wrong == "");
  const bool kills = how.find("=kill") != how.npos;
  for (const std::string& told : run.told) {
    const bool is_told = is_expected(one.place, told);
    CHECK_MESSAGE((kills || is_told), told);
  }
  if (!run.began) CHECK(is_expected(one.place, run.said));
  const PlaceCounts& counts = in_service ? run.service : run.jobs;
  Outcome outcome;
  if (const auto found = counts.find(one.place); found != counts.end())
    outcome = {found->second.reached, found->second.acted, false};
  outcome.killed = in_service ? run.was_killed : run.jobs_killed > 0;
  if (kills) {
    CHECK(outcome.killed);
  } else {
    CHECK_FALSE(outcome.killed);
  }
  return outcome;
}

// Packing is done or not, and can be done again.
Outcome fail_packing(FaultyNode& node, const Reached& one, const std::string& how) {
  CAPTURE(one.place);
  CAPTURE(how);
  std::filesystem::remove_all(node.path("packed"));
  std::filesystem::remove(node.path("report"));
  std::string said;
  const int code = pack(node, how + ",report=" + node.path("report"), &said);
  CAPTURE(said);
  const bool kills = how.find("=kill") != how.npos;
  CHECK((kills ? code == -SIGKILL
               : code == 0 || (code > 0 && code < 3 && is_expected(one.place, said))));
  if (code != 0) CHECK(pack(node, "") == 0);
  CHECK(is_packed(node));
  for (const auto& entry : std::filesystem::directory_iterator(node.path("")))
    CHECK(entry.path().string().find(".packing-") == std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(node.path("packed")))
    CHECK(entry.path().extension() == ".bfpack");
  const PlaceCount count = read_report(node.path("report"))[one.place];
  return {count.reached, count.acted, kills};
}

Outcome at(FaultyNode& node, const Reached& one, const std::string& how) {
  return one.side == Side::pack ? fail_packing(node, one, how) : fail_at(node, one, how);
}

void fail_and_kill(FaultyNode& node, const Reached& one, std::uint64_t seed) {
  Outcome failed = at(node, one, rule(one, seed));
  // By chance it may not have acted at all.
  if (failed.acted == 0) failed = at(node, one, one.place + "=fail:1:4");
  CHECK_MESSAGE(failed.acted > 0, one.place);
  const Outcome killed = at(node, one, one.place + "=kill:1:1");
  fmt::print("{:<34} {:<8} {:<9} {:>8} {:>6} {:>7}\n", one.place,
             kSides[static_cast<int>(one.side)], name_of(one.scenario), failed.reached,
             failed.acted, killed.killed ? "killed" : "-");
  std::fflush(stdout);
}

void check_all_are_reached(const Survey& all) {
  std::ifstream file(source_dir() / "docs/operations.md");
  const std::string listed{std::istreambuf_iterator<char>(file), {}};
  std::size_t places = 0;
  for (const auto& [place, reached] : all.places()) {
    ++places;
    // Jobs here read no feeds; tests/runtime/feeds/feed_log_test.cpp fails these two.
    CHECK_MESSAGE((reached > 0 || place.starts_with("feed.")), place);
    CHECK_MESSAGE(listed.find("`" + place + "`") != listed.npos, place);
  }
  CHECK(places >= 60);
}

std::uint64_t seed_of_today() {
  if (const char* one = std::getenv("BATCHFLOW_SEED")) return std::strtoull(one, nullptr, 10);
  return static_cast<std::uint64_t>(getpid());
}

}  // namespace

TEST_CASE("every place is reached, and some of them are failed and killed at") {
  FaultyNode node;
  const Survey all = survey(node);
  check_all_are_reached(all);
  const std::uint64_t seed = seed_of_today();
  fmt::print("BATCHFLOW_SEED={} repeats this\n", seed);
  std::vector<Reached> reached = all.reached();
  Random random(seed);
  for (int i = 0; i < 3; ++i) fail_and_kill(node, reached[random.below(reached.size())], seed);
}

TEST_SUITE("long") {
  TEST_CASE("each place is failed and killed at") {
    FaultyNode node;
    const Survey all = survey(node);
    check_all_are_reached(all);
    const std::uint64_t seed = seed_of_today();
    fmt::print("BATCHFLOW_SEED={} repeats this\n{:<34} {:<8} {:<9} {:>8} {:>6} {:>7}\n", seed,
               "place", "in", "run", "reached", "acted", "killed");
    const char* only = std::getenv("BATCHFLOW_PLACE");
    for (const Reached& one : all.reached()) {
      if (only && one.place.find(only) == std::string::npos) continue;
      fail_and_kill(node, one, seed);
    }
  }
}

}  // namespace batchflow::test::failpoints_test
#endif
