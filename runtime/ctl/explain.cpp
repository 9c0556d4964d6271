#include "runtime/ctl/reasons.h"

#include "fmt/format.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

constexpr std::size_t kDecisionsShown = 20;

std::string waiting_to_begin(const json& job) {
  const double here = number(job, "ranks_here");
  const double ranks = number(job, "ranks");
  const double waits = number(job, "waits_to_begin_s");
  if (here < ranks)
    return fmt::format(
        "has not begun: {:.0f} of {:.0f} ranks have come in {:.1f} s; the others "
        "must join with the same name, world size, batch size and order",
        here, ranks, waits);
  return fmt::format("has not begun: it waits for the engine's admission since {:.1f} s", waits);
}

std::string waiting_for_stage(const json& status, const json& job) {
  const std::string stage = text(job, "waits_for");
  if (stage == "storage")
    return fmt::format("its next block is being read: {:.0f} blocks are read now, by {}",
                       number(status, "reads_now"), text(status, "storage"));
  if (stage == "preparation")
    return fmt::format(
        "its next block is with the workers, or waits for one: {:.0f} workers have "
        "{:.0f} blocks",
        number(status, "workers"), number(status, "preparing_now"));
  if (stage == "delivery") return "its batch is being gathered from several blocks";
  if (stage == kRecordsStage)
    return fmt::format("it has had all records of '{}' that there are, and waits for more",
                       text(job, "dataset"));
  return fmt::format(
      "no block of it is being read, prepared or gathered: it waits for memory (it holds {:.0f} "
      "batches), for other ranks, or for what policy '{}' holds back",
      number(job, "held_batches"), text(object(status, "policies"), "dispatch"));
}

std::string sentence(const json& status, const json& job) {
  if (!flag(job, "running")) return waiting_to_begin(job);
  const double waiting = number(job, "waiting_ranks");
  if (waiting == 0)
    return fmt::format(
        "waits for nothing: it computes, and {:.0f} batches are held by it or "
        "ready for it",
        number(job, "held_batches"));
  return fmt::format("waits for a batch with {:.0f} of {:.0f} ranks, the longest for {:.3f} s; {}",
                     waiting, number(job, "ranks"), number(job, "waits_s"),
                     waiting_for_stage(status, job));
}

std::string stalls_line(const json& job) {
  std::string line;
  for (const char* stage : kStages) {
    const double waited_s = number(object(job, "stall_s"), stage);
    if (stage != kRecordsStage || waited_s > 0)
      line += fmt::format("{}{:.1f} s {}", line.empty() ? "" : ", ", waited_s, stage);
  }
  return line;
}

// Whether a text names this job in the engine's words: `job 3`, but not `job 31`.
bool names(const std::string& text, const std::string& job) {
  for (std::size_t at = text.find(job); at != std::string::npos; at = text.find(job, at + 1)) {
    const std::size_t end = at + job.size();
    if (end == text.size() || text[end] < '0' || text[end] > '9') return true;
  }
  return false;
}

std::string decisions_text(const json& decisions, const std::string& job) {
  std::vector<std::string> lines;
  for (const json& one : list(decisions, "decisions")) {
    const std::string what = text(one, "what");
    if (!job.empty() && !names(what, job) && !names(text(one, "numbers"), job)) continue;
    lines.push_back(fmt::format("  {:.3f} s  {} {}: {}\n             {}\n", number(one, "at_s"),
                                text(one, "kind"), text(one, "policy"), what,
                                text(one, "numbers")));
  }
  std::string out;
  const std::size_t first = lines.size() - std::min(lines.size(), kDecisionsShown);
  for (std::size_t i = first; i < lines.size(); ++i) out += lines[i];
  return out;
}

}  // namespace

std::string explain_text(const json& status, const json& decisions, std::string_view wanted) {
  std::string out, engine_name;
  for (const json& job : list(status, "jobs")) {
    const std::string name = text(job, "name");
    if (!wanted.empty() && name != wanted) continue;
    out += fmt::format("job '{}' on '{}' {}\n", name, text(job, "dataset"), sentence(status, job));
    out += fmt::format("  it has waited {}\n", stalls_line(job));
    if (!wanted.empty()) engine_name = fmt::format("job {:.0f}", number(job, "id"));
  }
  if (out.empty())
    return wanted.empty() ? "no jobs\n" : fmt::format("no job is called '{}'\n", wanted);
  if (!flag(decisions, "is_on"))
    return out + "decisions are not kept; start the service with --explain to see them\n";
  const std::string last = decisions_text(decisions, engine_name);
  return out + (last.empty() ? "no decision of late\n" : "decisions of late\n" + last);
}

}  // namespace batchflow::ctl
