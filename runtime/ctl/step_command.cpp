// batchflowctl step: writes a plugin step for users to begin with.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "programs/output/output.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/step_template.h"

namespace batchflow::ctl {
namespace {

namespace fs = std::filesystem;

// The folder of headers beside this program, where it is installed or was built.
fs::path header_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / ".." / "include").lexically_normal();
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// my-noise: class MyNoise, step "my-noise".
std::string class_name(const std::string& name) {
  std::string out;
  bool upper = true;
  for (const char c : name) {
    if (c == '-' || c == '_') {
      upper = true;
      continue;
    }
    out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  return out;
}

int new_step(const std::string& name) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (name.empty() || name.size() > 64 ||
      std::string(kLetters).find(name[0]) == std::string::npos ||
      name.find_first_not_of(std::string(kLetters) + "0123456789-_") != std::string::npos)
    throw ConfigError(
        fmt::format("a step cannot be called '{}'; write letters, digits, '-' and '_', a letter "
                    "first, at most 64",
                    name.substr(0, 80)));
  const std::string source = name + ".cpp", pipeline = name + ".yaml";
  for (const std::string& file : {source, pipeline}) {
    if (fs::exists(file))
      throw ConfigError(fmt::format("{} is there already; choose another name", file));
  }
  output::write_file_atomically(
      source,
      replaced(replaced(kStepTemplate, "\"noise\"", '"' + name + '"'), "Noise", class_name(name)));
  output::write_file_atomically(pipeline,
                                fmt::format("kind: pipeline\n"
                                            "name: {0}\n"
                                            "steps:\n"
                                            "  - {{step: decode}}\n"
                                            "  - {{step: random_resized_crop, size: 224}}\n"
                                            "  - {{plugin: {0}.so, reach: 20}}\n"
                                            "  - {{step: layout, order: nchw}}\n",
                                            name));
  output::write_file_atomically(
      "-", fmt::format("c++ -std=c++20 -O2 -shared -fPIC \"-I{}\" {} -o {}.so\n",
                       header_folder().string(), source, name));
  return 0;
}

}  // namespace

void add_step_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("step", "Pipeline steps that are plugins");
  command->require_subcommand(1);
  CLI::App* made = command->add_subcommand(
      "new", "Write NAME.cpp and NAME.yaml, and print the command that builds NAME.so");
  made->footer(
      "Example:\n"
      "  batchflowctl step new blur        writes blur.cpp and blur.yaml, and says how to build");
  const auto name = std::make_shared<std::string>();
  made->add_option("NAME", *name, "The name of the step, its files and its pipeline")->required();
  made->callback([&action, name] { action = [name] { return new_step(*name); }; });
}

}  // namespace batchflow::ctl
