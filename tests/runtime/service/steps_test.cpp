// Pipelines with plugins at the real service: which jobs share, which messages they get, and which
// jobs wait for which.
#include <csignal>

#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/seen.h"

namespace batchflow::test::steps_test {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr std::uint64_t kRows = 2000;

struct Plugins {
  Folder folder;
  service::NodeConfig config;
  Plugins() : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
    config.memory = Bytes{1} << 30;  // room for the processes of several pipelines
    config.steps.timeout = std::chrono::milliseconds(300);
    config.steps.start_timeout = seconds(3);
  }
  // A pipeline of mischief with these parameters.
  void add(const std::string& name, const std::string& parameters) {
    const auto file = folder.path() / (name + ".yaml");
    std::ofstream(file) << fmt::format(
        "kind: pipeline\nname: {}\nsteps:\n  - {{plugin: {}/mischief.so{}}}\n", name,
        BATCHFLOW_TEST_STEPS, parameters.empty() ? "" : ", " + parameters);
    config.pipelines.push_back(file);
  }
  JobPlan plan(const std::string& pipeline) const {
    JobPlan made;
    made.service = config.socket;
    made.pipeline = pipeline;
    return made;
  }
  json plugin(const std::string& pipeline) const {
    const json status = command(config.socket, "status");
    for (const json& one : status.at("plugins"))
      if (one.at("pipeline") == pipeline) return one;
    return {};
  }
};

std::vector<std::uint64_t> all_but(const std::vector<std::uint64_t>& bad) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; key < kRows; ++key)
    if (std::find(bad.begin(), bad.end(), key) == bad.end()) keys.push_back(key);
  return keys;
}

TEST_CASE("two jobs of a pipeline with a plugin share what it makes: each sample once") {
  Plugins plugins;
  plugins.add("copy", "");
  const LiveService service(plugins.config);
  JobPlan plan = plugins.plan("copy");
  plan.order = BF_STRICT;
  Handed first, second;
  std::thread one([&] { first = run_job(plan); });
  std::thread two([&] { second = run_job(plan); });
  one.join();
  two.join();
  for (const Handed& handed : {first, second}) {
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == 2);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  }
  CHECK(first.epochs == second.epochs);
  const json told = plugins.plugin("copy");
  CHECK(told.at("samples") == kRows);  // kept for the second epoch
  CHECK(told.at("crashes") == 0);
  CHECK(told.at("starts") <= 2);
  CHECK(told.at("busy_s") > 0);
}

TEST_CASE("samples at which a plugin crashes or hangs are replaced, in its pipeline alone") {
  Plugins plugins;
  plugins.add("crashing", "do: crash, at: [3, 500, 501, 1999]");
  plugins.add("hanging", "do: hang, at: [77, 78, 79]");
  plugins.add("refusing", "do: throw, at: [12]");
  plugins.add("copy", "");
  const LiveService service(plugins.config);
  const std::tuple<std::string, std::vector<std::uint64_t>, std::string> cases[] = {
      {"crashing", {3, 500, 501, 1999}, "sample 500 (rows.npy:500): step 'mischief' of "},
      {"hanging", {77, 78, 79}, "mischief.so: took more than 0.3 s"},
      {"refusing", {12}, "bad sample"},
      {"copy", {}, ""},
  };
  for (const auto& [name, bad, words] : cases) {
    CAPTURE(name);
    const Seen seen = see(plugins.plan(name));
    CHECK(seen.wrong == "");
    REQUIRE(seen.good.size() == 2);
    for (const auto& [epoch, keys] : seen.good) CHECK(sorted(keys) == all_but(bad));
    if (bad.empty()) {
      CHECK(seen.replaced.empty());
    } else {
      for (const auto& [epoch, keys] : seen.replaced) CHECK(sorted(keys) == bad);
    }
    CHECK_MESSAGE(service.has_said(words), words);
  }
  // Each at two reads of its own at least, in one epoch, or in both where both were begun; what a
  // cache had does not count as one.
  const auto crashes = plugins.plugin("crashing").at("crashes").get<std::uint64_t>();
  const auto late = plugins.plugin("hanging").at("late").get<std::uint64_t>();
  CHECK_MESSAGE((crashes >= 2 * 4 && crashes <= 6 * 4), crashes);
  CHECK_MESSAGE((late >= 2 * 3 && late <= 6 * 3), late);
  CHECK(command(plugins.config.socket, "status").at("corrupt_samples") == 8);
}

TEST_CASE("a plugin that always fails ends its jobs, with its words; others go on") {
  Plugins plugins;
  plugins.add("crashing", "do: abort");
  plugins.add("hanging", "do: hang");
  plugins.add("copy", "");
  const LiveService service(plugins.config);
  JobPlan healthy = plugins.plan("copy");
  healthy.epochs = 8;
  Handed other;
  std::thread job([&] { other = run_job(healthy); });
  for (const auto& [name, words] :
       {std::pair<std::string, std::string>{"crashing", "SIGABRT), and last wrote 'last words'"},
        {"hanging", "took more than 0.3 s"}}) {
    CAPTURE(name);
    const auto began = std::chrono::steady_clock::now();
    const Seen seen = see(plugins.plan(name));
    CHECK_MESSAGE(seen.wrong.find(words) != std::string::npos, seen.wrong);
    CHECK_MESSAGE(seen.wrong.find("mischief.so") != std::string::npos, seen.wrong);
    CHECK(std::chrono::steady_clock::now() - began < seconds(15));
  }
  job.join();
  CHECK(other.wrong == "");
  CHECK(other.epochs.size() == 8);
  for (const auto& [epoch, keys] : other.epochs) CHECK(is_whole(keys, kRows));
  CHECK(command(plugins.config.socket, "status").at("corrupt_samples") <= 2 * 9);
}

TEST_CASE("setting up a plugin keeps no other job waiting, and what is wrong with it is told") {
  Plugins plugins;
  plugins.add("stuck", "do: hang at start");
  plugins.add("refusing", "do: refuse");
  plugins.config.pipelines.push_back(plugins.folder.path() / "none.yaml");
  std::ofstream(plugins.config.pipelines.back())
      << "kind: pipeline\nname: none\nsteps: [{plugin: none.so}]\n";
  const LiveService service(plugins.config);
  Seen stuck, again;
  std::thread one([&] { stuck = see(plugins.plan("stuck")); });
  std::thread two([&] { again = see(plugins.plan("stuck")); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto began = std::chrono::steady_clock::now();
  CHECK(run_job(plugins.plan("")).wrong == "");
  CHECK(std::chrono::steady_clock::now() - began < seconds(2));
  const json answer =
      command(plugins.config.socket, "warm", {{"dataset", "rows"}, {"pipeline", "stuck"}});
  CHECK(answer.dump().find("are being set up; ask again") != std::string::npos);
  one.join();
  two.join();
  for (const Seen& seen : {stuck, again})
    CHECK_MESSAGE(seen.wrong.find("took more than 3 s to start") != std::string::npos, seen.wrong);
  CHECK(see(plugins.plan("refusing")).wrong.find("not on a Sunday") != std::string::npos);
  CHECK(see(plugins.plan("none")).wrong.find("no file 'none.so'") != std::string::npos);
}

TEST_CASE("memory for the processes is taken from the cache, or the job is refused with numbers") {
  Plugins plugins;
  plugins.add("copy", "");
  plugins.config.steps.memory = Bytes{100} << 20;
  {
    const LiveService service(plugins.config);
    const json before = command(plugins.config.socket, "status");
    CHECK(run_job(plugins.plan("copy")).wrong == "");
    const json after = command(plugins.config.socket, "status");
    CHECK(after.at("steps_bytes") == Bytes{200} << 20);
    CHECK(before.at("cache_bytes").get<Bytes>() - after.at("cache_bytes").get<Bytes>() ==
          Bytes{200} << 20);
  }
  plugins.config.memory = Bytes{350} << 20;
  const LiveService service(plugins.config);
  const Seen seen = see(plugins.plan("copy"));
  CHECK_MESSAGE(seen.wrong.find("may take 200 MiB together") != std::string::npos, seen.wrong);
  CHECK(run_job(plugins.plan("")).wrong == "");
}

// The processes of the service's threads.
std::vector<pid_t> workers_of(pid_t service) {
  std::vector<pid_t> all;
  std::error_code gone;
  const auto threads = fmt::format("/proc/{}/task", service);
  for (const auto& thread : std::filesystem::directory_iterator(threads, gone)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t one; file >> one;) all.push_back(one);
  }
  return all;
}

TEST_CASE("processes that are killed in mid-block cost no sample, and none outlives its service") {
  Plugins plugins;
  plugins.add("slow", "slow_ms: 1");
  const auto node = plugins.folder.path() / "node.yaml";
  std::ofstream(node) << fmt::format(
      "kind: node\nmemory: 512mib\nworkers: 2\nsocket: {0}\nstate: {1}\nhttp: {{port: -1}}\n"
      "datasets: [{{name: rows, path: {2}}}]\npipelines: [{3}]\n"
      "engine: {{block_bytes: 8kib}}\n",  // so that a job has begun long before all is prepared
      plugins.config.socket.string(), plugins.config.state.string(),
      (plugins.folder.path() / "rows").string(), plugins.config.pipelines[0].string());
  Daemon daemon({"--config", node}, plugins.config.socket);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> had{0};
  int killed = 0;
  std::thread killer([&] {
    // One that is killed when it is set up for its first job is an error of that job.
    while (!over && had == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    while (!over) {
      for (const pid_t one : workers_of(daemon.process())) killed += kill(one, SIGKILL) == 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  JobPlan plan = plugins.plan("slow");
  plan.epochs = 1;
  plan.width = 0;
  plan.count = &had;
  const Seen seen = see(plan);
  over = true;
  killer.join();
  CHECK(seen.wrong == "");
  CHECK(killed >= 2);
  CHECK(sorted(seen.good.at(0)) == all_but({}));
  CHECK(seen.replaced.empty());

  std::vector<pid_t> left = workers_of(daemon.process());
  REQUIRE(!left.empty());
  daemon.kill(SIGKILL);
  const auto until = std::chrono::steady_clock::now() + seconds(5);
  while (!left.empty() && std::chrono::steady_clock::now() < until) {
    std::erase_if(left, [](pid_t one) { return kill(one, 0) != 0; });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(left.empty());
}

TEST_CASE("a service that ends waits for no plugin") {
  Plugins plugins;
  plugins.add("hanging", "do: hang");
  plugins.config.steps.timeout = seconds(60);
  auto service = std::make_unique<LiveService>(plugins.config);
  std::thread job([&] {
    JobPlan plan = plugins.plan("hanging");
    plan.timeout_s = 1;
    see(plan);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  const auto began = std::chrono::steady_clock::now();
  service.reset();
  CHECK(std::chrono::steady_clock::now() - began < seconds(2));
  job.join();
}

}  // namespace
}  // namespace batchflow::test::steps_test
