// Live jobs of which a policy chooses the samples: each sample comes once an epoch, by ids and
// contents alone, also where the job goes on from a state or in another service. And states that no
// job can be at are refused.
#include <atomic>
#include <set>
#include <thread>

#include "core/engine/engine_config.h"
#include "core/order/position_json.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/joining_by_hand.h"
#include "tests/runtime/service/live_orders.h"
#include "tests/runtime/service/served_rows.h"

namespace batchflow::test::chosen_test {
namespace {

constexpr std::uint64_t kRows = 1200;
constexpr std::size_t kWidth = 2112;  // rows too large to be read and kept together with others

// A node with blocks of 16 samples.
struct Place {
  Folder folder;
  service::NodeConfig config;
  explicit Place(const std::string& preset) : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, kWidth);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
    engine::apply_preset(config.engine, preset);
    config.engine.block_bytes = 16 * kWidth * sizeof(std::int64_t);
    config.engine.policies.scaling = "static:depth=1";  // little is read that no job has had
  }
  JobPlan plan() const {
    JobPlan made;
    made.service = config.socket;
    made.width = kWidth;
    made.batch = 16;
    made.epochs = 1;
    made.timeout_s = 30;
    return made;
  }
};

void add(std::vector<std::uint64_t>& all, const std::vector<std::uint64_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// What all ranks of a job are given, and where it then is.
struct Ranks {
  std::map<std::uint32_t, std::vector<std::uint64_t>> epochs;
  std::string state;
  std::string wrong;
};
Ranks run_ranks(const JobPlan& plan, std::uint32_t ranks) {
  std::vector<Handed> handed(ranks);
  std::vector<std::string> states(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      JobPlan mine = plan;
      mine.name = "ranks";
      mine.world = ranks;
      mine.rank = rank;
      handed[rank] = run_job(mine, &states[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Ranks all{{}, states[0], ""};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    all.wrong += handed[rank].wrong;
    if (states[rank] != states[0]) all.wrong += "; states differ";
    for (const auto& [epoch, keys] : handed[rank].epochs) add(all.epochs[epoch], keys);
  }
  return all;
}

// Where the state says it is.
order::Position position_of(const std::string& state) {
  std::string problem;
  const auto position = order::position_from_json(state, problem);
  REQUIRE_MESSAGE(position, problem);
  return *position;
}

// A job has half of the epoch, so that half of the data is kept.
void keep_half(const Place& place) {
  JobPlan first = place.plan();
  first.batches_most = kRows / 16 / 2;
  CHECK(run_job(first).wrong == "");
}

// Of another job, which is given first what is kept.
std::string state_with_left_out(const Place& place) {
  keep_half(place);
  JobPlan plan = place.plan();
  plan.batches_most = 20;
  std::string state;
  CHECK(run_job(plan, &state).wrong == "");
  return state;
}

}  // namespace

TEST_CASE("jobs have each sample once an epoch where the policy chooses, side by side") {
  for (const char* preset : {"quiver", "seneca", "deepio"}) {
    CAPTURE(preset);
    const Place place(preset);
    const LiveService service(place.config);
    JobPlan plan = place.plan();
    plan.epochs = 3;
    Handed handed[3];
    std::string states[3];
    std::vector<std::thread> jobs;
    for (std::size_t i = 0; i < 3; ++i) {
      jobs.emplace_back([&, i] {
        JobPlan mine = plan;
        mine.order = i == 1 ? BF_STRICT : BF_RELAXED;
        handed[i] = run_job(mine, &states[i]);
      });
    }
    Ranks ranks = run_ranks(plan, 2);
    for (std::thread& job : jobs) job.join();
    CHECK(ranks.wrong == "");
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(handed[i].wrong == "");
      CHECK(handed[i].repeats == 0);
      CHECK(position_of(states[i]).is_chosen() == (i != 1));
    }
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      for (Handed& one : handed) CHECK(is_whole(one.epochs[epoch], kRows));
      CHECK(is_whole(ranks.epochs[epoch], kRows));
    }
    CHECK(handed[0].epochs[0] != handed[0].epochs[1]);
    CHECK(handed[0].epochs[0] != handed[2].epochs[0]);
  }
}

TEST_CASE(
    "a job that comes later is given first what is kept, and its state says what it was not") {
  const Place place("quiver");
  const LiveService service(place.config);
  const order::Position position = position_of(state_with_left_out(place));
  CHECK(position.consumed() == 20 * 16);
  CHECK(position.fields().left_out.size() > 50);
  CHECK(position.fields().left_out.size() <= order::Position::kLeftOutMost);
}

TEST_CASE("a job goes on from any state, at other sizes, in services of other policies") {
  const char* const kPresets[] = {"quiver", "seneca", "default", "deepio", "independent"};
  for (const std::uint64_t first : {1u, 7u, 20u, 74u}) {
    std::map<std::uint32_t, std::vector<std::uint64_t>> epochs;
    std::string state;
    for (std::uint32_t part = 0; part < 5; ++part) {
      CAPTURE(first);
      CAPTURE(part);
      const Place place(kPresets[part]);
      const LiveService service(place.config);
      keep_half(place);
      JobPlan plan = place.plan();
      plan.epochs = 2;
      plan.state = state;
      plan.batch = 16 - part;
      plan.batches_most = part == 4 ? UINT64_MAX : part == 0 ? first : 12;
      const Ranks ranks = run_ranks(plan, 1 + part % 3);
      REQUIRE(ranks.wrong == "");
      for (const auto& [epoch, keys] : ranks.epochs) add(epochs[epoch], keys);
      state = ranks.state;
      CHECK(position_of(state).is_chosen());
    }
    CHECK(is_whole(epochs[0], kRows));
    CHECK(is_whole(epochs[1], kRows));
  }
}

TEST_CASE("each state of an epoch leads to the rest of it") {
  Place place("seneca");
  place.config.engine.policies.selection = "seneca:blocks=4";
  const LiveService service(place.config);
  keep_half(place);
  JobPlan plan = place.plan();
  plan.batch = 50;
  std::vector<std::uint64_t> had;
  std::string state;
  plan.batches_most = 1;
  std::size_t most_left_out = 0;
  for (int batch = 0; batch < 24; ++batch) {
    plan.state = state;
    Handed handed = run_job(plan, &state);
    REQUIRE(handed.wrong == "");
    add(had, handed.epochs[0]);
    most_left_out = std::max(most_left_out, position_of(state).fields().left_out.size());
    // Another job takes all the rest of the epoch, in other batches.
    JobPlan rest = plan;
    rest.state = state;
    rest.batch = 77;
    rest.batches_most = UINT64_MAX;
    std::vector<std::uint64_t> all = had;
    if (batch % 5 == 2) {
      add(all, run_job(rest).epochs[0]);
      CHECK(is_whole(all, kRows));
    }
  }
  CHECK(most_left_out > 20);
  CHECK(is_whole(had, kRows));
}

TEST_CASE("where samples are chosen, a job may rehearse") {
  live_orders::Rows place;
  engine::apply_preset(place.config.engine, "quiver");
  const LiveService service(place.config);
  const std::vector<std::uint64_t> buffer = live_orders::exemplars(300, 7);
  bf_loader_options options = place.options(BF_RELAXED);
  options.rehearsed = 7;
  options.exemplars = buffer.data();
  options.exemplars_count = buffer.size();
  const live_orders::Given first = live_orders::read(options, 100);
  REQUIRE(first.wrong == "");
  options.state = first.state.c_str();
  const live_orders::Given rest = live_orders::read(options);
  REQUIRE(rest.wrong == "");
  std::map<std::uint32_t, std::vector<std::uint64_t>> epochs;
  for (const live_orders::Given* part : {&first, &rest}) {
    for (const auto& [epoch, batches] : part->epochs) {
      for (const live_orders::Batch& batch : batches) {
        for (const live_orders::Sample& sample : batch)
          if (sample.marks == 0) epochs[epoch].push_back(sample.key);
      }
    }
  }
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch)
    CHECK(is_whole(epochs[epoch], live_orders::kRows));
}

TEST_CASE("services that choose are killed in mid-epoch, and no job misses or repeats a sample") {
  for (const std::string preset : {"quiver", "seneca", "deepio"}) {
    CAPTURE(preset);
    ServedRows place(0);
    constexpr std::uint64_t kMany = 3000;
    write_rows(place.rows / "rows.npy", kMany, kWidth);
    place.arguments.insert(place.arguments.end(), {"--policy", "preset=" + preset});
    Daemon daemon(place.arguments, place.socket);
    std::atomic<std::uint64_t> batches{0};
    std::vector<JobPlan> plans(4, place.plan());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      plans[i].epochs = 3;
      plans[i].width = kWidth;
      plans[i].pause_us = 2000 + 700 * static_cast<unsigned>(i);
      if (i == 0) plans[i].count = &batches;
      if (i == 1) plans[i].order = BF_STRICT;
      if (i < 2) continue;
      plans[i].name = "pair";
      plans[i].world = 2;
      plans[i].rank = static_cast<std::uint32_t>(i - 2);
    }
    std::vector<Handed> handed(plans.size());
    std::vector<std::thread> jobs;
    for (std::size_t i = 0; i < plans.size(); ++i)
      jobs.emplace_back([&, i] { handed[i] = run_job(plans[i]); });
    for (const std::uint64_t at : {20u, 50u, 150u}) {
      CHECK(reaches(batches, at));
      CHECK(daemon.kill(SIGKILL) == -SIGKILL);
      daemon.start();
    }
    for (std::thread& job : jobs) job.join();
    for (const Handed& one : handed) {
      CHECK(one.wrong == "");
      REQUIRE(one.epochs.size() == 3);
    }
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      CHECK(is_whole(handed[0].epochs[epoch], kMany));
      CHECK(is_whole(handed[1].epochs[epoch], kMany));
      add(handed[2].epochs[epoch], handed[3].epochs[epoch]);
      CHECK(is_whole(handed[2].epochs[epoch], kMany));
    }
  }
}

TEST_CASE("states that no job can be at are refused, and the service goes on") {
  const Place place("quiver");
  const LiveService service(place.config);
  const std::string state = state_with_left_out(place);
  const auto with = [&](const std::string& field, const std::string& value) {
    const std::size_t from = state.find("\"" + field + "\":") + field.size() + 3;
    REQUIRE(from < state.size());
    return state.substr(0, from) + value + state.substr(state.find_first_of(",}", from));
  };
  for (const auto& [wrong, why] : std::vector<std::pair<std::string, std::string>>{
           {with("consumed", "0"), "cannot be left out"},
           {with("consumed", "6000"), "consumed of"},
           {with("consumed", "1199"), "left out of"},
           // 2^59 indices, in ten bytes.
           {with("left_out", "\"AQD//////////wc=\""), "'left_out' is not a list"},
           {with("left_out", "\"AAA=\""), "'left_out' is not a list"},
           {with("left_out", "\"\""), "'left_out' is not a list"},
           {with("left_out", "7"), "'\"' is expected"},
           {with("order", "\"strict\""), "fields of another order"},
           {with("samples", "1100"), "does not fit"}}) {
    CAPTURE(wrong);
    JobPlan plan = place.plan();
    plan.state = wrong;
    const std::string said = run_job(plan).wrong;
    CHECK_MESSAGE(said.find(why) != std::string::npos, said);
  }
  JobPlan plan = place.plan();
  plan.state = state;
  const std::vector<std::uint64_t> rest = run_job(plan).epochs[0];
  CHECK(rest.size() == kRows - 20 * 16);
  CHECK(std::set(rest.begin(), rest.end()).size() == rest.size());
}

TEST_CASE("ranks with states of unlike choices are refused") {
  const Place place("quiver");
  const LiveService service(place.config);
  const std::string state = state_with_left_out(place);
  order::Position::Fields fields = position_of(state).fields();
  // It had another sample in place of one that was left out.
  std::vector<std::uint64_t>& left = fields.left_out;
  std::uint64_t had = 0;
  while (std::binary_search(left.begin(), left.end(), had)) ++had;
  left.front() = had;
  std::sort(left.begin(), left.end());
  std::string problem;
  const auto other = order::Position::from(fields, problem);
  REQUIRE_MESSAGE(other, problem);
  const std::string states[] = {state, order::to_json(*other)};
  std::string wrong[2];
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      JobPlan plan = place.plan();
      plan.name = "pair";
      plan.world = 2;
      plan.rank = rank;
      plan.state = states[rank];
      wrong[rank] = run_job(plan).wrong;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& one : wrong)
    CHECK_MESSAGE(one.find("not at the same position") != std::string::npos, one);
}

TEST_CASE(
    "a client that cannot follow, and an order for each node, are told why they are refused") {
  const Place place("deepio");
  const LiveService service(place.config);
  ByHand old(place.config.socket);
  protocol::JoinRequest request;
  request.dataset = "rows";
  CHECK(old.ask(request));
  const std::string answer = old.answer();
  CHECK_MESSAGE(answer.find("client library is too old") != std::string::npos, answer);
  ByHand strict(place.config.socket);
  request.order = Order::strict;
  CHECK(strict.ask(request));
  std::string problem;
  CHECK(protocol::message_type(strict.answer(), problem) == "admitted");
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  const std::string socket = place.config.socket;
  options.service = socket.c_str();
  options.dataset = "rows";
  options.batch_samples = 16;
  options.order = BF_RELAXED;
  options.node_local = 1;
  const std::string wrong = live_orders::read(options, 1).wrong;
  CHECK_MESSAGE(wrong.find("does not choose the samples") != std::string::npos, wrong);
}

}  // namespace batchflow::test::chosen_test
