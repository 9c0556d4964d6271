#include "tools/bench/validation/case.h"

#include "programs/input/find_config.h"
#include "programs/input/scenario.h"
#include "programs/input/yaml.h"

namespace batchflow::validation {

namespace {

double signed_number(config::ConfigSection& section, std::string_view key, double fallback) {
  return section.number(key, fallback, -1e300);
}

Row read_row(config::ConfigSection& section, const Row& defaults) {
  Row row = defaults;
  section.require("name", "the name of the row in the table");
  row.name = section.text("name", "");
  row.measure = section.text("measure", defaults.measure);
  if (row.measure.empty()) section.refuse("measure", "there is none", "write aggregate.hit_ratio");
  row.set = section.texts("set");
  row.minus = section.texts("minus");
  row.over = section.texts("over");
  row.inverse = section.flag("inverse", defaults.inverse);
  row.factor = signed_number(section, "factor", defaults.factor);
  section.require("published", "the figure to compare with, or [least, most]");
  const auto range = section.texts("published");
  const auto number = [&](const std::string& text) {
    const char* end = text.c_str() + text.size();
    char* stopped = nullptr;
    const double value = std::strtod(text.c_str(), &stopped);
    if (stopped != end || text.empty())
      section.refuse("published", "'" + text + "' is not a number",
                     "write a number, or two in a list");
    return value;
  };
  if (range.empty() || range.size() > 2)
    section.refuse("published", "neither a number nor a range", "write 0.5, or [0.4, 0.6]");
  row.published = number(range.front());
  row.published_most = number(range.back());
  row.role =
      section.choice("role", {"calibrated", "predicted", "derived", "reported"}, defaults.role);
  row.accept = section.number("accept", defaults.accept, 0, 1000);
  return row;
}

}  // namespace

Case read_case(const std::string& path) {
  Case all;
  const config::ConfigNode tree = input::read_yaml_file(path);
  config::read_config(tree, [&](config::ConfigSection& section) {
    const std::string kind = section.text("kind", "validation");
    if (kind != "validation") section.refuse("kind", "this is a " + kind, "write kind: validation");
    section.require("title", "the name of the case in the table");
    all.title = section.text("title", "");
    all.about = section.text("about", "");
    all.unit = section.text("unit", "");
    all.mean_accept = section.number("mean_accept", 0, 0, 1000);
    all.seeds = static_cast<std::uint64_t>(section.integer("seeds", 1, 1, 1000));
    section.has("scenario");
    Row defaults;
    defaults.measure = section.text("measure", "");
    defaults.accept = section.number("accept", 0, 0, 1000);
    defaults.role =
        section.choice("role", {"calibrated", "predicted", "derived", "reported"}, defaults.role);
    defaults.inverse = section.flag("inverse", false);
    defaults.factor = signed_number(section, "factor", 1);
    section.sections(
        "rows", [&](config::ConfigSection& row) { all.rows.push_back(read_row(row, defaults)); });
    if (all.rows.empty()) section.refuse("rows", "there are none", "write at least one");
  });
  const config::ConfigNode* scenario = tree.find("scenario");
  if (scenario == nullptr) throw ConfigError(path + ": there is no scenario; write one");
  if (scenario->kind == config::ConfigNode::Kind::scalar) {
    all.scenario = input::load_scenario(input::find_config(scenario->scalar, "scenarios", path));
  } else {
    all.scenario = *scenario;
    input::resolve_names(all.scenario, path);
  }
  return all;
}

}  // namespace batchflow::validation
