// A preset that takes another's place while jobs train: each job goes on, in a shared stream or in
// one of its own, and has each sample once.
#include <atomic>
#include <fstream>
#include <map>
#include <thread>

#include "core/base/random.h"
#include "core/engine/engine_config.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/served_rows.h"

namespace batchflow::test::preset_change_test {
namespace {

constexpr std::uint64_t kRows = 1000;
constexpr std::uint32_t kEpochs = 20;
const char* const kPresets[] = {"default", "independent", "tensorsocket",   "silod",
                                "tf-data", "coordl",      "quiver",         "hoard",
                                "joader",  "cachew",      "seneca",         "default",
                                "deepio",  "independent", "tf-data-service"};

struct Place : ServedRows {
  explicit Place(const std::string& preset) : ServedRows(kRows) {
    arguments.insert(arguments.end(), {"--policy", "preset=" + preset});
  }
  nlohmann::json set(const std::string& policy) const {
    return command(socket, "policy_set", {{"policy", policy}});
  }
  nlohmann::json status() const { return command(socket, "status"); }
  JobPlan plan(const std::string& name, bf_order order, unsigned pause_us) const {
    JobPlan made = ServedRows::plan();
    made.name = name;
    made.order = order;
    made.epochs = kEpochs;
    made.pause_us = pause_us;
    return made;
  }
};

// What all ranks of a job were handed.
void check_whole(const std::map<std::uint32_t, std::vector<std::uint64_t>>& epochs) {
  CHECK(epochs.size() == kEpochs);
  for (const auto& [epoch, keys] : epochs) {
    CAPTURE(epoch);
    CHECK(is_whole(keys, kRows));
  }
}

}  // namespace

TEST_CASE("presets change many times in the middle of epochs: each job has each sample once") {
  const Place place("independent");
  const Daemon daemon(place.arguments, place.socket);
  std::vector<JobPlan> plans = {
      place.plan("fast", BF_RELAXED, 300),      place.plan("slow", BF_RELAXED, 1500),
      place.plan("pair", BF_RELAXED, 700),      place.plan("pair", BF_RELAXED, 900),
      place.plan("strict", BF_STRICT, 700),     place.plan("in turn", BF_SEQUENTIAL, 600),
      place.plan("weighted", BF_WEIGHTED, 800), place.plan("keeps", BF_RELAXED, 800)};
  for (JobPlan& plan : plans) plan.holds_last = true;
  for (const std::uint32_t rank : {0u, 1u}) {
    plans[2 + rank].rank = rank;
    plans[2 + rank].world = 2;
  }
  plans[7].keep = true;
  plans[7].epochs = 3;  // all of them stay in its memory
  std::vector<Handed> handed(plans.size());
  std::atomic<std::size_t> running{plans.size()};
  std::vector<std::thread> ranks;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    ranks.emplace_back([&, i] {
      handed[i] = run_job(plans[i]);
      --running;
    });
  }
  Random random(1);
  std::uint64_t changes = 0;
  for (; running > 0; ++changes) {
    const std::string preset = kPresets[changes % std::size(kPresets)];
    CHECK(place.set("preset=" + preset).at("type") == "answer");
    CHECK(place.status().at("preset") == preset);
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random.below(60)));
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(changes > kEpochs);

  std::map<std::string, std::map<std::uint32_t, std::vector<std::uint64_t>>> keys;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CAPTURE(plans[i].name);
    CHECK(handed[i].wrong == "");
    CHECK(handed[i].repeats == 0);
    for (const auto& [epoch, some] : handed[i].epochs) {
      auto& all = keys[plans[i].name][epoch];
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  for (const char* name : {"fast", "slow", "pair", "strict", "in turn"}) {
    CAPTURE(name);
    check_whole(keys[name]);
  }
  CHECK(keys["keeps"].size() == 3);
  for (const auto& [epoch, some] : keys["keeps"]) CHECK(is_whole(some, kRows));
  CHECK(keys["weighted"].size() == kEpochs);
  for (const auto& [epoch, some] : keys["weighted"]) CHECK(some.size() == kRows);
  CHECK(place.status().at("protocol_errors") == 0);
}

TEST_CASE("a state that was saved under one preset goes on under another") {
  const Place place("independent");
  const Daemon daemon(place.arguments, place.socket);
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    JobPlan plan = place.plan(order == BF_STRICT ? "strict" : "relaxed", order, 0);
    plan.epochs = 3;
    std::map<std::uint32_t, std::vector<std::uint64_t>> keys;
    for (const char* preset : {"independent", "default", "silod", "coordl", "independent"}) {
      CHECK(place.set(std::string("preset=") + preset).at("type") == "answer");
      plan.batches_most = 19;  // of 32 an epoch
      const Handed handed = run_job(plan, &plan.state);
      CHECK(handed.wrong == "");
      for (const auto& [epoch, some] : handed.epochs)
        keys[epoch].insert(keys[epoch].end(), some.begin(), some.end());
    }
    plan.batches_most = UINT64_MAX;
    for (const auto& [epoch, some] : run_job(plan).epochs)
      keys[epoch].insert(keys[epoch].end(), some.begin(), some.end());
    CHECK(keys.size() == 3);
    for (const auto& [epoch, all] : keys) CHECK(is_whole(all, kRows));
  }
}

TEST_CASE("a reload changes the preset to that of the file, whatever was set meanwhile") {
  Place place("independent");
  const std::filesystem::path file = place.folder.path() / "node.yaml";
  const auto write = [&](const std::string& preset) {
    std::ofstream(file) << "kind: node\nengine: {preset: " << preset << "}\n";
  };
  write("independent");
  place.arguments.resize(place.arguments.size() - 2);  // without --policy
  place.arguments.insert(place.arguments.end(), {"--config", file});
  const Daemon daemon(place.arguments, place.socket);
  JobPlan plan = place.plan("train", BF_RELAXED, 500);
  Handed handed;
  std::thread job([&] { handed = run_job(plan); });
  for (const char* preset : {"independent", "coordl", "default", "independent"}) {
    CAPTURE(preset);
    CHECK(place.set("preset=tf-data-service").at("type") == "answer");
    write(preset);
    const nlohmann::json answer = command(place.socket, "reload");
    CHECK(answer.at("type") == "answer");
    CHECK(answer.at("text").get<std::string>().find("takes a restart") == std::string::npos);
    CHECK(place.status().at("preset") == preset);
    engine::EngineConfig wanted;
    engine::apply_preset(wanted, preset);
    CHECK(place.status().at("policies").at("dispatch") == wanted.policies.dispatch);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  job.join();
  CHECK(handed.wrong == "");
  check_whole(handed.epochs);
}

TEST_CASE("a preset that no service can take changes nothing") {
  const Place place("independent");
  const Daemon daemon(place.arguments, place.socket);
  const nlohmann::json before = place.status().at("policies");
  for (const auto& [preset, why] : std::map<std::string, std::string>{
           {"defalt", "did you mean 'default'?"}, {"", "unknown preset"}}) {
    CAPTURE(preset);
    const nlohmann::json answer = place.set("preset=" + preset);
    CHECK(answer.at("type") == "error");
    CHECK(answer.at("message").get<std::string>().find(why) != std::string::npos);
  }
  CHECK(place.status().at("preset") == "independent");
  CHECK(place.status().at("policies") == before);
}

}  // namespace batchflow::test::preset_change_test
