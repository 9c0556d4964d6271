// Overlays: what they say, the overlays that are shipped, and what is refused and where.
#include "programs/input/overlay_model.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/config_value.h"
#include "programs/input/yaml.h"
#include "tests/config_error.h"
#include "tests/source_dir.h"

namespace batchflow::test::overlay_test {

namespace {

input::OverlayModel read(const std::string& yaml) {
  return input::read_overlay(input::parse_yaml(yaml, "o.yaml"));
}

std::string refusal(const std::string& yaml) {
  return config_error([&] { read(yaml); }, "nothing");
}

const std::string kRest = "{name: rest, samples_per_s: 10, dataset: {samples: 9, bytes: 1kb}";

// One class, with `more` lines of the overlay.
std::string with(const std::string& more) {
  return "classes:\n- " + kRest + more + "}\n";
}

}  // namespace

TEST_CASE("an overlay says what jobs are taken to train on, and what it leaves out is usual") {
  const input::OverlayModel overlay = read(
      "kind: overlay\nname: mine\nabout: a test\nbusy: 80%\nreuse: 25%\npopularity: 0.5\n"
      "same_pipeline: 10%\nclasses:\n"
      "- name: images\n  share: 3\n"
      "  when: {gpus_least: 2, gpus_most: 4, lasts_least: 1min, lasts_most: 2h, users: [ann],\n"
      "         names: [train, eval]}\n"
      "  dataset: {count: 7, samples: 100, bytes: 10kb, samples_jitter: 0.5}\n"
      "  steps: [{name: crop, random: true, cost: 1ms}]\n"
      "  samples_per_s: 50\n  speed_jitter: 0.25\n  cost_jitter: 0.125\n- " +
      kRest + "}\n");
  CHECK(overlay.name == "mine");
  CHECK(overlay.about == "a test");
  CHECK(overlay.busy == 0.8);
  CHECK(overlay.reuse == 0.25);
  CHECK(overlay.popularity == 0.5);
  CHECK(overlay.same_pipeline == 0.1);
  REQUIRE(overlay.classes.size() == 2);
  const input::OverlayClass& images = overlay.classes[0];
  CHECK(images.name == "images");
  CHECK(images.share == 3);
  CHECK(images.gpus_least == 2);
  CHECK(images.gpus_most == 4);
  CHECK(images.lasts_least == std::chrono::minutes(1));
  CHECK(images.lasts_most == std::chrono::hours(2));
  CHECK(images.users == std::vector<std::string>{"ann"});
  CHECK(images.names == std::vector<std::string>{"train", "eval"});
  CHECK(images.datasets == 7);
  CHECK(images.dataset.samples == 100);
  CHECK(images.dataset.bytes == 10'000);
  CHECK(images.dataset_size.ratio == 0.5);
  CHECK(images.pipeline.steps.size() == 1);
  CHECK(images.pipeline.spread.ratio == 0.125);
  CHECK(images.samples_per_s == 50);
  CHECK(images.speed.ratio == 0.25);
  CHECK(!images.takes_all());
  CHECK(overlay.classes[1].takes_all());
  CHECK(overlay.classes[1].share == 1);
  CHECK(overlay.classes[1].datasets == 1);

  const input::OverlayModel usual = read(with(""));
  CHECK(usual.busy == 0.9);
  CHECK(usual.reuse == 0.7);
  CHECK(usual.popularity == 1);
  CHECK(usual.same_pipeline == 0.6);
}

TEST_CASE("every overlay that is shipped is read, says what it is, and takes every job") {
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "configs" / "overlays")) {
    CAPTURE(entry.path().string());
    const input::OverlayModel overlay =
        input::read_overlay(input::load_overlay(entry.path().string()));
    CHECK(overlay.name == entry.path().stem().string());
    CHECK(!overlay.about.empty());
    ++count;
  }
  CHECK(count == 3);
  CHECK(input::read_overlay(input::load_overlay("mixed")).name == "mixed");
}

TEST_CASE("the overlay of the documentation is one") {
  std::ifstream file(source_dir() / "docs" / "replay.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find("```yaml\n") + sizeof "```yaml";
  REQUIRE(begin < text.size());
  CHECK(refusal(text.substr(begin, text.find("```", begin) - begin)) == "nothing");
}

TEST_CASE("what cannot be right in an overlay is refused with its place and what to write") {
  CHECK(refusal(with("")) == "nothing");
  CHECK(refusal("kind: cluster\n" + with("")) ==
        "o.yaml:1: key 'kind': this is a cluster; name a file of kind: overlay");
  CHECK(refusal("busy: 0.5%\n" + with("")) ==
        "o.yaml:1: key 'busy': it is less than 1%; write more");
  CHECK(refusal("busy: 0.9\nreuse: 101%\n" + with("")).find("o.yaml:2: key 'reuse'") == 0);
  CHECK(refusal("popularity: 6\n" + with("")).find("o.yaml:1: key 'popularity'") == 0);
  CHECK(refusal("popularity: -1\n" + with("")).find("o.yaml:1: key 'popularity'") == 0);
  CHECK(refusal("same_pipeline: often\n" + with("")).find("o.yaml:1: key 'same_pipeline'") == 0);
  CHECK(refusal("resue: 10%\n" + with("")).find("did you mean 'reuse'?") != std::string::npos);
  CHECK(refusal("name: empty\n").find("key 'classes'") != std::string::npos);
  CHECK(refusal("classes:\n- {samples_per_s: 1, dataset: {samples: 9, bytes: 1}}\n")
            .find("o.yaml:2: key 'classes.0.name'") == 0);
  CHECK(refusal("classes:\n- {name: a, samples_per_s: 1}\n")
            .find("o.yaml:2: key 'classes.0.dataset'") == 0);
  CHECK(refusal("classes:\n- {name: a, dataset: {samples: 9, bytes: 1}}\n")
            .find("o.yaml:2: key 'classes.0.samples_per_s'") == 0);
  CHECK(refusal("classes:\n- {name: a, samples_per_s: 1, dataset: {bytes: 1}}\n")
            .find("o.yaml:2: key 'classes.0.dataset.samples'") == 0);
  CHECK(refusal(with(", share: 0")).find("o.yaml:2: key 'classes.0.share'") == 0);
  CHECK(refusal("classes:\n- {name: a, samples_per_s: 0, dataset: {samples: 9, bytes: 1}}\n")
            .find("o.yaml:2: key 'classes.0.samples_per_s'") == 0);
  CHECK(refusal("classes:\n- {name: a, samples_per_s: 1, dataset: {samples: 9, bytes: 1, "
                "count: 0}}\n")
            .find("o.yaml:2: key 'classes.0.dataset.count'") == 0);
  CHECK(refusal(with(", speed_jitter: -1")).find("o.yaml:2: key 'classes.0.speed_jitter'") == 0);
  CHECK(
      refusal(with(", when: {gpus_least: 4, gpus_most: 2}")) ==
      "o.yaml:2: key 'classes.0.when.gpus_most': it is less than gpus_least; write a greater one");
  CHECK(refusal(with(", when: {lasts_least: 2h, lasts_most: 1h}")) ==
        "o.yaml:2: key 'classes.0.when.lasts_most': it is less than lasts_least; write a longer "
        "one");
  CHECK(refusal(with(", when: {gpu_least: 4}")).find("did you mean 'gpus_least'?") !=
        std::string::npos);
  CHECK(refusal(with(", when: {gpus_least: 4}")) ==
        "o.yaml:2: key 'classes': jobs that fit no rule have no class; write one class without "
        "`when`");
  CHECK(refusal("classes:\n- " + kRest + "}\n- " + kRest + "}\n") ==
        "o.yaml:3: key 'classes.1.name': there are two 'rest'; write another name");
  CHECK_THROWS_WITH_AS(input::load_overlay("mixd"),
                       "no 'mixd' among the overlays; write 'mixed', or another of hp-search, "
                       "mixed, vision, or the path of a file",
                       ConfigError);
}

}  // namespace batchflow::test::overlay_test
