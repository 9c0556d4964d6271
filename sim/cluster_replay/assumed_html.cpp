#include "sim/cluster_replay/replay_html.h"

#include <fmt/format.h>

#include "sim/numbers.h"
#include "sim/report/html.h"

namespace batchflow::sim {

namespace {

std::string varied(const std::string& text, const input::Spread& spread) {
  return spread.ratio > 0 ? fmt::format("{} ± {:.0f} %", text, 100 * spread.ratio) : text;
}

std::string seconds_text(Duration duration) {
  return time_text(static_cast<double>(duration.count()) * 1e-9);
}

std::string rule_text(const input::OverlayClass& overlay_class) {
  std::string text;
  const auto add = [&](const std::string& rule) { text += (text.empty() ? "" : ", ") + rule; };
  const auto words = [](const std::vector<std::string>& all) {
    std::string joined;
    for (const std::string& word : all) joined += (joined.empty() ? "" : " or ") + word;
    return joined;
  };
  if (overlay_class.gpus_least > 0) add(fmt::format("{:g} GPUs or more", overlay_class.gpus_least));
  if (overlay_class.gpus_most > 0) add(fmt::format("{:g} GPUs or fewer", overlay_class.gpus_most));
  if (overlay_class.lasts_least.count() > 0)
    add(fmt::format("{} or longer", seconds_text(overlay_class.lasts_least)));
  if (overlay_class.lasts_most.count() > 0)
    add(fmt::format("{} or shorter", seconds_text(overlay_class.lasts_most)));
  if (!overlay_class.users.empty()) add("of " + words(overlay_class.users));
  if (!overlay_class.names.empty()) add("named " + words(overlay_class.names));
  return text.empty() ? "any" : text;
}

std::string steps_text(const input::OverlayClass& overlay_class) {
  std::string text;
  for (const input::AppliedStep& step :
       overlay_class.pipeline.applied(overlay_class.dataset.bytes)) {
    text += fmt::format("{}{}{} {:g} ms", text.empty() ? "" : ", ", step.step->name,
                        step.step->random ? " (random)" : "",
                        static_cast<double>(step.cost.count()) * 1e-6);
  }
  return text.empty() ? "none" : text;
}

std::string of_all(const input::OverlayModel& overlay) {
  const auto row = [](const char* name, std::string value, const char* means) {
    return std::vector<Cell>{text_cell(name), text_cell(std::move(value)), text_cell(means)};
  };
  return html_table(
      {{"assumption", "", true}, {"value"}, {"what it means", "", true}},
      {row("busy", percent(overlay.busy),
           "of the time on record GPUs computed; the rest they waited for data"),
       row("reuse", percent(overlay.reuse),
           "of jobs train on what the same user's last job trained on"),
       row("popularity", fmt::format("{:g}", overlay.popularity),
           "Zipf's exponent over the datasets of a class"),
       row("same_pipeline", percent(overlay.same_pipeline),
           "of jobs prepare a dataset as most do, the others in their user's own way")});
}

std::string of_classes(const input::OverlayModel& overlay) {
  std::vector<std::vector<Cell>> rows;
  for (const input::OverlayClass& overlay_class : overlay.classes) {
    rows.push_back(
        {text_cell(overlay_class.name), text_cell(fmt::format("{:g}", overlay_class.share)),
         text_cell(rule_text(overlay_class)), text_cell(count_text(overlay_class.datasets)),
         text_cell(varied(count_text(overlay_class.dataset.samples), overlay_class.dataset_size)),
         text_cell(size_text(overlay_class.dataset.bytes)), text_cell(steps_text(overlay_class)),
         text_cell(varied(rate_text(overlay_class.samples_per_s), overlay_class.speed))});
  }
  return html_table({{"class", "", true},
                     {"share", "its weight among the classes that take a job"},
                     {"takes jobs", "", true},
                     {"datasets"},
                     {"samples", "of one of them; and how they vary"},
                     {"bytes", "of a stored sample"},
                     {"preparation", "on one core", true},
                     {"samples/s", "that one GPU trains on; and how models vary"}},
                    rows);
}

std::string of_trace(const Replayed& replayed) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [why, count] : left_out_reasons(replayed.left_out)) {
    if (count == 0) continue;
    rows.push_back({text_cell(count_text(count)), text_cell("jobs"), text_cell(why),
                    text_cell("left out of the replay"), text_cell("")});
  }
  for (std::size_t i = 0; i < traces::kProblems; ++i) {
    const traces::ProblemCount& problem = replayed.trace.problems[i];
    if (problem.rows == 0) continue;
    const traces::ProblemKind& kind = traces::kind_of(static_cast<traces::Problem>(i));
    rows.push_back(
        {text_cell(count_text(problem.rows)), text_cell("rows"), text_cell(std::string(kind.what)),
         text_cell(std::string(kind.remedy)),
         text_cell(problem.first_line > 0 ? fmt::format("line {}", problem.first_line) : "")});
  }
  if (rows.empty()) return "<p>Nothing: every row of the log is a job that is replayed.</p>";
  return html_table({{"count"},
                     {"of", "", true},
                     {"what", "", true},
                     {"became of it", "", true},
                     {"first", "", true}},
                    rows);
}

}  // namespace

std::string assumed_html(const Replayed& replayed) {
  const input::OverlayModel& overlay = replayed.overlay;
  return html_section(
             "assumed", "What is assumed",
             fmt::format("The log says which job ran when on how many GPUs, and nothing of what "
                         "was read. All of this is the overlay '{}', no finding: {}. "
                         "--sensitivity shows what depends on it.",
                         overlay.name, overlay.about),
             of_all(overlay) + of_classes(overlay)) +
         html_section("left-out", "What was left out or repaired", "", of_trace(replayed));
}

}  // namespace batchflow::sim
