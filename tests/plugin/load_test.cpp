// Plugins are loaded as they promise, or not at all.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <map>

#include "core/base/config_value.h"
#include "core/engine/engine_config.h"
#include "policies/registry.h"
#include "tests/plugin/plugins_test.h"

namespace batchflow::test::plugin_load_test {
namespace {

std::string why_not(const std::string& name) {
  try {
    plugin::load(plugin_path(name));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("what a plugin may not do is found in a child, and nothing is loaded") {
  const std::size_t policies = policies::policy_list().entries().size();
  const std::size_t presets = engine::presets().size();
  const std::map<std::string, std::string> wrong = {
      {"throws", "while it was loaded"},  // it threw, or it crashed where nothing may catch that
      {"crashes", "crashed while it was loaded"},
      {"exits", "it ended the process while it was loaded"},
      {"starts_thread", "it starts threads"},
      {"changes_handler", "it changes the handler of signal 10"},
      {"changes_locale", "it changes the locale from C to C.UTF-8"},
      {"changes_folder", "it changes the current folder"},
      {"fast_math", "it changes how numbers are rounded"},
      {"misreports_version", "it answers with version 9 of the interface, which was not offered"},
      {"answers_null", "it says that it cannot be used with this program"},
      {"breaks_promise",
       "its footer promises dispatch=mischief, eviction=mischief, and it brings "
       "eviction=mischief"},
      {"other_version", "it is made for versions 7 to 9 of the interface"},
      {"other_platform", "it is built for linux-pdp11"},
      {"cut_table", "it has no table of eviction"},
      {"no_victim", "it has no function victim"},
      {"bad_name", "'My Policy' is no name of a policy"},
      {"bad_parameter", "parameter 'depth' cannot be 'much'"},
      {"bad_kind", "there is no kind of policy 77"},
      {"fails_to_make", "it could not be made"},
      {"taken_name", "there is a built-in eviction policy 'lru'"},
      {"no_footer", "it has no footer"}};
  for (const auto& [name, why] : wrong) {
    CAPTURE(name);
    const std::string said = why_not(name);
    CHECK_MESSAGE(said.find(why) != std::string::npos, said);
    CHECK(said.find(name + ".so: ") != std::string::npos);
  }
  CHECK(policies::policy_list().entries().size() == policies);
  CHECK(engine::presets().size() == presets);
  CHECK(plugin::loaded().empty());
  struct sigaction handler;
  sigaction(SIGUSR1, nullptr, &handler);
  CHECK((handler.sa_handler == SIG_DFL));
}

TEST_SUITE("long") {
  TEST_CASE("a plugin that does not come back is ended") {
    CHECK(why_not("hangs").find("did not come to an end within 10 s") != std::string::npos);
  }
}

TEST_CASE("what a plugin brings stands in the lists, once") {
  const std::size_t policies = policies::policy_list().entries().size();
  const plugin::Plugin& several = plugin::load(plugin_path("several"));
  CHECK(&plugin::load(plugin_path("several")) == &several);
  CHECK(policies::policy_list().entries().size() == policies + 2);
  CHECK(plugin::loaded().size() == 1);
  const auto choose = [](std::string_view text) { return policies::policy_list().choose(text); };
  const std::string from = several.file().short_hash();
  const engine::PolicyChoice counting = choose("eviction=counting:spare=7");
  CHECK(counting.text() == "counting@" + from + ":spare=7");
  CHECK(counting.entry->parameters[0].help == "hits that spare an item once");
  CHECK(counting.parameters.integer("spare") == 7);
  CHECK(choose("eviction=" + counting.text()).entry == counting.entry);
  CHECK_THROWS_WITH_AS(choose("eviction=counting@123456789012"),
                       doctest::Contains("is of a plugin that is not loaded; give its file by "
                                         "--plugin"),
                       ConfigError);
  CHECK_THROWS_AS(choose("eviction=counting:spare=0"), ConfigError);
  engine::EngineConfig config;
  engine::apply_preset(config, "several");
  CHECK(config.policies.dispatch == "oldest-turn");
  CHECK(choose("dispatch=" + config.policies.dispatch).entry->from == from);
}

TEST_CASE("a file that is built anew while it is loaded changes nothing") {
  const std::filesystem::path copy =
      std::filesystem::temp_directory_path() / "batchflow-plugin-copy.so";
  std::filesystem::copy_file(plugin_path("dispatch_round_robin"), copy,
                             std::filesystem::copy_options::overwrite_existing);
  const plugin::Plugin plugin(std::make_shared<const plugin::PluginFile>(copy));
  {
    std::ofstream over(copy, std::ios::binary | std::ios::trunc);
    over << std::string(100'000, 'x');
  }
  const engine::PolicyEntry& entry = *plugin.policies().at(0);
  const auto policy =
      engine::PolicyChoice{&entry, Parameters(entry.parameters)}.make<engine::MakeDispatch>(
          Random(1));
  engine::WorkCandidate one{};
  CHECK(policy->next({Instant{}, {&one, 1}}) == 0);
  std::filesystem::remove(copy);
}

TEST_CASE("plugins are found by name in the search path") {
  setenv("BATCHFLOW_PLUGIN_PATH", ("/nowhere:" BATCHFLOW_TEST_PLUGINS ":"), 1);
  CHECK(plugin::find_file("several") == plugin_path("several"));
  CHECK(plugin::find_file("./several") == "./several");
  CHECK_THROWS_WITH_AS(plugin::find_file("severa"), doctest::Contains("several.so"), ConfigError);
  bool found = false;
  for (const plugin::PluginFile& file : plugin::found_files()) {
    CHECK(file.footer().name != "");
    found |= file.footer().name == "several";
  }
  CHECK(found);
  unsetenv("BATCHFLOW_PLUGIN_PATH");
}

}  // namespace batchflow::test::plugin_load_test
