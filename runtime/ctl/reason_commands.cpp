// Commands that say why things are as they are: explain, doctor, journal.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/ideal.h"
#include "runtime/ctl/reasons.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

struct ReasonOptions {
  std::string job;
  double seconds = 0;  // 0: those of `ideal`, or the default
  std::string ideal;   // for how long a batch may be given again; empty: not at all
  bool flush = false;
  output::OutputFlags outputs;
};

void require_job(const json& status, const std::string& job) {
  const json& jobs = list(status, "jobs");
  const bool known = job.empty() || std::any_of(jobs.begin(), jobs.end(), [&](const json& one) {
                       return text(one, "name") == job;
                     });
  if (!known)
    throw Failure(fmt::format("no job is called '{}'; batchflowctl jobs lists them", job));
}

int explain(const ReasonOptions& options, const std::string& service) {
  options.outputs.check();
  ServiceClient client(service);
  const json status = client.ask("status");
  require_job(status, options.job);
  const json decisions = client.ask("explain");
  json answer = {{"jobs", json::array()}, {"decisions", list(decisions, "decisions")}};
  for (const json& job : list(status, "jobs")) {
    if (options.job.empty() || text(job, "name") == options.job) answer["jobs"].push_back(job);
  }
  write_answer(options.outputs, answer, explain_text(status, decisions, options.job));
  return 0;
}

std::string doctor_text(const std::vector<Diagnosis>& found,
                        const std::vector<std::string>& remarks) {
  std::string out;
  for (const Diagnosis& one : found) {
    out += one.link == "none" ? fmt::format("job '{}': well\n", one.job)
                              : fmt::format("job '{}': the slow link is {}\n", one.job, one.link);
    for (const std::string& fact : one.facts) out += fmt::format("  {}\n", fact);
    for (const std::string& advice : one.advice) out += fmt::format("  -> {}\n", advice);
  }
  if (found.empty()) out += "no job was there all the time\n";
  for (const std::string& remark : remarks) out += fmt::format("node: {}\n", remark);
  return out;
}

constexpr double kMeasuredS = 5;
constexpr double kIdealLeastS = 0.1, kIdealMostS = 3600;

// 0: it was not asked for.
double ideal_seconds(const std::string& text) {
  if (text.empty()) return 0;
  const auto time = parse_duration(text);
  const double s = time ? std::chrono::duration<double>(*time).count() : 0;
  if (!(s >= kIdealLeastS && s <= kIdealMostS))
    throw ConfigError(
        fmt::format("--ideal={}: write a time from 0.1s to 1h, as --ideal=10s", text));
  return s;
}

// Adds to each job what a perfect loader would gain it. One job alone is measured: each would be
// faster while another does not load.
std::vector<IdealGain> add_gains(ServiceClient& client, const json& before, const json& now,
                                 double seconds, std::vector<Diagnosis>& found) {
  std::vector<IdealGain> gains;
  for (Diagnosis& one : found) {
    IdealGain gain = gain_by_waits(before, now, one.job);
    if (found.size() > 1) {
      gain.why_not = fmt::format("there are several jobs; name it: doctor {} --ideal", one.job);
    } else {
      gain = measured_gain(client, one.job, std::move(gain), seconds);
    }
    one.facts.push_back(gain_text(gain));
    if (!gain.why_not.empty()) one.facts.push_back("not measured: " + gain.why_not);
    gains.push_back(std::move(gain));
  }
  return gains;
}

int doctor(const ReasonOptions& options, const std::string& service) {
  options.outputs.check();
  const double ideal_s = ideal_seconds(options.ideal);
  const double seconds = options.seconds > 0 ? options.seconds : ideal_s > 0 ? ideal_s : kMeasuredS;
  ServiceClient client(service);
  const json before = client.ask("status");
  require_job(before, options.job);
  const auto until =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  output::ProgressBar bar("measuring");
  while (std::chrono::steady_clock::now() < until) {
    output::check_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::chrono::duration<double> left = until - std::chrono::steady_clock::now();
    bar.show(1 - left.count() / seconds);
  }
  const json now = client.ask("status");
  std::vector<Diagnosis> found = diagnose(before, now, options.job);
  std::vector<std::string> remarks = node_remarks(before, now);
  for (std::string& one : fleet_remarks(before, now)) remarks.push_back(std::move(one));
  std::vector<IdealGain> gains;
  if (ideal_s > 0) gains = add_gains(client, before, now, ideal_s, found);
  json answer = {{"jobs", json::array()}, {"node", remarks}};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Diagnosis& one = found[i];
    json& job = answer["jobs"].emplace_back(json{{"job", one.job},
                                                 {"slow_link", one.link},
                                                 {"stalled_ratio", one.stalled},
                                                 {"facts", one.facts},
                                                 {"advice", one.advice}});
    if (i < gains.size()) job["ideal"] = gain_json(gains[i]);
  }
  write_answer(options.outputs, answer, doctor_text(found, remarks));
  const bool held_up = std::any_of(found.begin(), found.end(),
                                   [](const Diagnosis& one) { return one.is_held_up(); });
  return held_up || !remarks.empty() ? 1 : 0;
}

int journal(const ReasonOptions& options, const std::string& service) {
  options.outputs.check();
  ServiceClient client(service);
  if (options.flush) client.ask("journal_flush");
  const json answer = object(client.ask("status"), "journal");
  write_answer(
      options.outputs, answer,
      flag(answer, "is_kept")
          ? fmt::format("{}: {}, {:.0f} steps, {:.0f} events{}\n", text(answer, "path"),
                        bytes_text(number(answer, "bytes")), number(answer, "steps"),
                        number(answer, "events"),
                        flag(answer, "has_ended") ? "; it has ended, at its bound or since the "
                                                    "disk was full"
                                                  : "")
          : std::string("no journal is kept; start the service with --journal\n"));
  return 0;
}

using Run = int (*)(const ReasonOptions&, const std::string&);
CLI::App* add(CLI::App& app, const std::string& service, Action& action, const char* name,
              const char* help, const std::shared_ptr<ReasonOptions>& options, Run run) {
  CLI::App* command = app.add_subcommand(name, help)->fallthrough();
  options->outputs.add(*command, "json", "JSON");
  command->callback([&service, &action, options, run] {
    action = [&service, options, run] { return run(*options, service); };
  });
  return command;
}

}  // namespace

void add_reason_commands(CLI::App& app, const std::string& service, Action& action) {
  const auto to_explain = std::make_shared<ReasonOptions>();
  add(app, service, action, "explain", "What each job waits for, and what the policies decided",
      to_explain, explain)
      ->add_option("JOB", to_explain->job, "As `jobs` names it; default: all");
  const auto to_doctor = std::make_shared<ReasonOptions>();
  CLI::App* command = add(app, service, action, "doctor",
                          "Measure for some seconds, and name the slow link", to_doctor, doctor);
  command->add_option("JOB", to_doctor->job, "As `jobs` names it; default: all");
  command
      ->add_option("--seconds", to_doctor->seconds,
                   "How long to measure; default: 5, or as --ideal says")
      ->check(output::number_between(0.1, 3600));
  command->add_flag("--ideal{30s}", to_doctor->ideal,
                    "Measure, too, what a perfect loader would gain, for 30 s or =TIME: a job that "
                    "allows it is given one batch again");
  command->footer("Exit code 1: a job waits, or something is wrong with the node.");
  const auto of_journal = std::make_shared<ReasonOptions>();
  add(app, service, action, "journal", "Where the service's journal is, and how long it is",
      of_journal, journal)
      ->add_flag("--flush", of_journal->flush, "Bring the journal to the disk first");
}

}  // namespace batchflow::ctl
