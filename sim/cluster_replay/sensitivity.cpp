#include "sim/cluster_replay/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "programs/output/terminal.h"
#include "sim/cluster_replay/replay_summary.h"
#include "sim/numbers.h"
#include "sim/report/html.h"
#include "sim/run_report.h"

namespace batchflow::sim {

namespace {

Assumption share(const char* name, const input::OverlayModel& overlay,
                 double input::OverlayModel::*value) {
  const double usual = overlay.*value;
  Assumption assumption{name, percent(usual), {}};
  for (const double other : {usual / 2, (1 + usual) / 2}) {
    assumption.changed.push_back({percent(other), overlay});
    assumption.changed.back().overlay.*value = other;
  }
  return assumption;
}

Assumption factor(const char* name, const std::string& usual, const input::OverlayModel& overlay,
                  void (*scale)(input::OverlayModel&, double)) {
  Assumption assumption{name, usual, {}};
  for (const double times : {0.5, 2.}) {
    assumption.changed.push_back({fmt::format("x {:g}", times), overlay});
    scale(assumption.changed.back().overlay, times);
  }
  return assumption;
}

std::uint64_t scaled(std::uint64_t count, double times) {
  return std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * times)));
}

void scale_samples(input::OverlayModel& overlay, double times) {
  for (input::OverlayClass& overlay_class : overlay.classes)
    overlay_class.dataset.samples = scaled(overlay_class.dataset.samples, times);
}
void scale_bytes(input::OverlayModel& overlay, double times) {
  for (input::OverlayClass& overlay_class : overlay.classes)
    overlay_class.dataset.bytes = scaled(overlay_class.dataset.bytes, times);
}
void scale_speeds(input::OverlayModel& overlay, double times) {
  for (input::OverlayClass& overlay_class : overlay.classes) overlay_class.samples_per_s *= times;
}
void scale_costs(input::OverlayModel& overlay, double times) {
  for (input::OverlayClass& overlay_class : overlay.classes) {
    for (input::StepModel& step : overlay_class.pipeline.steps) {
      step.cost = Duration(std::llround(static_cast<double>(step.cost.count()) * times));
      step.ns_per_byte *= times;
    }
  }
}

// ----------------------------------------------------------------------------------- rows ----

// The figures of the runs with one setting of the assumptions.
struct Outcome {
  std::string assumption;
  std::string value;
  std::vector<ReplayGroup> groups;
};

std::vector<Outcome> outcomes(const Sensitivity& study) {
  std::vector<Outcome> all{{"as assumed", "", study.usual}};
  std::size_t next = 0;
  for (const Assumption& assumption : study.assumptions) {
    for (const Assumption::Changed& change : assumption.changed) {
      if (next == study.changed.size()) return all;
      all.push_back({fmt::format("{} {}", assumption.name, assumption.usual), change.text,
                     study.changed[next++]});
    }
  }
  return all;
}

// The last policy against the first: what a study of policies asks for.
Estimate difference_of(const std::vector<ReplayGroup>& groups) {
  return groups.size() < 2 ? Estimate{} : change_of(groups.front(), groups.back(), headline());
}

// Whether another policy loses less than with the overlay as it is.
bool turns(const Outcome& outcome, const Outcome& usual) {
  return difference_of(outcome.groups).mean * difference_of(usual.groups).mean < 0;
}

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

Table table_of(const Sensitivity& study) {
  const std::vector<Outcome> all = outcomes(study);
  const std::vector<ReplayGroup>& usual = all.front().groups;
  Table table{{"assumption", "is"}, {}};
  for (const ReplayGroup& group : usual) table.head.push_back(name_of(group));
  if (usual.size() > 1) {
    table.head.push_back(
        fmt::format("{} against {}", name_of(usual.back()), name_of(usual.front())));
  }
  for (const Outcome& outcome : all) {
    std::vector<std::string> row{outcome.assumption, outcome.value};
    for (const ReplayGroup& group : usual) {
      const auto same = std::find_if(
          outcome.groups.begin(), outcome.groups.end(),
          [&](const ReplayGroup& other) { return other.front().label == group.front().label; });
      row.push_back(same == outcome.groups.end()
                        ? "-"
                        : headline().text(estimate_of(*same, headline()).mean));
    }
    if (usual.size() > 1) {
      const bool all_there = outcome.groups.size() == usual.size();
      const bool other = all_there && turns(outcome, all.front());
      row.push_back(
          all_there ? change_text(outcome.groups.front(), outcome.groups.back(), headline()) : "-");
      if (other) row.back() += ", the other way round";
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<Assumption> assumptions(const input::OverlayModel& overlay) {
  return {share("busy", overlay, &input::OverlayModel::busy),
          share("reuse", overlay, &input::OverlayModel::reuse),
          factor("popularity", fmt::format("{:g}", overlay.popularity), overlay,
                 [](input::OverlayModel& changed, double times) { changed.popularity *= times; }),
          share("same_pipeline", overlay, &input::OverlayModel::same_pipeline),
          factor("samples of datasets", "", overlay, scale_samples),
          factor("bytes of samples", "", overlay, scale_bytes),
          factor("costs of preparation", "", overlay, scale_costs),
          factor("speeds of models", "", overlay, scale_speeds)};
}

std::string sensitivity_table(const Sensitivity& study) {
  Table table = table_of(study);
  for (auto& row : table.rows) {
    for (std::string& text : row) text = output::printable(text);
  }
  table.rows.insert(table.rows.begin(), table.head);
  return fmt::format("{}, by what is assumed:\n{}", headline().name, aligned(table.rows));
}

std::string sensitivity_html(const Sensitivity& study) {
  const Table table = table_of(study);
  std::vector<Column> columns;
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    columns.push_back({table.head[i], "", i == 0});
  }
  std::vector<std::vector<Cell>> rows;
  for (const auto& row : table.rows) {
    std::vector<Cell>& cells = rows.emplace_back();
    for (const std::string& text : row) cells.push_back(text_cell(text));
  }
  return html_section("sensitivity", "What depends on the assumptions",
                      fmt::format("{}, with each assumption of the overlay lower and higher, and "
                                  "all others as they are. A difference between policies that is "
                                  "small, or turns, is no finding.",
                                  headline().name),
                      html_table(columns, rows));
}

std::string sensitivity_json(const Sensitivity& study) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Outcome& outcome : outcomes(study)) {
    Json policies = Json::array();
    for (const ReplayGroup& group : outcome.groups) {
      policies.push_back(
          {{"label", group.front().label}, {"gpu_h_lost", estimate_of(group, headline()).mean}});
    }
    Json entry{
        {"assumption", outcome.assumption}, {"value", outcome.value}, {"policies", policies}};
    if (const Estimate change = difference_of(outcome.groups); change.count > 0) {
      entry["last_less_first_gpu_h"] = change.mean;
      if (std::isfinite(change.margin)) entry["margin"] = change.margin;
    }
    list.push_back(std::move(entry));
  }
  return Json{{"sensitivity", list}}.dump();
}

}  // namespace batchflow::sim
