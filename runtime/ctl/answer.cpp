#include "runtime/ctl/answer.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/output/terminal.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

std::string ranks_text(const json& job) {
  std::string ranks = fmt::format("{:.0f}", number(job, "ranks"));
  if (const double remote = number(job, "remote_ranks"); remote > 0) {
    ranks += fmt::format(", {:.0f} from", remote);
    for (const json& one : list(job, "from"))
      if (one.is_string()) ranks += " " + output::printable(one.get<std::string>());
  }
  return ranks;
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string jobs_table(const json& status) {
  std::vector<std::vector<std::string>> rows = {{"job", "dataset", "pipeline", "ranks", "batch",
                                                 "epoch", "steps", "samples", "stalled", "held",
                                                 "copied"}};
  for (const json& job : list(status, "jobs")) {
    const double wait = number(job, "wait_s");
    rows.push_back({output::printable(text(job, "name")), output::printable(text(job, "dataset")),
                    output::printable(text(job, "pipeline")), ranks_text(job),
                    fmt::format("{:.0f}", number(job, "batch_samples")),
                    job.value("left", false)      ? "left"
                    : job.value("running", false) ? fmt::format("{:.0f}", number(job, "epoch"))
                                                  : "waits",
                    fmt::format("{:.0f}", number(job, "steps")),
                    fmt::format("{:.0f}", number(job, "samples")),
                    share_text(wait, wait + number(job, "compute_s")),
                    fmt::format("{:.0f}", number(job, "held_batches")),
                    fmt::format("{:.0f}", number(job, "copied_batches"))});
  }
  const double others = number(status.value("others", json::object()), "jobs");
  std::string returning;
  for (const json& name : list(status, "returning"))
    returning +=
        fmt::format("{}{}", returning.empty() ? "not back from the service before: " : ", ",
                    output::printable(name.get<std::string>()));
  if (!returning.empty()) returning += '\n';
  return (rows.size() == 1 ? "no jobs\n" : table(rows)) + returning +
         (others > 0 ? fmt::format("{:.0f} jobs of other users\n", others) : "");
}

std::string datasets_table(const json& status) {
  std::vector<std::vector<std::string>> rows = {
      {"dataset", "samples", "classes", "pinned", "version", "path"}};
  for (const json& one : list(status, "datasets")) {
    rows.push_back({output::printable(text(one, "name")),
                    one.contains("feed") ? "no end" : fmt::format("{:.0f}", number(one, "samples")),
                    fmt::format("{:.0f}", number(one, "classes")), flag(one, "pinned") ? "yes" : "",
                    text(one, "version"), output::printable(text(one, "path"))});
  }
  std::string feeds;
  for (const json& one : list(status, "datasets")) {
    if (!one.contains("feed")) continue;
    const json& feed = one["feed"];
    feeds += fmt::format(
        "feed {}: records {:.0f} to {:.0f}{}, {:.0f} producers{}; left out: {:.0f} doubled, {:.0f} "
        "late, {:.0f} thinned, {:.0f} malformed{}\n",
        output::printable(text(one, "name")), number(feed, "first"), number(feed, "end"),
        flag(feed, "ended") ? ", ended" : "", number(feed, "producers"),
        flag(feed, "waits") ? ", which wait" : "", number(feed, "doubled"), number(feed, "late"),
        number(feed, "thinned"), number(feed, "malformed"),
        text(feed, "problem").empty()
            ? ""
            : fmt::format("; it is held up: {}", output::printable(text(feed, "problem"))));
  }
  return rows.size() == 1 ? "no datasets\n" : table(rows) + feeds;
}

std::string quotas_table(const json& quotas) {
  std::vector<std::vector<std::string>> rows = {
      {"user", "jobs", "batches", "connections", "messages/s", "frames", "weight"}};
  const auto part_of = [](const std::string& taken, const std::string& most) {
    return taken + " of " + most;
  };
  const auto count = [](const json& from, const char* key) {
    return fmt::format("{:.0f}", number(from, key));
  };
  for (const json& one : list(quotas, "users")) {
    const double batches = number(one, "batch_bytes_most");
    rows.push_back(
        {output::printable(text(one, "user")), part_of(count(one, "jobs"), count(one, "jobs_most")),
         batches > 0 ? part_of(bytes_text(number(one, "batch_bytes")), bytes_text(batches))
                     : bytes_text(number(one, "batch_bytes")),
         part_of(count(one, "connections"), count(one, "connections_most")),
         count(one, "messages_per_s_most"), bytes_text(number(one, "frame_bytes_most")),
         fmt::format("{:g}", number(one, "weight"))});
  }
  return table(rows);
}

// What people should know of it.
static std::string step_remark(const json& step) {
  if (flag(step, "broken")) return "broken";
  const std::string why = text(step, "folder_problem");
  return why.empty() ? "" : fmt::format("no temporary folder ({})", output::printable(why));
}

// How plugin steps do, which run in processes of their own.
static std::string plugins_table(const json& status) {
  std::vector<std::vector<std::string>> rows = {{"step", "pipeline", "dataset", "samples",
                                                 "ms each", "corrupt", "starts", "crashes",
                                                 "too late", ""}};
  for (const json& one : list(status, "plugins")) {
    const auto count = [&one](const char* key) { return fmt::format("{:.0f}", number(one, key)); };
    const double calls = number(one, "samples") + number(one, "corrupt");
    rows.push_back({output::printable(text(one, "step")), output::printable(text(one, "pipeline")),
                    output::printable(text(one, "dataset")), count("samples"),
                    fmt::format("{:.2f}", calls > 0 ? 1000 * number(one, "busy_s") / calls : 0.0),
                    count("corrupt"), count("starts"), count("crashes"), count("late"),
                    step_remark(one)});
  }
  return table(rows);
}

// What eviction loses against caches as large that knew all next uses.
std::string regret_text(const json& status) {
  const double requests = number(status, "followed_requests");
  if (requests <= 0) return "no request of a sample was followed";
  return fmt::format("{} of followed requests hit caches of samples; knowing all next uses: {}",
                     share_text(number(status, "followed_hits"), requests),
                     share_text(number(status, "followed_bound_hits"), requests));
}

std::string nodes_table(const json& status) {
  std::vector<std::vector<std::string>> rows = {{"node", "name", "cores", "memory", "used", "ranks",
                                                 "read", "fetched", "prepared", "ms each",
                                                 "version", "address"}};
  const auto add = [&](const json& one, const std::string& name, const std::string& address,
                       double cores, double memory, double ranks, double preparing_s) {
    const double prepared = number(one, "prepared_samples");
    rows.push_back({fmt::format("{:.0f}", one.contains("node") ? number(one, "node") : 0.0), name,
                    fmt::format("{:.0f}", cores), bytes_text(memory),
                    bytes_text(number(one, "used_bytes")), fmt::format("{:.0f}", ranks),
                    bytes_text(number(one, "read_bytes")), bytes_text(number(one, "fetched_bytes")),
                    fmt::format("{:.0f}", prepared),
                    prepared > 0 ? fmt::format("{:.2f}", 1000 * preparing_s / prepared) : "-",
                    output::printable(text(one, "version")), address});
  };
  add(status, "(this one)", "", number(status, "workers_most"), number(status, "planned_bytes"),
      number(status, "connections"), number(status, "preparing_s"));
  for (const json& one : list(status, "nodes"))
    add(one, output::printable(text(one, "name")) + (flag(one, "ready") ? "" : " (opens datasets)"),
        output::printable(text(one, "address")), number(one, "cores"), number(one, "memory"),
        number(one, "ranks"), number(one, "preparing_ns") / 1e9);
  return table(rows);
}

std::string status_text(const json& status) {
  const double prepared = number(status, "prepared_samples");
  std::string out =
      fmt::format("batchflowd {} (process {:.0f}), up {:.0f} s\n", text(status, "version"),
                  number(status, "pid"), number(status, "up_s"));
  if (const std::string page = text(status, "page"); !page.empty())
    out += fmt::format("page        {}\n", output::printable(page));
  if (const std::string page = text(status, "page_with_all_names"); !page.empty())
    out += fmt::format("            {} has all names and paths; keep it to yourself\n",
                       output::printable(page));
  out += fmt::format("storage     {}; {} read, {:.0f} samples in {:.0f} reads, {:.0f} errors\n",
                     text(status, "storage"), bytes_text(number(status, "read_bytes")),
                     number(status, "read_samples"), number(status, "device_reads"),
                     number(status, "read_errors"));
  out += fmt::format("memory      {} of {} used, {} for blocks, {} for samples; {:.0f} waits\n",
                     bytes_text(number(status, "used_bytes")),
                     bytes_text(number(status, "cache_bytes")),
                     bytes_text(number(status, "block_bytes")),
                     bytes_text(number(status, "item_bytes")), number(status, "no_memory"));
  out += fmt::format(
      "staging     {} of {} used, {} at most so far\n", bytes_text(number(status, "staged_bytes")),
      bytes_text(number(status, "staging_bytes")), bytes_text(number(status, "staged_bytes_most")));
  if (number(status, "spill_limit_bytes") > 0 || number(status, "spill_errors") > 0) {
    out += fmt::format(
        "spill       {} of {}; {} written, {} read back; missed {:.0f}, changed {:.0f}, errors "
        "{:.0f}{}\n",
        bytes_text(number(status, "spill_bytes")), bytes_text(number(status, "spill_limit_bytes")),
        bytes_text(number(status, "spill_written_bytes")),
        bytes_text(number(status, "spill_read_bytes")), number(status, "spill_missed"),
        number(status, "spill_mismatched"), number(status, "spill_errors"),
        number(status, "spill_limit_bytes") > 0 ? "" : ": given up");
  }
  out += fmt::format(
      "preparation {:.0f} samples by {:.0f} of {:.0f} workers, {:.2f} ms each; from the cache: {} "
      "decoded, {} as stored\n",
      prepared, number(status, "workers"), number(status, "workers_most"),
      prepared > 0 ? 1000 * number(status, "preparing_s") / prepared : 0.0,
      share_text(number(status, "decoded_hits"), prepared),
      share_text(number(status, "encoded_hits"), prepared));
  out += fmt::format("regret      {}\n", regret_text(status));
  out += fmt::format(
      "delivery    {:.0f} batches, {:.0f} samples ({:.2f} for each prepared), {:.0f} copied; "
      "repeats "
      "{:.0f}, made again {:.0f}, corrupt {:.0f}\n\n",
      number(status, "batches"), number(status, "samples"),
      prepared > 0 ? number(status, "samples") / prepared : 0.0, number(status, "copied_samples"),
      number(status, "repeats"), number(status, "remakes"), number(status, "corrupt_samples"));
  const std::string plugins = list(status, "plugins").empty() ? "" : plugins_table(status) + "\n";
  const std::string nodes = list(status, "nodes").empty() ? "" : nodes_table(status) + "\n";
  return out + nodes + datasets_table(status) + "\n" + plugins + jobs_table(status);
}

std::string cache_text(const json& status) {
  std::vector<std::vector<std::string>> rows = {
      {"form", "tier", "dataset", "pipeline", "share", "items", "bytes", "of all"}};
  const double all = number(status, "cache_bytes");
  const double spill = number(status, "spill_limit_bytes");
  for (const json& one : list(status, "cache")) {
    const double bytes = number(one, "bytes");
    const double room = number(one, "room");
    rows.push_back(
        {text(one, "form"), text(one, "tier"), output::printable(text(one, "dataset")),
         output::printable(text(one, "pipeline")), fmt::format("{:.0f}", number(one, "share")),
         room > 0 ? fmt::format("{:.0f} of {:.0f}", number(one, "items"), room)
                  : fmt::format("{:.0f}", number(one, "items")),
         bytes_text(bytes), share_text(bytes, text(one, "tier") == "nvme" ? spill : all)});
  }
  const double prepared = number(status, "prepared_samples");
  return (rows.size() == 1 ? "nothing is kept\n" : table(rows)) +
         fmt::format(
             "\n{} of {} in use; of the samples prepared so far, {} came decoded and {} as stored "
             "out of the cache\n",
             bytes_text(number(status, "item_bytes") + number(status, "block_bytes")),
             bytes_text(all), share_text(number(status, "decoded_hits"), prepared),
             share_text(number(status, "encoded_hits"), prepared));
}

json cache_json(const json& status) {
  const double prepared = number(status, "prepared_samples");
  const auto ratio = [&](const char* hits) {
    return prepared > 0 ? number(status, hits) / prepared : 0;
  };
  return {{"limit_bytes", number(status, "cache_bytes")},
          {"spill_limit_bytes", number(status, "spill_limit_bytes")},
          {"shares", list(status, "cache")},
          {"prepared_samples", prepared},
          {"decoded_hit_ratio", ratio("decoded_hits")},
          {"encoded_hit_ratio", ratio("encoded_hits")}};
}

json jobs_json(const json& status) {
  return {{"jobs", list(status, "jobs")}};
}

json nodes_json(const json& status) {
  return {{"nodes", list(status, "nodes")}};
}

json datasets_json(const json& status) {
  return {{"datasets", list(status, "datasets")}};
}

std::string printable_lines(const std::string& raw) {
  std::string out;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t end = std::min(raw.find('\n', at), raw.size());
    out += output::printable(raw.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return out;
}

std::string described_text(const json& answer) {
  return text(answer, "text") + "\n";
}

std::string stats_head() {
  return fmt::format("{:>10} {:>12} {:>12} {:>12} {:>11} {:>8} {:>6} {:>7}", "batches/s",
                     "samples/s", "prepared/s", "read", "blocks", "workers", "jobs", "regret");
}

json stats_json(const json& before, const json& now) {
  const double seconds = std::max(1e-3, number(now, "up_s") - number(before, "up_s"));
  const auto rate = [&](const char* key) {
    return (number(now, key) - number(before, key)) / seconds;
  };
  const double followed = rate("followed_requests");
  const double regret = rate("followed_bound_hits") - rate("followed_hits");
  return {{"batches_per_s", rate("batches")},
          {"samples_per_s", rate("samples")},
          {"prepared_per_s", rate("prepared_samples")},
          {"read_bytes_per_s", rate("read_bytes")},
          {"block_bytes", number(now, "block_bytes")},
          {"workers", number(now, "workers")},
          {"jobs", list(now, "jobs").size()},
          {"regret", followed > 0 ? json(regret / followed) : json(nullptr)}};
}

std::string stats_line(const json& before, const json& now) {
  const json line = stats_json(before, now);
  const json& regret = line.at("regret");
  return fmt::format("{:>10.1f} {:>12.1f} {:>12.1f} {:>10}/s {:>11} {:>8.0f} {:>6} {:>7}",
                     number(line, "batches_per_s"), number(line, "samples_per_s"),
                     number(line, "prepared_per_s"), bytes_text(number(line, "read_bytes_per_s")),
                     bytes_text(number(line, "block_bytes")), number(line, "workers"),
                     line.at("jobs").get<std::size_t>(),
                     regret.is_null() ? "-" : fmt::format("{:.1f} %", 100 * regret.get<double>()));
}

void write_answer(const output::OutputFlags& outputs, const nlohmann::json& answer,
                  const std::string& for_people) {
  if (outputs.wanted("json"))
    outputs.write("json", answer.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  else
    outputs.write_text(printable_lines(for_people));
}

}  // namespace batchflow::ctl
