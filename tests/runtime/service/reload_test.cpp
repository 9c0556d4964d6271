// What reading a node file again changes of a service that runs, and what it does not.
#include "runtime/service/control/reload.h"
#include "runtime/service/control/node_memory.h"

#include <fstream>

#include "programs/input/yaml.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"
#include "tests/source_dir.h"

namespace batchflow::test::reload_test {
namespace {

service::NodeConfig node() {
  service::NodeConfig config = service::default_node_config();
  config.datasets.push_back({"rows", "/data/rows", "", "", 0});
  return config;
}

service::NodeConfig read(const std::string& text) {
  Folder folder;
  std::ofstream(folder.path() / "node.yaml") << text;
  return service::read_node_config(input::read_yaml_file(folder.path() / "node.yaml"));
}

TEST_CASE("the same file changes nothing") {
  const service::ReloadPlan plan = service::plan_reload(node(), node());
  CHECK(plan.changes_nothing());
  CHECK(plan.takes_restart.empty());
  CHECK(plan.summary() == "nothing changes");
}

TEST_CASE("datasets come and go by name; one at another place does both") {
  service::NodeConfig wanted = node();
  wanted.datasets.front().path = "/data/other";
  wanted.datasets.push_back({"more", "/data/more", "", "", 0});
  const service::ReloadPlan plan = service::plan_reload(node(), wanted);
  CHECK(plan.summary() == "dataset rows goes, dataset rows comes, dataset more comes");
  wanted = node();
  wanted.datasets.front().pipeline = "bytes";
  CHECK(service::plan_reload(node(), wanted).summary() == "dataset rows has pipeline bytes");
  wanted.datasets.clear();
  CHECK(service::plan_reload(node(), wanted).summary() == "dataset rows goes");
}

TEST_CASE("the file with every setting says what there is without it") {
  const service::NodeConfig usual = service::default_node_config();
  const service::NodeConfig written = service::read_node_config(
      input::read_yaml_file((source_dir() / "configs/nodes/default.yaml").string()));
  CHECK(service::plan_reload(usual, written).summary() == "nothing changes");
  CHECK(service::plan_reload(usual, written).takes_restart == std::vector<std::string>());
}

TEST_CASE("a service's engine has the defaults that scenarios have") {
  const engine::EngineConfig usual;
  CHECK(service::default_node_config().engine == usual);
  const auto read = [](const std::string& text) {
    return service::read_node_config(input::parse_yaml(text, "n.yaml")).engine;
  };
  CHECK(read("kind: node\n") == usual);
  CHECK(read("engine: {}\n") == usual);
  engine::EngineConfig wanted;
  wanted.credits = 5;
  CHECK(read("engine: {credits: 5}\n") == wanted);
  // What the engine divides of its cache, as a scenario's node says it.
  service::NodeConfig config = service::default_node_config();
  config.memory = Bytes{1} << 30;
  const Bytes cache = cache_bytes(config);
  CHECK(planned_bytes(config) == cache - cache / 16);
  CHECK(engine_bytes(config) == planned_bytes(config) + config.shown_staging());
}

TEST_CASE("a dataset's name is told from a path") {
  CHECK_THROWS_WITH(service::check_names({{"/p", "/p", {}, {}, 0, {}}}),
                    doctest::Contains("jobs would take this name for a path"));
  CHECK_NOTHROW(service::check_names({{"p", "/p", {}, {}, 0, {}}}));
}

TEST_CASE("what is looked up when it is needed is named as it is written") {
  service::NodeConfig wanted = node();
  wanted.steps.timeout = std::chrono::seconds(3);
  CHECK(service::plan_reload(node(), wanted).summary() == "steps");
  wanted.quotas.of_all.jobs = 7;
  wanted.brought_kept = Duration(0);
  CHECK(service::plan_reload(node(), wanted).summary() == "limits, brought_kept, steps");
}

TEST_CASE("a service takes no policy that would have to know the future, nor one out of place") {
  CHECK_THROWS_WITH(read("kind: node\nengine: {policies: {eviction: {encoded: belady}}}"),
                    doctest::Contains("needs to know future requests"));
  CHECK_THROWS_WITH(service::check_policy("eviction.decoded", "belady-bypass"),
                    doctest::Contains("needs to know future requests"));
  CHECK_NOTHROW(service::check_policy("eviction", "sieve"));
  CHECK_NOTHROW(service::check_policy("eviction.prepared", "sieve"));
  CHECK_THROWS_WITH(service::check_policy("eviction.nosuch", "lru"),
                    doctest::Contains("no kind of policy"));
  CHECK_THROWS_WITH(read("kind: node\npolicies: {dispatch: fifo}"),
                    doctest::Contains("they stand in the engine's section"));
}

TEST_CASE("a node file that names an unknown policy is refused with the line, of each kind") {
  for (const std::string_view name :
       {"allocation", "eviction.encoded", "eviction.decoded", "eviction.prepared", "eviction.drive",
        "eviction.gpu", "selection", "dispatch", "scaling"}) {
    const std::string kind(name);
    CAPTURE(kind);
    const std::size_t dot = kind.find('.');
    const std::string policies = dot == std::string::npos
                                     ? "\n    " + kind + ": nosuch"
                                     : "\n    eviction: {" + kind.substr(dot + 1) + ": nosuch}";
    CHECK_THROWS_WITH(
        read("kind: node\nengine:\n  policies:" + policies + "\n"),
        doctest::Contains(("node.yaml:4: key 'engine.policies." + kind + "': unknown").c_str()));
  }
  CHECK_THROWS_WITH(read("kind: node\nengine: {policies: {dispatch: \"fifo:depth=3\"}}"),
                    doctest::Contains("node.yaml:2: key 'engine.policies.dispatch': "));
}

TEST_CASE("policies and settings are told to the engine in its own words") {
  service::NodeConfig wanted = node();
  wanted.engine.policies.dispatch = "fifo";
  wanted.engine.read_attempts = 7;
  wanted.engine.retry_wait = std::chrono::milliseconds(25);
  wanted.engine.corrupt_ratio_max = Ratio{Ratio::kWhole / 50};
  const service::ReloadPlan plan = service::plan_reload(node(), wanted);
  CHECK(plan.engine.policies == std::vector<std::string>{"dispatch=fifo"});
  CHECK(plan.engine.settings == std::vector<std::string>{"corrupt_ratio_max=0.020000000000",
                                                         "retry_wait=25000000ns",
                                                         "read_attempts=7"});
  // As the engine understands them.
  engine::EngineConfig engine = node().engine;
  for (const std::string& setting : plan.engine.settings) engine::change_setting(engine, setting);
  wanted.engine.policies = engine.policies;
  CHECK(engine == wanted.engine);
}

TEST_CASE("another preset takes no restart, from any to any") {
  for (const engine::Preset* from : engine::presets()) {
    for (const engine::Preset* to : engine::presets()) {
      CAPTURE(from->name);
      CAPTURE(to->name);
      service::NodeConfig running = node(), wanted = node();
      engine::apply_preset(running.engine, from->name);
      engine::apply_preset(wanted.engine, to->name);
      const service::ReloadPlan plan = service::plan_reload(running, wanted);
      CHECK(plan.takes_restart.empty());
      for (const std::string& policy : plan.engine.policies) {
        const std::size_t equals = policy.find('=');
        engine::set_policy(running.engine.policies, policy.substr(0, equals),
                           policy.substr(equals + 1));
      }
      for (const std::string& setting : plan.engine.settings)
        engine::change_setting(running.engine, setting);
      running.engine.preset = to->name;
      CHECK(running.engine == wanted.engine);
    }
  }
}

TEST_CASE("what takes a restart is said by name, each time until it is restarted") {
  service::NodeConfig wanted = node();
  wanted.socket = "/elsewhere";
  wanted.http_port = 1;
  wanted.storage.depth = 1;
  wanted.spill = {"/nvme", Bytes{1} << 30};
  wanted.engine.block_bytes = 1;
  wanted.workers = 3;
  const service::ReloadPlan plan = service::plan_reload(node(), wanted);
  CHECK(plan.summary() == "workers");
  REQUIRE(plan.takes_restart.size() == 5);
  CHECK(plan.takes_restart.at(0).starts_with("engine: a setting beside those"));
  CHECK(plan.takes_restart.at(1) == "socket");
  CHECK(plan.takes_restart.at(2) == "http");
  CHECK(plan.takes_restart.at(3) == "storage");
  CHECK(plan.takes_restart.at(4) == "spill");
  const service::ReloadPlan again =
      service::plan_reload(service::after_reload(node(), wanted), wanted);
  CHECK(again.changes_nothing());
  CHECK(again.takes_restart == plan.takes_restart);
}

// Behind the folder the file is in.
std::string refused(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    return what.substr(std::min(what.find("node.yaml:"), what.size()));
  }
  return "no error";
}

TEST_CASE("pipelines and formats are looked at when the file is read, not when a job comes") {
  const std::string known =
      "write one of bytes, imagenet-augmented, imagenet-colour, imagenet-train, "
      "imagenet-train-f32, imagenet-val, ";
  CHECK(refused("kind: node\n\npipelines: [/nix.yaml]\n") ==
        "node.yaml:3: key 'pipelines': '/nix.yaml' is no file; write the paths of pipelines, as "
        "docs/pipelines.md has them");
  CHECK(refused("datasets:\n- {path: /x}\n- {path: /p,\n   pipeline: nosuch}\n") ==
        "node.yaml:4: key 'datasets.1.pipeline': unknown value 'nosuch'; " + known + "tokens");
  CHECK(refused("datasets:\n- {path: /p, format: nix}\n") ==
        "node.yaml:2: key 'datasets.0.format': unknown value 'nix'; write one of images, "
        "webdataset, tfrecord, packed, mds, arrow, parquet, numpy, tokens, megatron, sequences, "
        "video, files");
  CHECK(refused("datasets:\n- {path: /p, format: tokens}\n") ==
        "node.yaml:2: key 'datasets.0.tokens': a sample's length is not known; write tokens: "
        "1024");
  CHECK(refused("datasets:\n- {path: /p, packing: bins, tokens: 8}\n") ==
        "node.yaml:2: key 'datasets.0.packing': unknown value 'bins'; write one of concat, whole, "
        "buckets");
  CHECK(refused("datasets:\n- {path: /p, packing: whole}\n") ==
        "node.yaml:2: key 'datasets.0.packing': packing needs the number of tokens of a "
        "sequence, as tokens=2048; write tokens: 2048, or another number up to 1048576");
  CHECK(refused("steps: {worker: /nix}\n") ==
        "node.yaml:1: key 'steps.worker': '/nix' is no program; leave it out: it stands beside "
        "batchflowd");
  CHECK(refused("datasets:\n- {path: /}\n") ==
        "node.yaml:2: key 'datasets.0.name': it is empty; write what jobs call it");

  const Folder folder;
  const std::string mine = folder.path() / "mine.yaml";
  const auto with_mine = [&](const std::string& text) {
    std::ofstream(mine) << text;
    try {
      const service::NodeConfig config =
          read("pipelines: [" + mine + "]\ndatasets: [{path: /data/p/, pipeline: mine}]\n");
      CHECK(config.datasets.at(0).path == "/data/p");
      return config.datasets.at(0).name + " " + config.datasets.at(0).pipeline;
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  CHECK(with_mine("kind: pipeline\nname: x\nsteps: [{plugin: ./not-built.so, scale: 3}]\n") ==
        "p mine");
  CHECK(with_mine("kind: pipeline\nname: x\nsteps:\n- {step: decode}\n- {step: cropp}\n")
            .starts_with(mine + ":5: key 'steps.1.step': no step 'cropp'"));
  CHECK(with_mine("kind: node\n") == mine +
                                         ":1: key 'kind': this is no pipeline; write kind: "
                                         "pipeline");
  CHECK(with_mine("kind: [\n").find("not valid YAML") != std::string::npos);
}

TEST_CASE("a path that is written and empty is refused where it stands") {
  const auto empty = [](const std::string& text, std::string_view key, std::string_view remedy) {
    CHECK(refused("kind: node\n" + text + "\n") ==
          fmt::format("node.yaml:2: key '{}': it is empty; {}", key, remedy));
  };
  empty("datasets: [{name: a, path: \"\"}]", "datasets.0.path", "the folder or file it is in");
  empty("socket: \"\"", "socket", "write where jobs find the service");
  empty("state: \"\"", "state", "write a folder for indices and logs");
  empty("log_file: \"\"", "log_file", "write a file");
  empty("spill: {path: \"\", bytes: 1gib}", "spill.path", "a folder on a local drive");
  empty("tcp: {port: 1, token_file: \"\"}", "tcp.token_file",
        "a file of tokens, one a line; a remote job must show one of them");
  for (const char* key : {"certificate", "key"})
    empty(fmt::format("tcp: {{port: 1, token_file: t, {}: \"\"}}", key), fmt::format("tcp.{}", key),
          "write a file in PEM, or leave both out: certificate and key");
  empty("datasets: [{path: /a, splits: [{name: s, subset: \"\"}]}]", "datasets.0.splits.0.subset",
        "write a file of names, one a line");
  empty("datasets: [{path: /a, splits: [{name: s, folder: \"\"}]}]", "datasets.0.splits.0.folder",
        "write a folder of the dataset");
  CHECK(refused("kind: node\npipelines: [\"\"]\n").starts_with("node.yaml:2: key 'pipelines': "));
  CHECK(refused("kind: node\nsteps: {worker: \"\"}\n").starts_with("node.yaml:2: key 'steps."));
}

TEST_CASE("what a start would refuse of spill, socket and http is refused where it stands") {
  CHECK(refused("kind: node\nspill: {path: /x, bytes: 0}\n") ==
        "node.yaml:2: key 'spill.bytes': 0 bytes are too little; write 16mib or more, or leave the "
        "spill tier out");
  CHECK(refused("spill: {path: /x, bytes: 16mib}\n") == "no error");
  CHECK_THROWS_WITH_AS(
      service::spill_from_argument("/x,1kib"),
      "--spill '/x,1kib': 1024 bytes are too little; write 16mib or more, or leave "
      "the spill tier out",
      ConfigError);
  const std::string longest = "/" + std::string(106, 's');
  CHECK(refused("socket: " + longest + "\n") == "no error");
  CHECK(refused("kind: node\nsocket: " + longest + "s\n") ==
        "node.yaml:2: key 'socket': a socket's path has at most 107 bytes; choose another path");
  for (const char* address : {"300.1.1.1", "localhost", "''"})
    CHECK(refused(fmt::format("kind: node\nhttp: {{address: {}}}\n", address))
              .starts_with("node.yaml:2: key 'http.address': '"));
  CHECK(refused("http: {address: 300.1.1.1}\n") ==
        "node.yaml:1: key 'http.address': '300.1.1.1' is no address; write an address of this "
        "machine in numbers, as 127.0.0.1 or ::1");
  CHECK(refused("http: {address: '::1'}\n") == "no error");
  CHECK(refused("http: {address: 300.1.1.1, port: -1}\n") == "no error");  // nothing listens
}

TEST_CASE("quotas are read with the limits of all as defaults, and refused with a line") {
  const service::NodeConfig config = read(
      "kind: node\nlimits: {jobs: 3}\nusers: [{name: root, weight: 2, batch_bytes: 1gib}, {name: "
      "4242, jobs: 1}]\n");
  CHECK(config.quotas.limits_of(0).jobs == 3);
  CHECK(config.quotas.limits_of(0).weight == 2);
  CHECK(config.quotas.limits_of(0).batch_bytes == Bytes{1} << 30);
  CHECK(config.quotas.limits_of(4242).jobs == 1);
  CHECK(config.quotas.limits_of(7).jobs == 3);
  CHECK(refused("kind: node\nusers:\n- {name: nobody-at-all}\n").find("node.yaml:3") !=
        std::string::npos);
  CHECK(refused("kind: node\nusers: [{name: 1}, {name: 1}]\n").find("listed already") !=
        std::string::npos);
  CHECK(refused("kind: node\nusers: [{name: 1, weight: 0}]\n").find("weight") != std::string::npos);
}

struct Place {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  std::filesystem::path file = folder.path() / "node.yaml";
  std::string memory = "512mib";
  std::vector<std::string> arguments = {"--config", file, "--state", folder.path() / "state"};
  Place() {
    for (const char* name : {"rows", "more"}) {
      std::filesystem::create_directory(folder.path() / name);
      write_rows(folder.path() / name / "rows.npy", 2000, 16);
    }
    write("[rows]", "");
  }
  void write(const std::string& datasets, const std::string& rest) {
    std::ofstream out(file, std::ios::trunc);
    out << "kind: node\nmemory: " << memory << "\nhttp: {port: -1}\nsocket: " << socket
        << "\ndatasets:\n";
    for (const char* name : {"rows", "more"}) {
      if (datasets.find(name) != std::string::npos)
        out << "- {name: " << name << ", path: " << (folder.path() / name).string() << "}\n";
    }
    out << rest;
  }
  Handed job(const std::string& dataset) const {
    JobPlan plan;
    plan.service = socket;
    plan.dataset = dataset;
    plan.epochs = 1;
    return run_job(plan);
  }
  // The service reads its file beside everything else.
  bool comes(const std::string& dataset) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < until) {
      if (job(dataset).wrong.empty()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
};

TEST_CASE("SIGHUP: a dataset comes, another goes, and a broken file changes nothing") {
  Place place;
  Daemon daemon(place.arguments, place.socket);
  CHECK(place.job("rows").wrong == "");
  CHECK(place.job("more").wrong.find("no dataset is called 'more'") != std::string::npos);

  place.write("[rows, more]", "memory: twice\n");
  const std::string said = command(place.socket, "reload").at("message");
  CHECK(said.find("nothing changes: ") == 0);
  CHECK(said.find("node.yaml:8") != std::string::npos);
  CHECK(place.job("rows").wrong == "");
  CHECK(place.job("more").wrong.find("no dataset is called 'more'") != std::string::npos);

  for (const char* wrong : {"pipelines: [/nix.yaml]\n", "- {path: /p, pipeline: nosuch}\n"}) {
    place.write("[rows, more]", wrong);
    const std::string why = command(place.socket, "reload").at("message");
    CHECK_MESSAGE(why.find("nothing changes: ") == 0, why);
    CHECK_MESSAGE(why.find("node.yaml:8: key '") != std::string::npos, why);
  }
  CHECK(place.job("more").wrong.find("no dataset is called 'more'") != std::string::npos);

  place.write("[more]", "users: [{name: 0, jobs: 1}]\n");
  ::kill(daemon.process(), SIGHUP);
  CHECK(place.comes("more"));
  CHECK(place.job("rows").wrong.find("no dataset is called 'rows'; there are: more") !=
        std::string::npos);
}

TEST_CASE("a reload is taken as a whole, or not at all") {
  Place place;
  Daemon daemon(place.arguments, place.socket);
  REQUIRE(place.comes("rows"));
  const auto reload = [&] {
    const auto answer = command(place.socket, "reload");
    return answer.value("text", "") + answer.value("message", "");
  };
  const std::filesystem::path rows = place.folder.path() / "rows";
  const auto write = [&](const std::string& datasets) {
    std::ofstream out(place.file, std::ios::trunc);
    out << "kind: node\nmemory: 512mib\nhttp: {port: -1}\nsocket: " << place.socket
        << "\nworkers: 1\ndatasets:\n"
        << datasets;
  };
  const auto is_as_before = [&] {
    CHECK(place.job("rows").wrong == "");
    CHECK(place.job("more").wrong.find("no dataset is called 'more'; there are: rows") !=
          std::string::npos);
    CHECK(command(place.socket, "status").at("workers_most") > 1);
  };
  const bool has_workers = command(place.socket, "status").at("workers_most") > 1;
  if (!has_workers) MESSAGE("one core: that workers do not change cannot be seen");

  // The good one is at another place by now, which is not there.
  const std::string more =
      fmt::format("- {{name: more, path: {}}}\n", (place.folder.path() / "more").string());
  write("- {name: rows, path: /not/here}\n" + more);
  std::string said = reload();
  CHECK_MESSAGE(said.find("nothing changes: dataset rows: /not/here: No such file or directory; "
                          "write the folder or file that holds the data") == 0,
                said);
  if (has_workers) is_as_before();
  // Nor is a folder without data one, nor a split that leaves nothing.
  std::filesystem::create_directory(place.folder.path() / "empty");
  write(fmt::format("- {{name: rows, path: {}}}\n", (place.folder.path() / "empty").string()) +
        more);
  said = reload();
  CHECK_MESSAGE(said.find("nothing changes: dataset rows: ") == 0, said);
  CHECK(said.find("there are no files") != std::string::npos);
  write(fmt::format("- {{name: rows, path: {}, splits: [{{name: none, keys: 9000-9999}}]}}\n",
                    rows.string()) +
        more);
  said = reload();
  CHECK_MESSAGE(said.find("nothing changes: dataset rows:none: ") == 0, said);
  if (has_workers) is_as_before();
  // batchflowctl says so by its exit code.
  const std::string ctl = fmt::format("{} --service {} reload 2>&1", BATCHFLOWCTL, place.socket);
  CHECK(WEXITSTATUS(std::system((ctl + " >/dev/null").c_str())) == 1);

  // Several clients that ask at once all get the answer.
  write(fmt::format("- {{name: rows, path: {}}}\n", rows.string()) + more);
  std::vector<std::string> told(4);
  std::vector<std::thread> ask;
  for (std::string& one : told) ask.emplace_back([&] { one = reload(); });
  for (std::thread& one : ask) one.join();
  int changed = 0;
  for (const std::string& one : told) {
    if (one.find("dataset more comes") != std::string::npos) ++changed;
    CHECK_MESSAGE(
        (one.find("dataset more comes") != std::string::npos || one.find("nothing changes") == 0),
        one);
  }
  CHECK(changed >= 1);
  CHECK(place.job("rows").wrong == "");
  CHECK(place.job("more").wrong == "");  // at once: it is open when that is said
  CHECK(WEXITSTATUS(std::system((ctl + " >/dev/null").c_str())) == 0);
}

TEST_CASE("a job goes on when its dataset is removed, to its end, also with fewer workers") {
  Place place;
  Daemon daemon(place.arguments, place.socket);
  std::atomic<std::uint64_t> batches{0};
  Handed handed;
  std::thread job([&] {
    JobPlan plan;
    plan.service = place.socket;
    plan.epochs = 4;
    plan.pause_us = 2000;
    plan.count = &batches;
    handed = run_job(plan);
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (batches < 20 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  place.write("[more]", "workers: 1\n");
  ::kill(daemon.process(), SIGHUP);
  job.join();
  CHECK(handed.wrong == "");
  REQUIRE(handed.epochs.size() == 4);
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, 2000));
}

TEST_CASE("less memory and more is at once the bound of all that is kept") {
  constexpr Bytes kMib = Bytes{1} << 20;
  Place place;
  write_rows(place.folder.path() / "rows" / "rows.npy", 3000, 8192);  // 188 MiB
  place.write("[rows]", "engine: {block_bytes: 1mib}\n");
  Daemon daemon(place.arguments, place.socket);
  const auto reload = [&](const std::string& memory) {
    place.memory = memory;
    place.write("[rows]", "engine: {block_bytes: 1mib}\n");
    const auto answer = command(place.socket, "reload");
    return answer.value("text", "") + answer.value("message", "");
  };
  const auto job = [&] {
    JobPlan plan;
    plan.service = place.socket;
    plan.width = 8192;
    plan.epochs = 2;
    const Handed handed = run_job(plan);
    CHECK(handed.wrong == "");
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, 3000));
    const auto status = command(place.socket, "status");
    CHECK(status.at("used_bytes") <= status.at("cache_bytes"));
    return std::pair{status.at("cache_bytes").get<Bytes>(), status.at("used_bytes").get<Bytes>()};
  };
  const auto before = job();
  // Less the service's own 64, 128 of staging, and 64 of scratch, of which 16 are its own.
  CHECK(before.first == 272 * kMib);
  CHECK(before.second > 188 * kMib);
  CHECK(reload("336mib").find("memory") == 0);
  CHECK(job().first == 96 * kMib);
  // Staging and scratch stay as they were made.
  CHECK(reload("319mib").find("nothing changes: memory: 319 MiB are too little: 128 MiB go to "
                              "staging, 48 MiB to the workers' scratch and 64 MiB to the service "
                              "itself, and at least 80 MiB must be left for batches; give it 320 "
                              "MiB or more") == 0);
  CHECK(reload("640mib").find("memory") == 0);
  const auto after = job();
  CHECK(after.first == 400 * kMib);
  CHECK(after.second > 188 * kMib);
}

}  // namespace
}  // namespace batchflow::test::reload_test
