#include "sim/whatif.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/input/yaml.h"
#include "programs/output/terminal.h"
#include "sim/planned_runs.h"
#include "sim/run_report.h"
#include "sim/variants.h"

namespace batchflow::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGainLeast = 0.01;  // of samples/s: less is not worth a change

// The figures that are compared, and what counts as far from what was recorded: a part of it, or
// for figures that are parts themselves a difference.
struct Compared {
  const char* field;
  double far;
  bool is_part;
};
constexpr Compared kCompared[] = {{"samples_per_s", 0.1, false}, {"stall_fraction", 0.05, true},
                                  {"storage_bytes", 0.1, false}, {"hit_ratio", 0.05, true},
                                  {"preparations", 0.1, false},  {"makespan_s", 0.1, false}};

std::vector<const Figure*> compared_figures(const output::RunResult& result) {
  std::vector<const Figure*> all;
  for (const Compared& one : kCompared) {
    const bool has = output::is_measured(result, one.field) &&
                     output::is_measured(result, std::string("aggregate.") + one.field);
    if (has) all.push_back(&figure_named(one.field));
  }
  return all;
}

std::vector<double> values_of(const WhatIfCandidate& candidate, const Figure& figure) {
  std::vector<double> values;
  for (const output::RunResult& run : candidate.runs) values.push_back(figure.value(run));
  return values;
}

Estimate gain_of(const WhatIfAnswer& answer, const WhatIfCandidate& candidate,
                 const Figure& figure) {
  return paired_difference(values_of(answer.as_is, figure), values_of(candidate, figure));
}

// ------------------------------------------------------------------------------- the runs ----

// The series at a time, between its points.
output::SeriesPoint point_at(const std::vector<output::SeriesPoint>& series, double time_s) {
  const auto after = std::find_if(series.begin(), series.end(),
                                  [&](const auto& point) { return point.time_s >= time_s; });
  if (after == series.end()) return series.back();
  if (after == series.begin()) {
    if (after->time_s > time_s) return {};
    return *after;
  }
  const output::SeriesPoint& a = *std::prev(after);
  const output::SeriesPoint& b = *after;
  const double part = (time_s - a.time_s) / std::max(1e-12, b.time_s - a.time_s);
  const auto sum = [&](auto low, auto high) {
    const double more = static_cast<double>(high) - static_cast<double>(low);
    return static_cast<decltype(low)>(static_cast<double>(low) + part * more);
  };
  output::SeriesPoint at;
  at.time_s = time_s;
  at.samples = sum(a.samples, b.samples);
  at.samples_requested = sum(a.samples_requested, b.samples_requested);
  at.samples_read = sum(a.samples_read, b.samples_read);
  at.storage_bytes = sum(a.storage_bytes, b.storage_bytes);
  at.preparations = sum(a.preparations, b.preparations);
  at.compute_s = sum(a.compute_s, b.compute_s);
  at.stall_s = sum(a.stall_s, b.stall_s);
  at.idle_s = sum(a.idle_s, b.idle_s);
  return at;
}

// The run as if it had begun then, with warm caches.
void count_from(output::RunResult& run, double from_s) {
  const std::vector<output::SeriesPoint> series = std::move(run.series);
  run.series.clear();
  if (from_s <= 0 || series.empty()) return;
  const output::SeriesPoint from = point_at(series, from_s);
  const output::SeriesPoint& to = series.back();
  output::Aggregate& sum = run.aggregate;
  const double time_s = to.time_s - from_s;
  sum.samples = to.samples - from.samples;
  sum.samples_requested = to.samples_requested - from.samples_requested;
  sum.samples_read = to.samples_read - from.samples_read;
  sum.storage_bytes = to.storage_bytes - from.storage_bytes;
  sum.preparations = to.preparations - from.preparations;
  const double stall_s = to.stall_s - from.stall_s;
  const double ranks_s = stall_s + to.compute_s - from.compute_s + to.idle_s - from.idle_s;
  sum.stall_fraction = ranks_s > 0 ? stall_s / ranks_s : 0;
  sum.samples_per_s = time_s > 0 ? static_cast<double>(sum.samples) / time_s : 0;
  sum.hit_ratio = output::hit_ratio(sum.samples_read, sum.samples_requested);
  run.makespan_s = std::max(0., time_s);
}

input::Scenario scenario_of(config::ConfigNode tree, const Variant& variant,
                            const std::vector<std::string>& overrides, std::uint64_t seed) {
  apply_variant(variant, tree);
  for (const std::string& text : overrides) {
    input::apply_override(tree, text);
    input::resolve_names(tree);
  }
  const std::uint64_t first = input::read_scenario(tree).seed;
  input::apply_override(tree, fmt::format("seed={}", first + seed));
  input::Scenario scenario = input::read_scenario(tree);
  check_policies(policies::policy_list(), scenario.engine.policies, tree);
  return scenario;
}

std::string label_of(const Variant& variant, const std::vector<std::string>& overrides) {
  std::string label;
  const auto add = [&](const std::string& part) { label += (label.empty() ? "" : " ") + part; };
  for (const auto& [kind, text] : variant.choices) add(fmt::format("{}={}", kind, text));
  for (const std::string& text : overrides) add(text);
  return label;
}

// Gives a candidate its runs out of all.
void take_runs(WhatIfCandidate& candidate, std::vector<std::optional<output::RunResult>>& results,
               std::size_t first, const WhatIfQuestion& question, bool& interrupted) {
  for (std::size_t i = first; i < first + question.seeds; ++i) {
    if (!results[i] || results[i]->interrupted) {
      interrupted = true;
      continue;
    }
    output::RunResult& run = *results[i];
    if (!run.failure.empty() && candidate.failure.empty()) candidate.failure = run.failure;
    for (const output::JobResult& job : run.jobs)
      if (!job.refusal.empty() && candidate.failure.empty())
        candidate.failure = fmt::format("job {} was refused: {}", job.name, job.refusal);
    count_from(run, question.from_s);
    candidate.runs.push_back(std::move(run));
  }
}

}  // namespace

WhatIfAnswer ask_whatif(const config::ConfigNode& tree, const WhatIfQuestion& question) {
  WhatIfAnswer answer;
  answer.seeds = question.seeds;
  std::vector<PlannedRun> planned;
  const auto plan = [&](const std::string& label, const Variant& variant,
                        const std::vector<std::string>& overrides) {
    for (std::uint64_t seed = 0; seed < question.seeds; ++seed)
      planned.push_back({label, scenario_of(tree, variant, overrides, seed)});
  };
  plan("as it is", {}, {});
  for (const Variant& variant : parse_variants(policies::policy_list(), question.policies)) {
    if (variant.choices.empty() && question.overrides.empty()) continue;
    WhatIfCandidate candidate;
    candidate.label = label_of(variant, question.overrides);
    candidate.choices = variant.choices;
    plan(candidate.label, variant, question.overrides);
    answer.candidates.push_back(std::move(candidate));
  }
  RunSettings settings;
  settings.series = question.from_s > 0;
  std::vector<std::optional<output::RunResult>> results = run_all(planned, settings);
  take_runs(answer.as_is, results, 0, question, answer.interrupted);
  for (std::size_t i = 0; i < answer.candidates.size(); ++i)
    take_runs(answer.candidates[i], results, (i + 1) * question.seeds, question,
              answer.interrupted);
  return answer;
}

const WhatIfCandidate* best_of(const WhatIfAnswer& answer) {
  if (answer.interrupted || !answer.as_is.failure.empty()) return nullptr;
  const Figure& figure = figure_named("samples_per_s");
  const double now = estimate(values_of(answer.as_is, figure)).mean;
  const WhatIfCandidate* best = nullptr;
  double most = kGainLeast * now;
  for (const WhatIfCandidate& candidate : answer.candidates) {
    if (!candidate.failure.empty()) continue;
    const Estimate gain = gain_of(answer, candidate, figure);
    if (!is_significant(gain) || gain.mean <= most) continue;
    most = gain.mean;
    best = &candidate;
  }
  return best;
}

// ------------------------------------------------------------------------------ for people ----

std::vector<std::string> far_from_recorded(const WhatIfAnswer& answer,
                                           const RecordedResult& recorded) {
  std::vector<std::string> lines;
  if (!recorded || answer.as_is.runs.empty()) return lines;
  for (const Compared& one : kCompared) {
    const Figure& figure = figure_named(one.field);
    const double was = figure.value(*recorded);
    const double is = estimate(values_of(answer.as_is, figure)).mean;
    const double away = one.is_part ? std::abs(is - was)
                        : was > 0   ? std::abs(is - was) / was
                        : is > 0    ? 1.
                                    : 0.;
    if (away <= one.far) continue;
    lines.push_back(fmt::format("{} was {} and is simulated as {} ({}{})", figure.name,
                                figure.text(was), figure.text(is), is < was ? "-" : "+",
                                one.is_part ? fmt::format("{:.1f} points", 100 * away)
                                            : fmt::format("{:.0f} %", 100 * away)));
  }
  return lines;
}

std::string whatif_table(const WhatIfAnswer& answer, const RecordedResult& recorded) {
  if (answer.as_is.runs.empty()) return "there are no results\n";
  const std::vector<const Figure*> figures = compared_figures(answer.as_is.runs.front());
  std::vector<std::vector<std::string>> rows{{""}};
  for (const Figure* figure : figures) rows[0].emplace_back(figure->name);
  const auto add = [&](const std::string& name, const auto& value) {
    std::vector<std::string> row{name};
    for (const Figure* figure : figures) row.push_back(figure->text(value(*figure)));
    rows.push_back(std::move(row));
  };
  if (recorded) add("recorded", [&](const Figure& figure) { return figure.value(*recorded); });
  const auto add_means = [&](const std::string& name, const WhatIfCandidate& candidate) {
    if (!candidate.runs.empty())
      add(name, [&](const Figure& figure) { return estimate(values_of(candidate, figure)).mean; });
  };
  add_means(recorded ? "simulated as recorded" : "simulated as it is", answer.as_is);
  for (const WhatIfCandidate& candidate : answer.candidates)
    add_means(output::printable(candidate.label), candidate);
  std::string text = aligned(rows);
  if (!answer.as_is.failure.empty())
    text += fmt::format("as it is: {}\n", output::printable(answer.as_is.failure));
  if (answer.candidates.empty()) return text;

  text += fmt::format("\ndifferences to what is simulated as {}, over {} seed{}{}\n",
                      recorded ? "recorded" : "it is", answer.seeds, answer.seeds == 1 ? "" : "s",
                      answer.seeds == 1 ? "; one seed has no interval" : ", with 95 % intervals");
  rows = {{""}};
  for (const Figure* figure : figures) rows[0].emplace_back(figure->name);
  const auto signed_text = [](const Figure& figure, double value) {
    return fmt::format("{}{}", value < 0 ? "-" : "+", figure.text(std::abs(value)));
  };
  for (const WhatIfCandidate& candidate : answer.candidates) {
    if (candidate.runs.size() != answer.as_is.runs.size()) continue;
    std::vector<std::string> row{output::printable(candidate.label)};
    for (const Figure* figure : figures) {
      const Estimate gain = gain_of(answer, candidate, *figure);
      row.push_back(std::isfinite(gain.margin)
                        ? fmt::format("{} ± {}{}", signed_text(*figure, gain.mean),
                                      figure->text(gain.margin), is_significant(gain) ? " *" : "")
                        : signed_text(*figure, gain.mean));
    }
    rows.push_back(std::move(row));
  }
  text += aligned(rows);
  if (answer.seeds > 1) text += "* is surely not zero\n";
  for (const WhatIfCandidate& candidate : answer.candidates)
    if (!candidate.failure.empty())
      text += fmt::format("{}: {}\n", output::printable(candidate.label),
                          output::printable(candidate.failure));
  const WhatIfCandidate* const best = best_of(answer);
  return text + (best == nullptr ? "no candidate is surely better\n"
                                 : fmt::format("surely better, and most of all: {}\n",
                                               output::printable(best->label)));
}

void add_whatif(Json& to, const WhatIfAnswer& answer, const RecordedResult& recorded) {
  const auto number = [](double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  };
  const auto figures_of = [&](const auto& value) {
    Json all = Json::object();
    for (const Compared& one : kCompared) all[one.field] = number(value(figure_named(one.field)));
    return all;
  };
  const auto means_of = [&](const WhatIfCandidate& candidate) {
    return figures_of(
        [&](const Figure& figure) { return estimate(values_of(candidate, figure)).mean; });
  };
  to["seeds"] = answer.seeds;
  to["interrupted"] = answer.interrupted;
  to["recorded"] = nullptr;
  if (recorded)
    to["recorded"] = figures_of([&](const Figure& figure) { return figure.value(*recorded); });
  to["as_is"] = {{"figures", means_of(answer.as_is)}, {"failure", answer.as_is.failure}};
  to["candidates"] = Json::array();
  for (const WhatIfCandidate& candidate : answer.candidates) {
    Json choices = Json::array();
    for (const auto& [kind, text] : candidate.choices)
      choices.push_back(fmt::format("{}={}", kind, text));
    Json one = {{"label", candidate.label},
                {"choices", choices},
                {"failure", candidate.failure},
                {"figures", means_of(candidate)},
                {"differences", Json::object()}};
    if (!candidate.runs.empty() && candidate.runs.size() == answer.as_is.runs.size()) {
      for (const Compared& field : kCompared) {
        const Estimate gain = gain_of(answer, candidate, figure_named(field.field));
        one["differences"][field.field] = {{"mean", number(gain.mean)},
                                           {"low", number(gain.mean - gain.margin)},
                                           {"high", number(gain.mean + gain.margin)},
                                           {"sure", is_significant(gain)}};
      }
    }
    to["candidates"].push_back(std::move(one));
  }
  const WhatIfCandidate* const best = best_of(answer);
  to["best"] = best == nullptr ? Json(nullptr) : Json(best->label);
  to["far"] = far_from_recorded(answer, recorded);
}

}  // namespace batchflow::sim
