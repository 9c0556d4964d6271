// docs/policy-guide.md cannot drift: its examples are the files of docs/examples, letter by letter,
// which the suites compile and run, and it describes every kind.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/engine/policy_list.h"
#include "tests/source_dir.h"

namespace batchflow::test::guide_test {

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the guide's examples are those that are tested") {
  const std::filesystem::path docs = source_dir() / "docs";
  const std::string guide = text_of(docs / "policy-guide.md");
  std::set<std::string> kinds;
  for (const auto& entry : std::filesystem::directory_iterator(docs / "examples")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string stem = entry.path().stem().string();
    kinds.insert(stem.substr(0, stem.find('_')));
    CAPTURE(entry.path().filename().string());
    CHECK(guide.find("```cpp\n" + text_of(entry.path()) + "```\n") != std::string::npos);
    CHECK(guide.find("POLICY(" + stem + ")") != std::string::npos);
  }
  CHECK(kinds.size() == engine::kPolicyKinds);
}

TEST_CASE("the guide speaks of every kind") {
  const std::string guide = text_of(source_dir() / "docs" / "policy-guide.md");
  for (std::size_t kind = 0; kind < engine::kPolicyKinds; ++kind) {
    const std::string name(engine::policy_kind_name(static_cast<engine::PolicyKind>(kind)));
    CAPTURE(name);
    CHECK(guide.find("### " + name) != std::string::npos);
  }
}

}  // namespace batchflow::test::guide_test
