// A plugin in a process of its own: whatever it does there, each call ends in time, and what
// happened is known.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "policies/apart/described.h"
#include "policies/plugin/plugin_file.h"
#include "runtime/child/policy_process.h"

namespace batchflow::test::policy_process_test {
namespace {

using child::End;

class Runs final : public apart::Answering {
 public:
  explicit Runs(const std::string& name)
      : file_(std::filesystem::path(BATCHFLOW_TEST_PLUGINS) / (name + ".so")),
        process(file_),
        description_(process.begin()),
        described(description_, *this) {}
  std::uint32_t new_instance() override { return ++instances_; }
  void tell(std::span<const std::byte> call) override { process.tell(call); }
  std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call, bool) override {
    return process.ask(call);
  }
  void reject(std::string_view why) override { process.reject(why); }

 private:
  plugin::PluginFile file_;

 public:
  child::PolicyProcess process;

 private:
  std::vector<std::byte> description_;

 public:
  apart::Described described;

  engine::PolicyChoice choice(engine::PolicyKind kind) const {
    for (const engine::PolicyEntry* one : described.policies()) {
      if (one->kind() == kind) return {one, Parameters(one->parameters)};
    }
    throw std::runtime_error("no policy of that kind");
  }

 private:
  std::uint32_t instances_ = 0;
};

const std::vector<engine::WorkCandidate> kWork(3);

// Asks until there is no answer; the longest that an answer took.
double longest_until_it_fails(const Runs& runs, engine::DispatchPolicy& policy) {
  double longest = 0;
  for (int i = 0; i < 100'000 && !runs.process.failure(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    policy.next({Instant(Duration(i)), kWork});
    longest = std::max(
        longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return longest;
}

// Within two seconds: it is not waited for where it is killed.
bool is_gone(pid_t process) {
  for (int i = 0; i < 200; ++i) {
    child::PolicyProcess::reap();
    if (kill(process, 0) != 0) return true;
    usleep(10'000);
  }
  return false;
}

}  // namespace

TEST_CASE("what a plugin does wrong in its process is known, and it is gone") {
  const std::tuple<const char*, End, const char*> wrong[] = {
      {"dispatch_throws", End::failed, "exception"},
      {"dispatch_hangs", End::hung, "did not answer within 100 ms"},
      {"dispatch_sleeps", End::hung, "did not answer within 100 ms"},
      {"dispatch_crashes", End::crashed, ""},
      {"dispatch_aborts", End::crashed, ""}};
  for (const auto& [name, end, why] : wrong) {
    CAPTURE(std::string(name));
    const Runs runs(name);
    const auto policy =
        runs.choice(engine::PolicyKind::dispatch).make<engine::MakeDispatch>(Random(1));
    const pid_t process = runs.process.process();
    const double longest = longest_until_it_fails(runs, *policy);
    MESSAGE(std::string(name) << ": " << longest << " s");
    REQUIRE(runs.process.failure());
    CHECK(runs.process.failure()->end == end);
    CHECK(runs.process.failure()->why.find(why) != std::string::npos);
    CHECK(is_gone(process));
    // From now on the one that has waited longest is served.
    CHECK(policy->next({Instant{}, kWork}) == 0);
    CHECK(policy->ask_again() == kNever);
  }
}

TEST_CASE("a process that was stopped is lost, not hung; one that was killed has crashed") {
  for (const auto& [signal, end] :
       {std::pair(SIGSTOP, End::lost), std::pair(SIGKILL, End::crashed)}) {
    const Runs runs("several");
    const auto policy =
        runs.choice(engine::PolicyKind::dispatch).make<engine::MakeDispatch>(Random(1));
    for (int i = 0; i < 100; ++i) policy->next({Instant(Duration(i)), kWork});
    REQUIRE(!runs.process.failure());
    kill(runs.process.process(), signal);
    longest_until_it_fails(runs, *policy);
    REQUIRE(runs.process.failure());
    CHECK(runs.process.failure()->end == end);
  }
}

TEST_CASE("a policy there sees the links of nodes") {
  const Runs runs("dispatch_nearest_by_link");
  const auto policy =
      runs.choice(engine::PolicyKind::dispatch).make<engine::MakeDispatch>(Random(1));
  REQUIRE(policy->chooses_nodes());
  engine::WorkCandidate work{};
  work.prepare_s = 1;
  std::vector<engine::NodeCandidate> nodes(2);
  nodes[0] = {NodeId(1), 0, 1, 1, 0, 0};
  nodes[1] = {NodeId(2), 0, 1, 0, 0, 0};
  CHECK(policy->choose_node({work, nodes}) == 1);
  nodes[1].to_fetch = 1500;  // in a second and a half: more than a block of the other node
  nodes[1].in_per_s = 1000;
  CHECK(policy->choose_node({work, nodes}) == 0);
  nodes[0].to_send = 300, nodes[0].going = 300, nodes[0].out_per_s = 1000;
  CHECK(policy->choose_node({work, nodes}) == 1);
  nodes[1].coming = 200;
  CHECK(policy->choose_node({work, nodes}) == 0);
  CHECK(!runs.process.failure());
}

TEST_CASE("what a policy saved there is what the next one takes over") {
  const Runs runs("several"), others("several");
  const engine::PolicyChoice choice = runs.choice(engine::PolicyKind::eviction);
  const auto before = choice.make_eviction(10, 5, Random(1));
  before->inserted({ItemId(3)});
  for (int i = 0; i < 300; ++i) before->hit({ItemId(3)});
  std::vector<std::byte> saved(engine::kSavedMost);
  saved.resize(before->save(saved));
  CHECK(saved.size() == 8);
  // By hand: 300 hits, in eight bytes, the lowest first.
  CHECK(saved[0] == std::byte{300 & 0xff});
  CHECK(saved[1] == std::byte{300 >> 8});
  const auto after = others.choice(engine::PolicyKind::eviction).make_eviction(10, 5, Random(1));
  after->restore(saved);
  std::vector<std::byte> again(engine::kSavedMost);
  again.resize(after->save(again));
  CHECK(again == saved);
}

TEST_CASE("calls that are told fill the ring many times, and none is lost") {
  const Runs runs("several");
  const auto policy = runs.choice(engine::PolicyKind::eviction).make_eviction(1000, 900, Random(1));
  // 48 MiB through a ring of 4.
  for (int round = 0; round < 500; ++round) {
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const engine::Access access{ItemId(i)};
      round == 0 ? policy->inserted(access) : policy->hit(access);
    }
  }
  const ItemId victim = policy->victim({ItemId(5)});
  REQUIRE(!runs.process.failure());
  CHECK(victim.value < 1000);
}

TEST_CASE("a call that is too large gets no answer, and nothing else happens") {
  const Runs runs("several");
  const auto policy =
      runs.choice(engine::PolicyKind::dispatch).make<engine::MakeDispatch>(Random(1));
  const std::vector<engine::WorkCandidate> many(20'000);
  CHECK(policy->next({Instant{}, many}) == 0);
  REQUIRE(runs.process.failure());
  CHECK(runs.process.failure()->end == End::lost);
}

TEST_CASE("what cannot be loaded is refused in words") {
  for (const char* name : {"throws", "crashes", "exits", "answers_null", "bad_kind"}) {
    CAPTURE(std::string(name));
    CHECK_THROWS_AS(Runs{name}, ConfigError);
  }
}

TEST_CASE("the process ends with its owner") {
  pid_t process = 0;
  {
    const Runs runs("several");
    process = runs.process.process();
    CHECK(kill(process, 0) == 0);
  }
  CHECK(is_gone(process));
}

}  // namespace batchflow::test::policy_process_test
