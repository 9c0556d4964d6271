#include "programs/input/overlay_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "programs/input/find_config.h"
#include "programs/input/yaml.h"

namespace batchflow::input {

namespace {

constexpr std::int64_t kDatasetsMost = 100'000;

void read_rule(config::ConfigSection& section, OverlayClass& overlay_class) {
  section.section("when", [&](config::ConfigSection& when) {
    overlay_class.gpus_least = when.number("gpus_least", 0);
    overlay_class.gpus_most = when.number("gpus_most", 0);
    if (overlay_class.gpus_most > 0 && overlay_class.gpus_most < overlay_class.gpus_least) {
      when.refuse("gpus_most", "it is less than gpus_least", "write a greater one");
    }
    overlay_class.lasts_least = when.duration("lasts_least", Duration(0), Duration(0));
    overlay_class.lasts_most = when.duration("lasts_most", Duration(0), Duration(0));
    if (overlay_class.lasts_most.count() > 0 &&
        overlay_class.lasts_most < overlay_class.lasts_least) {
      when.refuse("lasts_most", "it is less than lasts_least", "write a longer one");
    }
    overlay_class.users = when.texts("users");
    overlay_class.names = when.texts("names");
  });
}

OverlayClass read_class(config::ConfigSection& section) {
  OverlayClass overlay_class;
  section.require("name", "the prefix of the names of its datasets");
  overlay_class.name = section.text("name", "");
  overlay_class.share = section.number("share", overlay_class.share, 1e-9);
  read_rule(section, overlay_class);
  section.require("dataset", "samples and bytes of one of its datasets");
  section.section("dataset", [&](config::ConfigSection& entry) {
    overlay_class.datasets =
        static_cast<std::uint32_t>(entry.integer("count", 1, 1, kDatasetsMost));
    overlay_class.dataset_size = read_spread(entry, "samples");
    overlay_class.dataset = read_dataset(entry);
  });
  overlay_class.pipeline.name = overlay_class.name;
  overlay_class.pipeline.steps = read_steps(section);
  overlay_class.pipeline.spread = read_spread(section, "cost");
  section.require("samples_per_s", "the samples a second that one GPU trains on");
  overlay_class.samples_per_s = section.number("samples_per_s", 1, 1e-6, 1e9);
  overlay_class.speed = read_spread(section, "speed");
  return overlay_class;
}

}  // namespace

config::ConfigNode load_overlay(const std::string& name_or_path) {
  return read_yaml_file(find_config(name_or_path, "overlays"));
}

OverlayModel read_overlay(const config::ConfigNode& tree) {
  OverlayModel overlay;
  config::read_config(tree, [&](config::ConfigSection& section) {
    const std::string kind = section.text("kind", "overlay");
    if (kind != "overlay") {
      section.refuse("kind", fmt::format("this is a {}", kind), "name a file of kind: overlay");
    }
    overlay.name = section.text("name", "");
    overlay.about = section.text("about", "");
    const auto ratio = [&](const char* key, double fallback) {
      constexpr auto kWhole = static_cast<double>(Ratio::kWhole);
      const Ratio set{static_cast<decltype(Ratio::parts)>(std::llround(fallback * kWhole))};
      return static_cast<double>(section.ratio(key, set).parts) / kWhole;
    };
    overlay.busy = ratio("busy", overlay.busy);
    if (overlay.busy < 0.01) section.refuse("busy", "it is less than 1%", "write more");
    overlay.reuse = ratio("reuse", overlay.reuse);
    overlay.popularity = section.number("popularity", overlay.popularity, 0, 5);
    overlay.same_pipeline = ratio("same_pipeline", overlay.same_pipeline);
    section.require("classes", "a list of kinds of jobs, the last of them without `when`");
    section.sections("classes", [&](config::ConfigSection& entry) {
      overlay.classes.push_back(read_class(entry));
      const OverlayClass& last = overlay.classes.back();
      const auto same = [&](const OverlayClass& other) { return other.name == last.name; };
      if (std::count_if(overlay.classes.begin(), overlay.classes.end(), same) > 1) {
        entry.refuse("name", fmt::format("there are two '{}'", last.name), "write another name");
      }
    });
    const bool all =
        std::any_of(overlay.classes.begin(), overlay.classes.end(),
                    [](const OverlayClass& overlay_class) { return overlay_class.takes_all(); });
    if (!all) {
      section.refuse("classes", "jobs that fit no rule have no class",
                     "write one class without `when`");
    }
  });
  return overlay;
}

}  // namespace batchflow::input
