#include "sim/plugin_check/command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "core/base/config_value.h"
#include "nlohmann/json.hpp"
#include "policies/plugin/certificate.h"
#include "policies/plugin/load.h"
#include "policies/plugin/sha256.h"
#include "programs/output/output.h"
#include "programs/output/terminal.h"
#include "sim/figures.h"
#include "sim/plugin_check/child.h"
#include "sim/run_report.h"

namespace batchflow::sim {
namespace {

using nlohmann::json;

constexpr std::uint64_t kSeeds = 40;
constexpr std::chrono::seconds kRulesMost{60}, kCostMost{60}, kBatteryMost{240};
// A decision of an eviction policy is asked for each sample, the others at most once a block.
constexpr double kEvictionNs = 5'000, kDecisionNs = 100'000, kSlowestUs = 1000;
constexpr double kBytesAnItem = 256, kLeakedBytes = 512;

// One line of the verdict.
struct Finding {
  std::string what;
  bool passed = false;
  std::string text;
};

// The answer of a phase; none, with the reason in `problem`.
json answer_of(PhaseProcess& process, std::string& problem) {
  const PhaseResult result = process.wait();
  // The first line counts: what ends a phase early has been said before.
  const json answer =
      json::parse(result.answer.substr(0, result.answer.find('\n')), nullptr, false);
  if (answer.is_object() && answer.contains("problem") && answer["problem"].is_string() &&
      answer["problem"] != "") {
    problem = answer["problem"].get<std::string>();
  } else if (!result.problem.empty()) {
    problem = result.problem;
  } else if (!answer.is_object()) {
    problem = "it answers what is no answer";
  }
  return problem.empty() ? answer : json();
}

class PluginCheck {
 public:
  PluginCheck(const PluginCheckOptions& options, output::ProgressBar& bar)
      : options_(options),
        bar_(bar),
        file_(std::make_shared<const plugin::PluginFile>(options.plugin)) {}

  void run() {
    const std::pair<const char*, bool (PluginCheck::*)()> parts[] = {
        {"loading", &PluginCheck::load},
        {"rules", &PluginCheck::rules},
        {"cost", &PluginCheck::cost},
        {"battery", &PluginCheck::measure}};
    double done = 0.02;
    for (const auto& [name, part] : parts) {
      bar_.show(done, name);
      if (!(this->*part)()) return;  // what follows would say the same once more
      done += 0.25;
    }
  }

  bool passed() const {
    for (const Finding& one : findings_) {
      if (!one.passed) return false;
    }
    return !findings_.empty() && findings_.back().what == "battery";
  }

  std::string text() const {
    const plugin::Footer& footer = file_->footer();
    std::string text =
        fmt::format("plugin {} {}: {}\n{}, SHA-256 {}\n\n", footer.name, footer.version,
                    fmt::join(footer.policies, ", "), options_.plugin, file_->hash());
    std::vector<std::vector<std::string>> rows;
    for (const Finding& one : findings_)
      text +=
          fmt::format("{:<12} {:<7} {}\n", one.what, one.passed ? "passed" : "FAILED", one.text);
    if (!rows_.empty()) text += "\n" + aligned(rows_);
    text += passed() ? "\nIt passed.\n" : "\nIt did not pass.\n";
    return text;
  }

  // What a certificate says.
  std::string body(const std::string& made_at) const {
    const plugin::Footer& footer = file_->footer();
    json findings = json::array();
    for (const Finding& one : findings_)
      findings.push_back({{"part", one.what}, {"passed", one.passed}, {"text", one.text}});
    const json all = {{"plugin",
                       {{"name", footer.name},
                        {"version", footer.version},
                        {"hash", file_->hash()},
                        {"policies", footer.policies}}},
                      {"verdict", passed() ? "passed" : "failed"},
                      {"findings", findings},
                      {"scenarios", scenarios_},
                      {"most_worse_points", options_.most_worse},
                      {"battery", plugin::kBattery},
                      {"checked_by", {{"version", BATCHFLOW_VERSION}, {"hash", own_hash()}}},
                      {"made_at", made_at}};
    return all.dump(2) + "\n";
  }

 private:
  bool add(const std::string& what, const std::string& problem, const std::string& text) {
    findings_.push_back({what, problem.empty(), problem.empty() ? text : problem});
    return problem.empty();
  }

  bool load() {
    try {
      plugin::try_to_load(file_);
      return add("loading", "", "in a child process; its surroundings stay as they are");
    } catch (const ConfigError& error) {
      return add("loading", error.what(), "");
    }
  }

  // In two processes at once, which must answer alike.
  bool rules() {
    const PhaseOptions phase{"rules", options_.plugin, kSeeds};
    PhaseProcess first(phase, kRulesMost, 0), second(phase, kRulesMost, 1);
    std::string problem, other_problem;
    const json answer = answer_of(first, problem);
    const json other = answer_of(second, other_problem);
    if (problem.empty() && !other_problem.empty())
      problem = "in a second process: " + other_problem;
    if (!problem.empty()) return add("rules", problem, "");
    const bool confined = answer.value("confined", false);
    add("rules", "",
        fmt::format("{} policies and ends of parameters, {} seeds each{}",
                    answer["policies"].size(), kSeeds,
                    confined
                        ? "; they do nothing but compute"
                        : " (what else they do was not watched: this kernel filters no calls)"));
    std::string differs;
    for (std::size_t i = 0; i < answer["policies"].size(); ++i) {
      if (answer["policies"][i] != other["policies"].at(i) && differs.empty()) {
        differs = fmt::format("{} answers the same questions otherwise in another process",
                              answer["policies"][i].value("policy", "it"));
      }
    }
    return add("determinism", differs, "two processes answered alike");
  }

  bool cost() {
    PhaseProcess process({"cost", options_.plugin, 0}, kCostMost);
    std::string problem;
    const json answer = answer_of(process, problem);
    if (!problem.empty()) return add("cost", problem, "");
    std::vector<std::string> texts, problems;
    for (const json& one : answer["policies"]) {
      const std::string policy = one.value("policy", "it");
      const double mean = one.value("mean_ns", 0.0), slowest = one.value("slowest_us", 0.0);
      const double bytes = one.value("bytes_an_item", 0.0), leak = one.value("leaked_bytes", 0.0);
      const bool evicts = policy.starts_with("eviction");
      const auto at_most = [&](double value, double most, const std::string& what) {
        if (value > most)
          problems.push_back(
              fmt::format("{} {:.0f} {}, and {:.0f} are the most", policy, value, what, most));
      };
      at_most(mean, evicts ? kEvictionNs : kDecisionNs, "ns a decision");
      at_most(slowest, kSlowestUs, "us for one decision");
      at_most(bytes, kBytesAnItem, "bytes an item");
      at_most(leak, kLeakedBytes, "bytes left behind each time that it is used");
      texts.push_back(evicts ? fmt::format("{}: {:.0f} ns a request, {:.0f} bytes an item", policy,
                                           mean, std::max(bytes, 0.0))
                             : fmt::format("{}: {:.0f} ns a decision", policy, mean));
    }
    problem = fmt::format("{}", fmt::join(problems, "; "));
    return add("cost", problem, fmt::format("{}", fmt::join(texts, "; ")));
  }

  bool measure() {
    PhaseProcess process({"battery", options_.plugin, 0}, kBatteryMost);
    std::string problem;
    const json answer = answer_of(process, problem);
    if (!problem.empty()) return add("battery", problem, "");
    scenarios_ = answer["scenarios"];
    if (scenarios_.empty()) return add("battery", "no scenario was run", "");
    rows_.push_back({"stall"});
    for (const json& one : scenarios_[0]["candidates"]) rows_[0].push_back(one.value("name", ""));
    std::map<std::string, std::vector<double>> differences;  // by candidate, of all scenarios
    for (const json& scenario : scenarios_) {
      std::string name = scenario.value("name", "");
      const json at = scenario.value("at", json::object());
      for (const auto& [axis, value] : at.items())
        name += fmt::format(" {}={}", axis.substr(axis.rfind('.') + 1), value.get<std::string>());
      rows_.push_back({name});
      const auto present = scenario["candidates"][0]["stall"].get<std::vector<double>>();
      for (const json& one : scenario["candidates"]) {
        const std::string candidate = one.value("name", "");
        if (one.value("problem", "") != "" && problem.empty())
          problem = fmt::format("{} in {}: {}", candidate, name, one.value("problem", ""));
        const auto stalls = one["stall"].get<std::vector<double>>();
        if (stalls.size() != present.size()) continue;
        if (rows_.back().size() == 1) {
          rows_.back().push_back(fmt::format("{:.1f} %", 100 * estimate(stalls).mean));
          continue;
        }
        const Estimate difference = paired_difference(present, stalls);
        rows_.back().push_back(
            fmt::format("{:+.1f} ± {:.1f}", 100 * difference.mean, 100 * difference.margin));
        for (std::size_t i = 0; i < stalls.size(); ++i)
          differences[candidate].push_back(stalls[i] - present[i]);
      }
    }
    std::vector<std::string> texts;
    for (const auto& [candidate, all] : differences) {
      const Estimate mean = estimate(all);
      texts.push_back(fmt::format("{}: stall {:+.1f} ± {:.1f} points against preset=default",
                                  candidate, 100 * mean.mean, 100 * mean.margin));
      if (100 * (mean.mean - mean.margin) > options_.most_worse && problem.empty()) {
        problem = fmt::format("{}, and {:+.1f} are the most (--most-worse)", texts.back(),
                              options_.most_worse);
      }
    }
    if (texts.empty()) texts.push_back("its jobs ask for none of the plugin's policies");
    return add("battery", problem, fmt::format("{}", fmt::join(texts, "; ")));
  }

  static std::string own_hash() {
    std::ifstream program("/proc/self/exe", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(program), {}};
    return plugin::hex(plugin::sha256(std::as_bytes(std::span(bytes))));
  }

  const PluginCheckOptions& options_;
  output::ProgressBar& bar_;
  std::shared_ptr<const plugin::PluginFile> file_;
  std::vector<Finding> findings_;
  std::vector<std::vector<std::string>> rows_;  // of the table of scenarios
  json scenarios_ = json::array();
};

}  // namespace

int check_plugin(const PluginCheckOptions& options) {
  options.outputs.check(options.plugin);
  if (!options.key.empty()) plugin::signed_text("", options.key);  // before the work is done
  std::string text, body;
  bool passed = false;
  {
    output::ProgressBar bar("checking");
    PluginCheck check(options, bar);
    check.run();
    passed = check.passed();
    text = check.text();
    body = check.body(fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))));
  }
  if (!options.key.empty() && passed) {
    const std::string path = plugin::certificate_path(options.plugin).string();
    output::write_file_atomically(path, plugin::signed_text(body, options.key),
                                  output::check_interrupted);
    text += fmt::format("Its certificate is {}.\n", path);
  } else if (passed) {
    text += "No certificate was made; --key KEY.pem signs one.\n";
  }
  if (options.outputs.wanted("json")) {
    options.outputs.write("json", body);
  } else {
    options.outputs.write_text(text);
  }
  return passed ? 0 : 1;
}

}  // namespace batchflow::sim
