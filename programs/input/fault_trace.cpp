#include "programs/input/fault_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>

namespace batchflow::input {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\"");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\"") - first + 1);
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma == line.npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

struct Outage {
  Duration down{0};
  std::optional<Duration> up;
};

class FaultTrace {
 public:
  FaultTrace(Scenario& scenario, const std::string& path, const ReadFaultTime& other_time)
      : scenario_(scenario), path_(path), other_time_(other_time) {}

  FaultTraceCounts run() {
    std::ifstream file(path_ == "-" ? "/dev/stdin" : path_);
    if (!file) throw ConfigError(path_ + ": cannot be read; name a CSV with node, down and up");
    for (std::string line; std::getline(file, line);) {
      ++number_;
      if (trimmed(line).empty() || trimmed(line).front() == '#') continue;
      has_header_ ? read_row(line) : read_header(line);
    }
    if (!has_header_) throw ConfigError(path_ + ": is empty; its first line is `node,down,up`");
    add();
    return counts_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(fmt::format("{}:{}: {}", path_, number_, what));
  }

  void read_header(const std::string& line) {
    const std::vector<std::string_view> fields = fields_of(line);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto found = std::find(fields.begin(), fields.end(), kColumns[i]);
      if (found == fields.end()) {
        refuse(fmt::format("there is no column '{}' in '{}'; the first line is `node,down,up`",
                           kColumns[i], line));
      }
      columns_[i] = static_cast<std::size_t>(found - fields.begin());
    }
    fields_ = fields.size();
    has_header_ = true;
  }

  Duration time(std::string_view text) const {
    if (const auto seconds = parse_number(text); seconds && std::abs(*seconds) < 4e9)
      return Duration(std::llround(*seconds * 1e9));
    if (const auto duration = parse_duration(text)) return *duration;
    if (other_time_) {
      if (const auto duration = other_time_(text)) return *duration;
    }
    refuse(fmt::format("'{}' is not a time; write seconds or 10min since the start{}", text,
                       other_time_ ? ", or a date of the log's calendar" : ""));
  }

  void read_row(const std::string& line) {
    const std::vector<std::string_view> fields = fields_of(line);
    if (fields.size() != fields_)
      refuse(fmt::format("the line has {} fields, and the first line {}", fields.size(), fields_));
    const std::string name(fields[columns_[0]]);
    const int node = scenario_.cluster.node(name);
    if (node < 0) {
      std::vector<std::string_view> names;
      for (const NodeModel& model : scenario_.cluster.nodes) names.push_back(model.name);
      const std::string nearest = nearest_name(name, names);
      refuse(fmt::format("the cluster has no node '{}'; {}", name,
                         nearest.empty()
                             ? fmt::format("its first is '{}'", scenario_.cluster.nodes[0].name)
                             : fmt::format("write '{}'", nearest)));
    }
    Outage outage{time(fields[columns_[1]]), {}};
    if (const std::string_view up = fields[columns_[2]]; !up.empty()) {
      outage.up = time(up);
      if (*outage.up <= outage.down)
        refuse(fmt::format("node '{}' is up before it is down; write a later time", name));
    }
    outages_[node].push_back(outage);
  }

  void add() {
    for (auto& [node, outages] : outages_) {
      std::sort(outages.begin(), outages.end(),
                [](const Outage& a, const Outage& b) { return a.down < b.down; });
      std::vector<Outage> merged;
      for (const Outage& one : outages) {
        const bool overlaps =
            !merged.empty() && (!merged.back().up || one.down <= *merged.back().up);
        if (!overlaps) {
          merged.push_back(one);
        } else if (merged.back().up) {
          merged.back().up = one.up ? std::optional(std::max(*merged.back().up, *one.up)) : one.up;
        }
      }
      for (const Outage& one : merged) add(node, one);
    }
  }

  void add(int node, const Outage& outage) {
    if (outage.up && *outage.up <= Duration(0)) return void(++counts_.too_early);
    if (scenario_.ends_after.count() > 0 && outage.down >= scenario_.ends_after)
      return void(++counts_.too_late);
    FaultModel fault;
    fault.kind = FaultModel::Kind::node_lost;
    fault.index = static_cast<std::size_t>(node);
    fault.name = scenario_.cluster.nodes[fault.index].name;
    const Duration at = std::max(Duration(0), outage.down);
    fault.at = Instant(at);
    if (outage.up) fault.lasts = *outage.up - at;
    const bool is_long = scenario_.after_loss == AfterLoss::waits &&
                         (fault.lasts.count() == 0 || fault.lasts > scenario_.engine.rank_timeout);
    counts_.too_long += is_long;
    scenario_.faults.push_back(std::move(fault));
    ++counts_.faults;
  }

  static constexpr std::array<std::string_view, 3> kColumns = {"node", "down", "up"};

  Scenario& scenario_;
  const std::string& path_;
  const ReadFaultTime& other_time_;
  std::map<int, std::vector<Outage>> outages_;  // by node
  std::array<std::size_t, 3> columns_{};
  std::size_t fields_ = 0;
  std::size_t number_ = 0;
  bool has_header_ = false;
  FaultTraceCounts counts_;
};

}  // namespace

std::string text_of(const FaultTraceCounts& counts, const Scenario& scenario) {
  const auto losses = [](std::size_t count) {
    return fmt::format("{} loss{} of nodes", count, count == 1 ? "" : "es");
  };
  if (counts.faults + counts.too_early + counts.too_late == 0) return "";
  std::string text = losses(counts.faults) + " will strike";
  if (counts.too_early > 0) text += fmt::format("; {} before the start", losses(counts.too_early));
  if (counts.too_late > 0) text += fmt::format("; {} after the end", losses(counts.too_late));
  if (counts.too_long > 0) {
    text += fmt::format(
        "; {} longer than engine.rank_timeout ({:.3g} s), after which the jobs that have ranks "
        "there end with an error: --set engine.rank_timeout=1d lets them go on",
        losses(counts.too_long),
        std::chrono::duration<double>(scenario.engine.rank_timeout).count());
  }
  return text;
}

FaultTraceCounts add_fault_trace(Scenario& scenario, const std::string& path,
                                 const ReadFaultTime& other_time) {
  return FaultTrace(scenario, path, other_time).run();
}

}  // namespace batchflow::input
