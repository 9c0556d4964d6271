#include "runtime/prepare/plugin_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "runtime/step/open_steps.h"

namespace batchflow::prepare {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSideMost = 1 << 16;  // of a picture

// Looks beside the pipeline's own file, and where plugins are looked for.
fs::path find_plugin(config::ConfigSection& section) {
  const fs::path name = section.text("plugin", "");
  std::vector<fs::path> folders;
  if (const auto& file = section.source().file) folders.push_back(fs::path(*file).parent_path());
  const char* const path = std::getenv("BATCHFLOW_PLUGIN_PATH");
  for (std::string_view rest = path ? path : ""; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) folders.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(rest.size(), colon + 1));
  }
  for (const fs::path& folder : folders) {
    std::error_code error;
    if (fs::is_regular_file(folder / name, error)) return fs::absolute(folder / name);
  }
  section.refuse("plugin", fmt::format("no file '{}'", name.string()),
                 "write its path from this file's folder, or name its folder in "
                 "BATCHFLOW_PLUGIN_PATH");
}

// All that decides what a function makes, and in what processes.
std::string key_of(const std::string& bundle, const step::StepInterpreter& interpreter,
                   const batch::Field& input, const step::StepSettings& settings) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} [{}]\n{}", interpreter.program,
                     interpreter.package, settings.memory, settings.temporary_bytes,
                     settings.timeout.count(), settings.start_timeout.count(),
                     settings.worker.string(), input.name, static_cast<int>(input.type),
                     input.ragged, fmt::join(input.shape, " "), bundle);
}

// A function of a job, as batchflow.steps of the Python package writes it.
std::shared_ptr<step::StepPlugin> open_python(config::ConfigSection& section,
                                              const batch::Field& input,
                                              step::StepSettings settings) {
  for (const char* key : {"interpreter", "package", "at", "places"})
    section.require(key, "what batchflow.DataLoader writes");
  const std::string bundle = section.text("python", "");
  step::StepInterpreter interpreter{section.text("interpreter", ""), section.text("package", "")};
  const fs::path at = section.text("at", "");
  if (!fs::path(interpreter.program).is_absolute() || !fs::path(interpreter.package).is_absolute())
    section.refuse("interpreter", "it or the package is no absolute path",
                   "leave it to batchflow.DataLoader");
  // The user sets it in a service of the same user; what all its processes take together is charged
  // to the cache.
  // What was measured of it counts only where the user says nothing and the usual bound is less.
  const Bytes measured = section.bytes("memory_measured", 0);
  settings.memory = section.bytes("memory", std::max(settings.memory, measured),
                                  step::StepSettings::kMemoryLeast);
  if (settings.memory > step::StepSettings::kMemoryMost)
    section.refuse("memory", fmt::format("it asks for {} GiB", settings.memory >> 30),
                   fmt::format("write {} GiB at most", step::StepSettings::kMemoryMost >> 30));
  if (section.has("memory")) settings.temporary_bytes = settings.memory / 4;
  const std::shared_ptr<step::OpenSteps> others = std::move(settings.open);
  const auto open = [&] {
    return step::StepPlugin::open_python(bundle, at, {{"places", section.text("places", "")}},
                                         interpreter, input, settings);
  };
  try {
    return others ? others->find(key_of(bundle, interpreter, input, settings), open) : open();
  } catch (const step::StepError& error) {
    section.refuse("python", error.what(), "docs/python.md says what a function may be");
  }
}

Bytes bytes_most(const batch::Field& field) {
  return field.row_bytes() * field.rows_most();
}

}  // namespace

std::shared_ptr<step::StepPlugin> open_plugin(config::ConfigSection& section,
                                              const config::ConfigNode& written,
                                              const batch::Field& input,
                                              const step::StepSettings& settings) {
  if (section.has("python")) return open_python(section, input, settings);
  const fs::path file = find_plugin(section);
  step::StepPlugin::Parameters parameters;
  for (const config::ConfigEntry& entry : written.map) {
    if (entry.key == "plugin") continue;
    for (std::string& value : section.texts(entry.key))
      parameters.emplace_back(entry.key, std::move(value));
  }
  try {
    return step::StepPlugin::open(file, std::move(parameters), input, settings);
  } catch (const step::StepError& error) {
    section.refuse("plugin", error.what(), "docs/steps.md says how a plugin is written and built");
  }
}

std::optional<PictureByPlugin> picture_by(config::ConfigSection& section,
                                          const std::shared_ptr<step::StepPlugin>& plugin) {
  const batch::Field& made = plugin->declared().output;
  if (made.type != batch::ElementType::u8 || made.ragged || made.shape.size() != 3 ||
      made.shape[2] != kChannels)
    return std::nullopt;
  const std::uint64_t height = made.shape[0], width = made.shape[1];
  const bool as_given = height == 0 && width == 0;
  const bool one_size = height > 0 && width > 0 && height <= kSideMost && width <= kSideMost;
  if (!as_given && !one_size)
    section.refuse("plugin", fmt::format("it makes pictures of {} x {}", height, width),
                   "let it make one size, or 0 x 0: the size they have");
  return PictureByPlugin{plugin, {static_cast<int>(width), static_cast<int>(height)}};
}

void check_output(config::ConfigSection& section, const step::StepPlugin& plugin) {
  const batch::Field& made = plugin.declared().output;
  const batch::Field& given = plugin.source().input;
  if (const std::string problem = batch::BatchSpec{{made}}.problem(); !problem.empty())
    section.refuse("plugin", fmt::format("what it makes can be no field: {}", problem),
                   "change what it declares");
  if (!plugin.has_room(bytes_most(given), bytes_most(made)))
    section.refuse("plugin",
                   fmt::format("a sample has up to {} bytes, and becomes up to {}",
                               bytes_most(given), bytes_most(made)),
                   fmt::format("each may take a quarter of a process' {} MiB: give the steps "
                               "more ({})",
                               plugin.bytes_each() >> 20, plugin.source().memory_setting()));
}

}  // namespace batchflow::prepare
