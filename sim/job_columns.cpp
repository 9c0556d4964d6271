#include "sim/job_columns.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "programs/config/config.h"
#include "programs/input/yaml.h"

namespace batchflow::sim {

namespace {

using traces::JobColumns;

struct NamedUnit {
  std::string_view name;
  JobColumns::Unit unit;
};
constexpr NamedUnit kUnits[] = {{"s", {9, 1}},    {"ms", {6, 1}},   {"us", {3, 1}},
                                {"ns", {0, 1}},   {"min", {9, 60}}, {"h", {9, 3600}},
                                {"d", {9, 86400}}};

JobColumns::Unit read_unit(config::ConfigSection& section) {
  std::vector<std::string_view> names;
  for (const NamedUnit& one : kUnits) names.push_back(one.name);
  return kUnits[section.one_of("unit", names, 0)].unit;
}

char read_delimiter(config::ConfigSection& section) {
  const std::string text = section.text("delimiter", ",");
  if (text == "tab") return '\t';
  if (text.size() != 1 || text == "\"")
    section.refuse("delimiter", fmt::format("'{}' is not one sign", text),
                   "write ',', ';', '|' or tab");
  return text.front();
}

// Statuses as BatchFlow's CSV names them.
void read_words(config::ConfigSection& section, const config::ConfigNode& node,
                JobColumns& columns) {
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < traces::kJobStatuses; ++i)
    known.push_back(name_of(static_cast<traces::JobStatus>(i)));
  const config::ConfigNode* words = node.find("words");
  if (!section.has("words") || words->kind != config::ConfigNode::Kind::map) return;
  for (const config::ConfigEntry& entry : words->map) {
    if (std::find(known.begin(), known.end(), entry.value.scalar) == known.end()) {
      const std::string nearest = nearest_name(entry.value.scalar, known);
      throw ConfigError(fmt::format("{}: key 'state.words.{}': '{}' is no state; write {}",
                                    entry.value.source.text(), entry.key, entry.value.scalar,
                                    nearest.empty() ? "completed, failed or cancelled" : nearest));
    }
    columns.states.emplace_back(entry.key, entry.value.scalar);
  }
}

JobColumns::Column read_column(const std::string& key, const config::ConfigNode& node,
                               config::ConfigSection& section, JobColumns& columns) {
  JobColumns::Column column;
  column.key = key;
  column.where = node.source.text();
  if (node.kind != config::ConfigNode::Kind::map) {
    column.name = section.filled_text(key, "", "the name of a column of the log");
    return column;
  }
  const bool is_instant = key == "arrival" || key == "start" || key == "end";
  section.section(key, [&](config::ConfigSection& entry) {
    entry.require("column", "the name of a column of the log");
    column.name = entry.filled_text("column", "", "the name of a column of the log");
    if (is_instant || key == "duration") column.unit = read_unit(entry);
    if (is_instant) column.format = entry.text("format", "");
    if (key == "state") read_words(entry, node, columns);
  });
  return column;
}

}  // namespace

JobColumns read_job_columns(const std::string& path) {
  const config::ConfigNode tree = input::read_yaml_file(path);
  JobColumns columns;
  config::read_config(tree, [&](config::ConfigSection& section) {
    const std::string kind = section.text("kind", "columns");
    if (kind != "columns")
      section.refuse("kind", fmt::format("this is a {}", kind), "name a file of kind: columns");
    columns.delimiter = read_delimiter(section);
    columns.numbers = section.choice("times", {"utc", "local", "relative"}, columns.numbers);
    for (const std::string_view key : traces::job_column_keys()) {
      if (!section.has(key)) continue;
      columns.columns.push_back(read_column(std::string(key), *tree.find(key), section, columns));
    }
    section.require("gpus", "the column with the number of GPUs of a job");
    if (!section.has("arrival") && !section.has("start"))
      section.require("arrival", "the column with the time at which a job was submitted");
    if (!section.has("duration") && !section.has("end"))
      section.require("duration", "the column that says how long a job ran, or `end`");
  });
  return columns;
}

void add_columns_option(CLI::App& command, std::string& path) {
  command.add_option("--columns", path,
                     "A file that says which column of an unknown log means what, in place of a\n"
                     "format");
}

}  // namespace batchflow::sim
