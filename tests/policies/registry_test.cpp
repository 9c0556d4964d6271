// What a registered policy needs: a file, a line, a name that a command line can carry, and
// parameters that hold at both ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/base/config_value.h"
#include "policies/description.h"
#include "tests/policies/tested_policies.h"
#include "tests/source_dir.h"

namespace batchflow::test::registry_test {

namespace {

// The file of policies/ that holds the policy, by the rule <kind>_<name>.cpp; variants of a policy
// may share its file (s3fifo-warm, belady-bypass).
bool has_a_file(const engine::PolicyEntry& entry) {
  std::string name(entry.name);
  for (;;) {
    std::string stem = std::string(engine::policy_kind_name(entry.kind())) + "_" + name + ".cpp";
    std::replace(stem.begin(), stem.end(), '-', '_');
    if (std::filesystem::exists(source_dir() / "policies" / stem)) {
      return true;
    }
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos) return false;
    name.resize(dash);
  }
}

void make_any(const engine::PolicyChoice& choice) {
  switch (choice.entry->kind()) {
    case engine::PolicyKind::allocation:
      CHECK(make<engine::MakeAllocation>(choice) != nullptr);
      break;
    case engine::PolicyKind::eviction:
      CHECK(choice.make_eviction(100, 10, Random(1)) != nullptr);
      break;
    case engine::PolicyKind::selection:
      CHECK(make<engine::MakeSelection>(choice) != nullptr);
      break;
    case engine::PolicyKind::dispatch:
      CHECK(make<engine::MakeDispatch>(choice) != nullptr);
      break;
    case engine::PolicyKind::scaling:
      CHECK(make<engine::MakeScaling>(choice) != nullptr);
      break;
    case engine::PolicyKind::rehearsal:
      CHECK(choice.make_rehearsal(10) != nullptr);
      break;
    case engine::PolicyKind::mixture:
      CHECK(choice.make_mixture(10) != nullptr);
      break;
  }
}

}  // namespace

TEST_CASE("every policy is a file of its kind") {
  for (const engine::PolicyEntry* entry : policies::policy_list().entries()) {
    CAPTURE(entry->name);
    CHECK(has_a_file(*entry));
  }
}

TEST_CASE("help begins with a sentence that fits a line of the list, and fits a terminal") {
  const auto check_lines = [](std::string_view help) {
    CHECK(policies::first_line(help).size() <= 60);
    CHECK(policies::first_line(help).ends_with('.'));
    CHECK(help.ends_with('.'));
    for (std::size_t begin = 0; begin < help.size();) {
      const std::size_t length = policies::first_line(help.substr(begin)).size();
      CHECK(length <= 76);
      begin += length + 1;
    }
  };
  for (const engine::PolicyEntry* entry : tested_policies().entries()) {
    CAPTURE(entry->name);
    check_lines(entry->help);
  }
  for (const engine::Preset* preset : engine::presets()) {
    CAPTURE(preset->name);
    check_lines(preset->help);
  }
}

TEST_CASE("every policy is made with its defaults and with each parameter at both ends") {
  for (const engine::PolicyEntry* entry : tested_policies().entries()) {
    for (const engine::PolicyChoice& choice : variants(*entry)) {
      CAPTURE(choice.text());
      make_any(choice);
      // The printed form of a choice chooses it again.
      const engine::PolicyChoice again = tested_policies().choose(entry->kind(), choice.text());
      CHECK(again.text() == choice.text());
    }
  }
}

TEST_CASE("what lies beyond the ends of a parameter is refused") {
  for (const engine::PolicyEntry* entry : tested_policies().entries()) {
    Parameters parameters(entry->parameters);
    for (const Parameter& parameter : entry->parameters) {
      CAPTURE(entry->name);
      CAPTURE(parameter.name);
      if (parameter.type == Parameter::Type::text) continue;
      CHECK_THROWS_AS(parameters.set(parameter.name, "nonsense"), ConfigError);
      if (parameter.type == Parameter::Type::flag) continue;
      CHECK_THROWS_AS(parameters.set(parameter.name, std::to_string(parameter.least - 1)),
                      ConfigError);
      CHECK_THROWS_AS(parameters.set(parameter.name, "nan"), ConfigError);
    }
    CHECK_THROWS_AS(parameters.set("no-such-parameter", "1"), ConfigError);
  }
}

TEST_CASE("all kinds have policies, and each is found by kind and name") {
  for (std::size_t kind = 0; kind < engine::kPolicyKinds; ++kind) {
    CHECK(!policies::policy_list().of_kind(static_cast<engine::PolicyKind>(kind)).empty());
  }
  for (const engine::PolicyEntry* entry : policies::policy_list().entries()) {
    const std::string text =
        std::string(engine::policy_kind_name(entry->kind())) + "=" + std::string(entry->name);
    CHECK(policies::policy_list().choose(text).entry == entry);
    CHECK_THROWS_AS(policies::policy_list().choose(text + ":"), ConfigError);
  }
}

}  // namespace batchflow::test::registry_test
