#include "policies/plugin/new_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "core/base/config_value.h"

namespace batchflow::plugin {
namespace {

namespace fs = std::filesystem;

// What the examples are called.
constexpr std::string_view kNames[] = {"by-jobs",      "lru-protect", "most-shared", "most-wanted",
                                       "follow-stall", "newest",      "hardest-half"};

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

// my-policy: MyPolicy
std::string class_name(std::string_view name) {
  std::string result;
  bool upper = true;
  for (const char one : name) {
    if (one == '-') {
      upper = true;
      continue;
    }
    result += upper && one >= 'a' ? static_cast<char>(one - 'a' + 'A') : one;
    upper = false;
  }
  return result;
}

std::string identifier(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

// The example under another name, as a plugin.
std::string source_of(std::string_view name, engine::PolicyKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  const std::string_view example = kNames[index];
  const std::string entry = fmt::format("{}_{}", engine::policy_kind_name(kind), identifier(name));
  std::string text = kTemplates[index];
  replace_all(text, identifier(fmt::format("{}_{}", engine::policy_kind_name(kind), example)),
              entry);
  replace_all(text, fmt::format("\"{}\"", example), fmt::format("\"{}\"", name));
  replace_all(text, class_name(example), class_name(name));
  const std::size_t include = text.find("#include \"core/");
  text.insert(include, "// Say above what this policy does.\n");
  const std::size_t last = text.rfind("#include \"policies/");
  text.insert(text.find('\n', last) + 1, "#include \"policies/plugin/plugin.h\"\n");
  text += fmt::format("\nBATCHFLOW_POLICY_PLUGIN(\"{}\", \"0.1.0\", batchflow::policies::{})\n",
                      name, entry);
  return text;
}

void check_name(std::string_view name) {
  const bool good =
      !name.empty() && name.size() <= 40 && name[0] >= 'a' && name[0] <= 'z' &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
  if (!good) {
    throw ConfigError(
        fmt::format("a policy cannot be called '{}'; write small letters, digits and hyphens, a "
                    "letter first, at most 40",
                    name.substr(0, 60)));
  }
}

}  // namespace

std::vector<NewFile> new_plugin(std::string_view name, engine::PolicyKind kind) {
  check_name(name);
  const fs::path folder(name);
  return {{folder / fmt::format("{}.cpp", name), source_of(name, kind)},
          {folder / "CMakeLists.txt",
           fmt::format("cmake_minimum_required(VERSION 3.20)\n"
                       "project({0} LANGUAGES CXX)\n"
                       "if(NOT CMAKE_BUILD_TYPE)\n"
                       "  set(CMAKE_BUILD_TYPE Release)\n"
                       "endif()\n"
                       "find_package(BatchFlow REQUIRED)\n"
                       "batchflow_add_policy_plugin({0} {0}.cpp)\n"
                       "\n"
                       "# What decides whether it may be shipped.\n"
                       "enable_testing()\n"
                       "find_program(BATCHFLOW_SIM batchflow-sim HINTS ENV BATCHFLOW_BIN)\n"
                       "if(BATCHFLOW_SIM)\n"
                       "  add_test(NAME check COMMAND ${{BATCHFLOW_SIM}} check "
                       "$<TARGET_FILE:{0}>)\n"
                       "endif()\n",
                       name)},
          {folder / "README.md",
           fmt::format("# {0}\n\n"
                       "A policy of the kind {1} for BatchFlow, as a plugin.\n\n"
                       "```sh\n{2}```\n",
                       name, engine::policy_kind_name(kind), next_commands(name, kind))}};
}

std::string write_new_plugin(std::string_view name, engine::PolicyKind kind) {
  const std::vector<NewFile> files = new_plugin(name, kind);
  const fs::path folder = files.front().path.parent_path();
  std::error_code failed;
  if (fs::exists(folder, failed))
    throw ConfigError(fmt::format("{} is there already; choose another name", folder.string()));
  fs::create_directory(folder, failed);
  for (const NewFile& file : files) {
    std::ofstream out(file.path);
    out << file.text;
    out.close();
    if (!out) throw ConfigError(fmt::format("{} cannot be written", file.path.string()));
  }
  return next_commands(name, kind);
}

fs::path sdk_prefix() {
  std::error_code failed;
  const fs::path bin = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path built = bin.parent_path() / "sdk";
  return fs::is_directory(built, failed) ? built : bin.parent_path();
}

std::string next_commands(std::string_view name, engine::PolicyKind kind) {
  std::string text = fmt::format(
      "cmake -S {0} -B {0}/build -DCMAKE_PREFIX_PATH={1}\n"
      "cmake --build {0}/build\n"
      "batchflow-sim check {0}/build/{0}.so\n",
      name, sdk_prefix().string());
  if (kind == engine::PolicyKind::eviction) {
    text += fmt::format(
        "batchflow-sim cache 'gen:perm,n=10000,epochs=3,jobs=2' --plugin {0}/build/{0}.so --policy "
        "lru,{0} --size 10%\n",
        name);
  } else if (engine::is_asked_for_by_jobs(kind)) {
    text += fmt::format("batchflow-sim policy show {0} --plugin {0}/build/{0}.so\n", name);
  } else {
    text += fmt::format(
        "batchflow-sim run four-jobs --plugin {0}/build/{0}.so --policy default,{1}={0}\n", name,
        engine::policy_kind_name(kind));
  }
  return text;
}

}  // namespace batchflow::plugin
