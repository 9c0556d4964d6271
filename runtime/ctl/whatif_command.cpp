// batchflowctl whatif: the coming hours of a service under other policies, and what came of those
// that were set for it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "programs/input/find_config.h"
#include "programs/input/yaml.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/service_client.h"
#include "runtime/ctl/whatif.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

struct WhatIfOptions {
  std::vector<std::string> policies;
  std::vector<std::string> overrides;
  std::string cluster;
  std::string scenario;
  double hours = 1;
  double measure_s = 5;
  std::uint64_t seeds = 3;
  bool apply = false;
  bool past = false;
  output::OutputFlags outputs;
};

std::string percent(double part) {
  return fmt::format("{:.1f} %", 100 * part);
}

// ------------------------------------------------------------------------------- the past ----

json as_json(const LiveFigures& figures) {
  return {{"span_s", figures.span_s},
          {"samples_per_s", figures.samples_per_s},
          {"stall_fraction", figures.stall_fraction}};
}

// Since it was applied, if the service has run since then.
json since(const json& applied, const json& status) {
  const json& then = object(applied, "counters");
  if (number(then, "pid") != number(status, "pid") || number(then, "up_s") > number(status, "up_s"))
    return nullptr;
  return as_json(live_figures(then, status));
}

std::string local_time(double seconds) {
  const auto when = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "";
  if (localtime_r(&when, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string past_text(const json& one) {
  const json& before = object(one, "before");
  const json& expected = object(one, "expected");
  std::string text = fmt::format(
      "{}  {}\n  before          {:>10.1f} samples/s, {} stalled\n"
      "  expected gain   {:>+10.1f} % of samples/s ({:+.1f} to {:+.1f}), stalls {} -> {}\n",
      local_time(number(one, "time")), ctl::text(one, "label"), number(before, "samples_per_s"),
      percent(number(before, "stall_fraction")), 100 * number(expected, "gain"),
      100 * number(expected, "gain_low"), 100 * number(expected, "gain_high"),
      percent(number(expected, "stall_as_is")), percent(number(expected, "stall")));
  const json& came = object(one, "since");
  if (came.empty())
    return text + "  since then      not known: the service has begun anew, and its counters too\n";
  text += fmt::format("  since then      {:>10.1f} samples/s, {} stalled, in {:.0f} s\n",
                      number(came, "samples_per_s"), percent(number(came, "stall_fraction")),
                      number(came, "span_s"));
  if (const auto gain = one.find("gain"); gain != one.end() && gain->is_number())
    text += fmt::format("  gain that came  {:>+10.1f} % of samples/s\n", 100 * gain->get<double>());
  return text;
}

int show_past(const WhatIfOptions& options, const std::string& service) {
  const json status = ServiceClient(service).ask("status");
  const std::filesystem::path file = applied_file(status);
  Applied applied = read_applied(file);
  json answer = {{"file", file.string()}, {"unreadable_lines", applied.unreadable}};
  answer["applied"] = json::array();
  std::string text;
  for (json& one : applied.all) {
    one["since"] = since(one, status);
    one["gain"] = nullptr;
    const double before = number(object(one, "before"), "samples_per_s");
    const double now = number(object(one, "since"), "samples_per_s");
    if (before > 0 && one["since"].is_object()) one["gain"] = now / before - 1;
    text += past_text(one);
    answer["applied"].push_back(one);
  }
  if (text.empty()) text = "nothing was applied by whatif --apply\n";
  if (applied.unreadable > 0)
    text += fmt::format("{} lines of {} cannot be read\n", applied.unreadable, file.string());
  write_answer(options.outputs, answer, text);
  return 0;
}

// ------------------------------------------------------------------------------ the coming ----

// The machine as it was measured; another one is refused before anything runs.
config::ConfigNode cluster_of(const std::string& name, const json& status) {
  const std::string file = input::find_config(name, "clusters");
  config::ConfigNode tree = input::read_yaml_file(file);
  const config::ConfigNode* const nodes = tree.find("nodes");
  const config::ConfigNode* const cores =
      nodes != nullptr && nodes->list.size() == 1 ? nodes->list[0].find("cores") : nullptr;
  const double here = number(status, "cores");
  const auto measured = cores == nullptr ? std::nullopt : parse_number(cores->scalar);
  if (!measured || *measured != here)
    throw ConfigError(fmt::format(
        "{}: it was measured on another machine: {}, and this service's has {:.0f} cores; measure "
        "this one with batchflowctl calibrate DATASET --cluster=FILE",
        file, measured ? fmt::format("{:.0f} cores", *measured) : "not one node with cores", here));
  return tree;
}

const json* named(const json& answer, const std::string& label) {
  for (const json& one : list(answer, "candidates"))
    if (text(one, "label") == label) return &one;
  return nullptr;
}

std::string lines(const char* head, const json& all) {
  std::string out;
  for (const json& one : all)
    out += fmt::format("{}  {}\n", out.empty() ? fmt::format("{}\n", head) : "",
                       one.is_string() ? one.get<std::string>() : "");
  return out;
}

std::string candidates_table(const json& answer) {
  const json& live = object(answer, "lived");
  const json& now = object(object(answer, "as_is"), "figures");
  std::vector<std::vector<std::string>> rows = {
      {"", "samples/s", "gain", "95 % interval", "stall", "from storage", "prepared"}};
  const auto row = [&](const std::string& name, const json& figures, std::string gain,
                       std::string interval) {
    rows.push_back({name, fmt::format("{:.1f}", number(figures, "samples_per_s")), std::move(gain),
                    std::move(interval), percent(number(figures, "stall_fraction")),
                    bytes_text(number(figures, "storage_bytes")),
                    fmt::format("{:.0f}", number(figures, "preparations"))});
  };
  rows.push_back({"lived so far", fmt::format("{:.1f}", number(live, "samples_per_s")), "", "",
                  percent(number(live, "stall_fraction")), "", ""});
  row("simulated as it is", now, "", "");
  const double speed = std::max(1e-9, number(now, "samples_per_s"));
  std::string failures;
  for (const json& one : list(answer, "candidates")) {
    if (const std::string failure = text(one, "failure"); !failure.empty())
      failures += fmt::format("{}: {}\n", text(one, "label"), failure);
    const json& gain = object(object(one, "differences"), "samples_per_s");
    const bool has_interval = gain.contains("low") && gain["low"].is_number();
    row(text(one, "label"), object(one, "figures"),
        fmt::format("{:+.1f} %", 100 * number(gain, "mean") / speed),
        has_interval
            ? fmt::format("{:+.1f} % to {:+.1f} %{}", 100 * number(gain, "low") / speed,
                          100 * number(gain, "high") / speed, flag(gain, "sure") ? " *" : "")
            : "-");
  }
  for (const json& far : list(answer, "far"))
    failures += fmt::format("far from what was lived: {}\n", far.get<std::string>());
  return table(rows) + "* is surely not zero\n" + failures;
}

// Sets the policies of the best candidate, and remembers what is expected of them.
json apply_best(const json& answer, const json& best, const json& before, ServiceClient& client) {
  std::vector<std::string> said;
  for (const json& choice : list(best, "choices"))
    said.push_back(text(client.ask("policy_set", {{"policy", choice}}), "text"));
  const json now = client.ask("status");
  const json& figures = object(object(answer, "as_is"), "figures");
  const double speed = std::max(1e-9, number(figures, "samples_per_s"));
  const json& gain = object(object(best, "differences"), "samples_per_s");
  const auto applied_at = std::chrono::system_clock::now();
  json applied = {{"time", std::chrono::duration<double>(applied_at.time_since_epoch()).count()},
                  {"label", text(best, "label")},
                  {"policies", list(best, "choices")},
                  {"hours", number(answer, "hours")},
                  {"seeds", number(answer, "seeds")},
                  {"before", as_json(live_figures(before, now))},
                  {"expected",
                   {{"gain", number(gain, "mean") / speed},
                    {"gain_low", number(gain, "low") / speed},
                    {"gain_high", number(gain, "high") / speed},
                    {"samples_per_s_as_is", number(figures, "samples_per_s")},
                    {"samples_per_s", number(object(best, "figures"), "samples_per_s")},
                    {"stall_as_is", number(figures, "stall_fraction")},
                    {"stall", number(object(best, "figures"), "stall_fraction")}}},
                  {"counters",
                   {{"pid", number(now, "pid")},
                    {"up_s", number(now, "up_s")},
                    {"samples", number(now, "samples")},
                    {"wait_s", number(now, "wait_s")},
                    {"compute_s", number(now, "compute_s")}}}};
  append_applied(applied_file(now), applied);
  applied["said"] = said;
  return applied;
}

// What the service does now is known only from some seconds of it.
void wait_to_measure(const json& before, double seconds, ServiceClient& client) {
  output::ProgressBar bar("measuring what is now");
  for (;;) {
    const double spent = number(client.ask("status"), "up_s") - number(before, "up_s");
    if (spent >= seconds) return;
    bar.show(spent / std::max(1e-9, seconds));
    output::check_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::vector<std::string> words_of(const WhatIfOptions& options, const json& status, double warm_s) {
  std::vector<std::string> words = {fmt::format("--seeds={}", options.seeds),
                                    fmt::format("--from={:.0f}ns", 1e9 * warm_s)};
  for (const std::string& one : options.policies) words.push_back("--policy=" + one);
  for (const std::string& one : options.overrides) words.push_back("--set=" + one);
  if (options.policies.empty() && options.overrides.empty())
    words.push_back(fmt::format("--policy=preset={}",
                                fmt::join(usual_candidates(text(status, "preset")), ",")));
  return words;
}

// What the jobs that run have had so far, as a row beside what is simulated.
LiveFigures lived(const json& status) {
  LiveFigures figures;
  double waited = 0, all = 0;
  for (const json& job : list(status, "jobs")) {
    if (!flag(job, "running") || flag(job, "left")) continue;
    const double time_s = number(job, "wait_s") + number(job, "compute_s");
    if (time_s <= 0) continue;
    const double ranks = std::max(1., number(job, "ranks"));
    figures.samples_per_s += number(job, "samples") * ranks / time_s;
    figures.span_s = std::max(figures.span_s, time_s / ranks);
    waited += number(job, "wait_s");
    all += time_s;
  }
  if (all > 0) figures.stall_fraction = waited / all;
  return figures;
}

// Where what is simulated as it is is far from what was lived, in a line each.
std::vector<std::string> far_from_lived(const LiveFigures& live, const json& figures) {
  constexpr double kFarRate = 0.15, kFarPart = 0.1;
  std::vector<std::string> far;
  const double rate = number(figures, "samples_per_s"), stall = number(figures, "stall_fraction");
  if (live.samples_per_s > 0 && std::abs(rate / live.samples_per_s - 1) > kFarRate)
    far.push_back(
        fmt::format("samples/s were {:.1f} so far and are simulated as {:.1f} ({:+.0f} %)",
                    live.samples_per_s, rate, 100 * (rate / live.samples_per_s - 1)));
  if (std::abs(stall - live.stall_fraction) > kFarPart)
    far.push_back(fmt::format("stalls were {} so far and are simulated as {}",
                              percent(live.stall_fraction), percent(stall)));
  return far;
}

int whatif(const WhatIfOptions& options, const std::string& service) {
  options.outputs.check();
  if (options.past) return show_past(options, service);
  if (options.apply && !options.overrides.empty())
    throw ConfigError("--apply sets policies alone; leave --set out, or --apply");
  if (options.apply && options.seeds < 2)
    throw ConfigError("--apply needs an interval, and so two seeds; write --seeds 2 or more");
  if (!options.scenario.empty()) output::require_writable(options.scenario);
  ServiceClient client(service);
  const json status = client.ask("status", {{"models", true}});
  if (options.apply) applied_file(status);
  std::optional<config::ConfigNode> cluster;
  if (!options.cluster.empty()) cluster = cluster_of(options.cluster, status);
  const ComingHours coming = coming_hours(status, options.hours);
  const input::DerivedScenario derived =
      input::derive_scenario(coming.workload, cluster ? &*cluster : nullptr);
  if (!options.scenario.empty())
    output::write_file_atomically(options.scenario, derived.text, output::check_interrupted);
  json answer = simulate_whatif(derived.text, words_of(options, status, coming.warm_s));
  answer["command"] = "whatif";
  answer.erase("scenario");
  answer.erase("recorded");
  answer["hours"] = options.hours;
  answer["warm_s"] = coming.warm_s;
  answer["known"] = derived.known;
  answer["assumed"] = derived.assumed;
  answer["left_out"] = coming.workload.notes;
  answer["applied"] = nullptr;
  const LiveFigures so_far = lived(status);
  answer["lived"] = as_json(so_far);
  answer["far"] = far_from_lived(so_far, object(object(answer, "as_is"), "figures"));
  std::string out =
      fmt::format("the coming {:.3g} h of {} jobs\n", options.hours, coming.workload.jobs.size()) +
      lines("known", answer["known"]) + lines("assumed or estimated", answer["assumed"]) +
      lines("not as it will be", answer["left_out"]) + "\n" + candidates_table(answer);
  const std::string failure = text(object(answer, "as_is"), "failure");
  const json* const best = named(answer, text(answer, "best"));
  if (!failure.empty()) {
    out += fmt::format("what runs now cannot be simulated: {}\n", failure);
  } else if (best == nullptr) {
    out += "no candidate is surely better\n";
  } else if (!options.apply) {
    out += list(*best, "choices").empty()
               ? fmt::format("recommended: {}\n", text(*best, "label"))
               : fmt::format(
                     "recommended: batchflowctl policy set {}\n",
                     fmt::join(list(*best, "choices").get<std::vector<std::string>>(), ", then "));
  }
  if (best != nullptr && options.apply) {
    wait_to_measure(status, options.measure_s, client);
    answer["applied"] = apply_best(answer, *best, status, client);
    out += fmt::format("applied: {}\n", text(*best, "label"));
    for (const json& said : answer["applied"]["said"]) out += said.get<std::string>();
    out += "batchflowctl whatif --past shows what comes of it\n";
  }
  write_answer(options.outputs, answer, out);
  return failure.empty() ? 0 : 1;
}

}  // namespace

void add_whatif_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* command =
      app.add_subcommand("whatif",
                         "Simulate the coming hours from what runs now, as it is and otherwise")
          ->fallthrough();
  const auto options = std::make_shared<WhatIfOptions>();
  command
      ->add_option("-p,--policy", options->policies,
                   "kind=name[:parameter=value...] or preset=name. Names of one kind, by comma or\n"
                   "repeated, are candidates; kinds are crossed. Default: usual presets")
      ->allow_extra_args(false);
  command
      ->add_option("--set", options->overrides,
                   "path.to.key=value of the simulated scenario, in all candidates, as\n"
                   "cluster.nodes.0.cache=64gb")
      ->allow_extra_args(false);
  command->add_option(
      "--cluster", options->cluster,
      "This machine, as `batchflowctl calibrate --cluster=FILE` writes it; default:\n"
      "estimated from what the service has measured");
  command->add_option("--scenario", options->scenario,
                      "Write what is simulated to this file, for batchflow-sim run");
  command->add_option("--hours", options->hours, "How far to look (default: 1)")
      ->check(output::number_between(0.0001, 1000));
  output::add_whole_number(*command, "--seeds", options->seeds, 1, 1000,
                           "Simulations of each, from which intervals follow (default: 3)");
  command->add_flag("--apply", options->apply,
                    "Set the best candidate, as policy set does, if it is surely better");
  command
      ->add_option("--measure", options->measure_s,
                   "With --apply: how many seconds of now its effect is compared with "
                   "(default: 5)")
      ->check(output::number_between(0, 3600));
  command->add_flag("--past", options->past, "Show the effects of candidates that were applied");
  options->outputs.add(*command, "json", "JSON");
  command->footer(
      "Examples:\n"
      "  batchflowctl whatif --policy preset=coordl,default --hours 0.5\n"
      "  batchflowctl whatif --apply\n"
      "  batchflowctl whatif --past");
  command->callback([&service, &action, options] {
    action = [&service, options] { return whatif(*options, service); };
  });
}

}  // namespace batchflow::ctl
