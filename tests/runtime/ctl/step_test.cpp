// `batchflowctl step new`: the command that it prints builds the plugin that it writes.
#include "doctest/doctest.h"
#include "runtime/step/step_plugin.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::step_test {
namespace fs = std::filesystem;

TEST_CASE("a new step is built by the command that is printed") {
  const Folder place, streams;
  const fs::path here = fs::current_path();
  fs::current_path(place.path());
  const Outcome made = run_ctl({"step", "new", "my-grain"}, streams.path());
  CHECK(made.err == "");
  REQUIRE(made.code == 0);
  const int built = std::system(made.out.c_str());
  const Outcome again = run_ctl({"step", "new", "my-grain"}, streams.path());
  fs::current_path(here);
  CHECK(built == 0);
  CHECK(again.code == 2);
  CHECK(again.err.find("my-grain.cpp is there already; choose another name") != std::string::npos);
  CHECK(fs::exists(place / "my-grain.yaml"));

  const batch::Field picture{"image", batch::ElementType::u8, {0, 0, 3}, false};
  const auto plugin = step::StepPlugin::open(place / "my-grain.so", {{"reach", "3"}}, picture, {});
  CHECK(plugin->declared() == step::StepDeclaration{"my-grain", "1", true, picture});
  CHECK_THROWS_WITH(step::StepPlugin::open(place / "my-grain.so", {{"reach", "300"}}, picture, {}),
                    doctest::Contains("reach is '300'; write a whole number from 0 to 255"));
}

TEST_CASE("names that a step cannot have are refused") {
  const Folder streams;
  for (const char* name : {"", "3d", "a b", "a/b", "../a", "x.so", "-"}) {
    CAPTURE(name);
    const Outcome outcome = run_ctl({"step", "new", "--", name}, streams.path());
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("a step cannot be called") != std::string::npos);
  }
}

}  // namespace batchflow::test::step_test
