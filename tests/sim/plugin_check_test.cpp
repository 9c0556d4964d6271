// What `batchflow-sim check` says of plugins that do what no plugin should, and of one that does
// not.
#include <doctest/doctest.h>

#include <map>

#include "nlohmann/json.hpp"
#include "tests/sim/program.h"
#include "tests/source_dir.h"

namespace batchflow::test::plugin_check_test {
namespace {

std::string plugin_named(const std::string& name) {
  return std::string(BATCHFLOW_TEST_PLUGINS) + "/" + name + ".so";
}
// The rule of eviction is broken by none of them but for what its name says.
Outcome check(const std::string& name, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"check", plugin_named(name)};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

}  // namespace

TEST_CASE("a plugin that misbehaves while it decides does not pass, and hears why") {
  const std::map<std::string, std::string> wrong = {
      {"crashes", "loading      FAILED  it crashed while it was loaded"},
      {"throws_later", "an exception left it"},
      {"answers_rubbish", "a victim was refused: "},
      {"crashes_later", "it crashes (signal 11"},
      {"opens_file", "it opens a file"},
      {"reads_clock", "it reads a clock"},
      {"forks", "it starts a process or a thread"},
      {"prints", "it prints or writes to a file"},
      {"sleeps", "it sleeps"},
      {"starts_thread_later", "it "},
      {"leaks", "bytes left behind each time that it is used"},
      // It searches a list for each item that leaves.
      {"plain", "ns a decision, and 5000 are the most"},
      {"uses_addresses", "answers the same questions otherwise in another process"},
      {"peeks", "it uses next uses, and has not declared it"}};
  for (const auto& [name, why] : wrong) {
    CAPTURE(name);
    const Outcome outcome = check(name);
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(outcome.out.find(why) != std::string::npos, outcome.out);
    CHECK(outcome.out.ends_with("It did not pass.\n"));
  }
  CHECK(check("no_footer").code == 2);
  CHECK(run({"check", "/nowhere.so"}).code == 2);
}

TEST_SUITE("long") {
  TEST_CASE("a plugin that does not come to an end is ended") {
    const Outcome outcome = check("hangs_later");
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(outcome.out.find("it does not come to an end") != std::string::npos, outcome.out);
  }
}

TEST_CASE("a good plugin passes, and gets a certificate that holds for it alone") {
  const Folder folder;
  const std::string key = folder.name("key.pem"), plugin = folder.name("several.so");
  std::filesystem::copy_file(plugin_named("several"), plugin);
  REQUIRE(
      std::system(("openssl genpkey -algorithm ed25519 -out " + key + " 2>" + folder.name("log"))
                      .c_str()) == 0);
  const Outcome outcome = run({"check", plugin, "--key", key, "--most-worse", "50", "--json"});
  CHECK_MESSAGE(outcome.code == 0, outcome.out, outcome.err);
  const auto verdict = nlohmann::json::parse(outcome.out);
  CHECK(verdict["verdict"] == "passed");
  CHECK(verdict["plugin"]["name"] == "several");
  CHECK(verdict["findings"].size() == 5);
  // The preset is measured, too, and each policy of the plugin.
  CHECK(verdict["scenarios"][0]["candidates"].size() == 4);
  CHECK(content(plugin + ".certificate").starts_with(verdict.dump(2).substr(0, 40)));
  // A policy that evicts by age alone is worse than what a service has.
  const Outcome worse = run({"check", plugin});
  CHECK(worse.code == 1);
  CHECK(worse.out.find("points against preset=default, and +1.0 are the most") !=
        std::string::npos);
  CHECK(run({"check", plugin, "--key", folder.name("none.pem")}).code == 2);
}

TEST_CASE("a good plugin of policies that jobs ask for passes, and is measured in no scenario") {
  for (const char* name : {"mixture_hardest_half", "rehearsal_newest"}) {
    CAPTURE(name);
    const Outcome outcome = run({"check", plugin_named(name), "--json"});
    CHECK_MESSAGE(outcome.code == 0, outcome.out, outcome.err);
    const auto verdict = nlohmann::json::parse(outcome.out);
    CHECK(verdict["findings"].size() == 5);
    CHECK(verdict["scenarios"][0]["candidates"].size() == 1);
  }
  CHECK(check("mixture_throws").out.find("not on a Sunday") != std::string::npos);
}

TEST_CASE("plugins are used by every command that knows policies") {
  const std::string plugin = plugin_named("several");
  Outcome outcome = run({"policy", "show", "counting", "--plugin", plugin});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("hits that spare an item once") != std::string::npos);
  outcome = run({"cache", kSmall, "--plugin", plugin, "--policy", "lru,counting", "--size", "10%"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("counting@") != std::string::npos);
  outcome = run({"cache", kSmall, "--plugin", plugin_named("throws_later"), "--policy", "mischief",
                 "--size", "10%"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("an exception left it") != std::string::npos);
  outcome = run({"run", "toy-jobs", "--plugin", plugin, "--policy", "preset=several"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  check_refused({"policy", "list", "--plugin", "/nowhere.so"}, "/nowhere.so: No such file");
}

TEST_CASE("a new plugin of each kind is written, and none over another") {
  const Folder folder;
  const std::filesystem::path here = std::filesystem::current_path();
  for (const char* kind :
       {"allocation", "eviction", "selection", "dispatch", "scaling", "rehearsal", "mixture"}) {
    const std::string name = std::string("my-") + kind;
    const auto inside = [&] { REQUIRE(chdir(folder.path().c_str()) == 0); };
    const Outcome outcome = run({"policy", "new", name, "--kind", kind}, inside);
    CHECK(outcome.code == 0);
    CHECK(outcome.out.find("batchflow-sim check " + name + "/build/" + name + ".so") !=
          std::string::npos);
    const std::string source = content(folder.path() / name / (name + ".cpp"));
    CHECK(source.find("BATCHFLOW_POLICY_PLUGIN(\"" + name + "\"") != std::string::npos);
    CHECK(run({"policy", "new", name}, inside).code == 2);
  }
  CHECK(run({"policy", "new", "No Name"}).code == 2);
  CHECK(run({"policy", "new", "x", "--kind", "nonsense"}).code == 2);
}

}  // namespace batchflow::test::plugin_check_test
