#include "sim/study_runs.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/base/config_value.h"
#include "policies/plugin/load.h"
#include "programs/output/terminal.h"
#include "sim/line_program.h"

namespace batchflow::sim {

namespace {

using Json = nlohmann::ordered_json;  // results go on as they came

constexpr std::chrono::seconds kToEnd{20};  // that a program may take once it is to end

// The runs by their seeds, each group with its beginning.
std::vector<Branching> by_beginning(const StudyPlan& plan, const std::vector<std::size_t>& runs) {
  std::vector<Branching> groups;
  for (std::size_t seed = 0; seed < plan.beginnings.size(); ++seed) {
    Branching group{plan.beginnings[seed], plan.warm_until, {}, {}};
    for (std::size_t k = 0; k < runs.size(); ++k) {
      if (runs[k] % plan.seeds != seed) continue;
      group.branches.push_back(plan.runs[runs[k]]);
      group.indices.push_back(k);
    }
    if (!group.branches.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

// Runs that are best made together: a run alone, or all that have a beginning in common.
Json units_of(const StudyPlan& plan, const std::vector<std::size_t>& runs) {
  Json units = Json::array();
  if (plan.beginnings.empty()) {
    for (const std::size_t run : runs) units.push_back(Json::array({run}));
    return units;
  }
  for (std::size_t seed = 0; seed < plan.seeds; ++seed) {
    Json unit = Json::array();
    for (const std::size_t run : runs)
      if (run % plan.seeds == seed) unit.push_back(run);
    if (!unit.empty()) units.push_back(std::move(unit));
  }
  return units;
}

std::string request_of(const Elsewhere& elsewhere, const StudyPlan& plan,
                       const std::vector<std::size_t>& runs, std::size_t at_once) {
  std::error_code failed;
  const bool is_file = std::filesystem::is_regular_file(elsewhere.study, failed);
  Json plugins = Json::array();
  for (const plugin::Plugin* one : plugin::loaded())
    plugins.push_back(std::filesystem::absolute(one->file().path()).string());
  return Json{{"study",
               is_file ? std::filesystem::absolute(elsewhere.study).string() : elsewhere.study},
              {"fingerprint", plan.fingerprint},
              {"program", std::filesystem::read_symlink("/proc/self/exe", failed).string()},
              {"at_once", at_once},
              {"plugins", plugins},
              {"units", units_of(plan, runs)}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

void simulate_runs(const StudyPlan& plan, const std::vector<std::size_t>& runs,
                   const RunSettings& settings) {
  RunSettings own = settings;
  own.finished = [&](std::size_t k, const output::RunResult& run) {
    settings.finished(runs[k], run);
  };
  if (!plan.beginnings.empty()) {
    run_branches(by_beginning(plan, runs), runs.size(), own);
    return;
  }
  std::vector<PlannedRun> planned;
  for (const std::size_t run : runs) planned.push_back(plan.runs[run]);
  run_all(planned, own);
}

void have_runs_made(const Elsewhere& elsewhere, const StudyPlan& plan,
                    const std::vector<std::size_t>& runs, const RunSettings& settings) {
  const std::string request = request_of(elsewhere, plan, runs, settings.at_once);
  LineProgram program({"python3", "-m", "batchflow." + elsewhere.engine + "_sweep"});
  RunsBar bar(runs.size(), settings);
  std::set<std::size_t> awaited(runs.begin(), runs.end());
  std::string problem;
  const auto take = [&](const std::string& line) {
    const Json said = Json::parse(line, nullptr, false);
    if (!said.is_object()) return;  // a library's words
    if (said.contains("result") && awaited.erase(said.value("run", plan.runs.size())) > 0)
      settings.finished(said.at("run").get<std::size_t>(),
                        output::decode_run(said.at("result").dump()));
    if (said.contains("note")) output::say("batchflow-sim: " + said.value("note", ""));
    if (said.contains("problem")) problem = said.value("problem", "");
    if (said.contains("done"))
      bar.show({said.value("done", 0.0), said.value("simulated_s", 0.0), 0});
  };
  program.write(request);
  std::optional<std::chrono::steady_clock::time_point> told_at;  // to end
  while (program.read(take)) {
    const auto now = std::chrono::steady_clock::now();
    if (!told_at && output::was_interrupted()) {
      program.end_input();
      told_at = now;
    }
    if (told_at && now > *told_at + kToEnd) return;
  }
  const std::string end = program.wait();
  if (!problem.empty()) throw ConfigError(problem);
  if (!end.empty() && !output::was_interrupted()) {
    throw ConfigError(fmt::format("--engine {}: `{}` {}; what it needs is in docs/{}.md",
                                  elsewhere.engine, program.name(), end, elsewhere.engine));
  }
}

}  // namespace batchflow::sim
