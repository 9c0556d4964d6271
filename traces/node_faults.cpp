#include "traces/node_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/config_value.h"
#include "traces/byte_source.h"
#include "traces/formats/json_objects.h"
#include "traces/job_trace.h"
#include "traces/trace_format.h"

namespace batchflow::traces {
namespace {

using Json = nlohmann::json;

constexpr double kDayNs = 86'400e9;
constexpr double kHourNs = 3'600e9;
constexpr double kMostDays = 46'000;  // some 126 years
// Every event has it, and nothing within an event.
constexpr std::string_view kMark = "\"event_type\"";

struct Event {
  std::int64_t ns = 0;
  bool is_start = false;
  std::string node;
  std::string level;
  std::string kind;
  std::string description;
};

class EventReader {
 public:
  explicit EventReader(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void refuse(std::uint64_t line, const std::string& what) const {
    throw ConfigError(fmt::format("{}:{}: {}", name_, line, what));
  }

  Event read(std::string_view text, std::uint64_t line) const {
    const Json event = Json::parse(text, nullptr, false);
    if (!event.is_object()) {
      refuse(line,
             "the event that begins here is not valid JSON; write it whole, as "
             "{\"node_id\": ..., \"event_time\": ..., \"event_type\": ..., \"fault_type\": ...}");
    }
    Event result;
    result.node = this->text(event, "node_id", line);
    const Json& time = member(event, "event_time", line);
    const double days = time.is_number() ? time.get<double>() : -1;
    if (!(days >= 0 && days <= kMostDays)) {
      refuse(line,
             "the event_time of the event that begins here is wrong; write days since the "
             "trace's beginning, as 3.25");
    }
    result.ns = std::llround(days * kDayNs);
    const std::string type = this->text(event, "event_type", line);
    result.is_start = type == "fault_start";
    if (!result.is_start && type != "fault_end") {
      refuse(line, fmt::format("the event_type '{}' is not known; write fault_start or fault_end",
                               type.substr(0, 60)));
    }
    const Json& fault = member(event, "fault_type", line);
    if (!fault.is_object())
      refuse(line,
             "the fault_type of the event that begins here is no object; write {\"Class\": ...}");
    result.kind = this->text(fault, "Class", line);
    if (fault.contains("Level")) result.level = this->text(fault, "Level", line);
    if (fault.contains("Desc")) result.description = this->text(fault, "Desc", line);
    return result;
  }

 private:
  const Json& member(const Json& object, const char* key, std::uint64_t line) const {
    const auto found = object.find(key);
    if (found == object.end())
      refuse(line, fmt::format("the event that begins here has no {}; add it", key));
    return *found;
  }

  std::string text(const Json& object, const char* key, std::uint64_t line) const {
    const Json& value = member(object, key, line);
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      refuse(line, fmt::format(
                       "the {} of the event that begins here is no text; write it in quotes", key));
    }
    return value.get<std::string>();
  }

  std::string name_;
};

std::vector<Event> read_events(const std::string& path, const std::string& name) {
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  ByteSource source(path);
  std::vector<char> block(kBlockBytes);
  const std::size_t filled = source.read(block.data(), block.size());
  refuse_foreign(name, {block.data(), filled}, "trace faults");
  const JobReadOptions options;
  const JobInput input{name, source, block, filled, options};
  const EventReader reader(name);
  JsonObjects objects(input, kMark);
  std::vector<Event> events;
  while (objects.next()) {
    if (objects.gap().line != 0) {
      reader.refuse(objects.gap().line,
                    "what begins here is not a whole event; write a JSON list of events, and close "
                    "their braces and quotes");
    }
    events.push_back(reader.read(objects.text(), objects.line()));
  }
  if (events.empty()) throw ConfigError(name + ": has no events; write at least one fault_start");
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.ns < b.ns; });
  return events;
}

}  // namespace

NodeFaults read_node_faults(const std::string& path) {
  NodeFaults trace;
  trace.name = path == "-" ? std::string(kStandardInput) : path;
  const std::vector<Event> events = read_events(path, trace.name);
  trace.events = events.size();
  trace.last_ns = events.back().ns;
  // Those that have not ended, oldest first; by node and type.
  std::map<std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>,
           std::deque<std::size_t>>
      lasting;
  for (const Event& event : events) {
    auto& open = lasting[{event.node, event.level, event.kind, event.description}];
    if (!event.is_start && !open.empty()) {
      trace.faults[open.front()].up_ns = event.ns;
      open.pop_front();
      continue;
    }
    NodeFault fault{event.node, event.level, event.kind, event.ns, {}};
    if (event.is_start) {
      open.push_back(trace.faults.size());
    } else {
      fault.down_ns = 0;
      fault.up_ns = event.ns;
      ++trace.without_start;
    }
    trace.faults.push_back(std::move(fault));
  }
  std::stable_sort(trace.faults.begin(), trace.faults.end(),
                   [](const NodeFault& a, const NodeFault& b) { return a.down_ns < b.down_ns; });
  std::set<std::string_view> known;
  for (const NodeFault& fault : trace.faults) {
    if (known.insert(fault.node).second) trace.nodes.push_back(fault.node);
  }
  return trace;
}

std::vector<FaultClass> fault_classes(const NodeFaults& trace) {
  struct Sums {
    FaultClass sum;
    std::set<std::string_view> nodes;
    std::vector<double> hours;
  };
  std::map<std::pair<std::string_view, std::string_view>, Sums> by_class;
  for (const NodeFault& fault : trace.faults) {
    Sums& sums = by_class[{fault.level, fault.kind}];
    const std::int64_t up_ns = fault.up_ns.value_or(trace.last_ns);
    const double hours = static_cast<double>(up_ns - fault.down_ns) / kHourNs;
    ++sums.sum.faults;
    if (!fault.up_ns) ++sums.sum.unended;
    sums.nodes.insert(fault.node);
    sums.hours.push_back(hours);
    sums.sum.node_hours += hours;
  }
  std::vector<FaultClass> classes;
  for (auto& [key, sums] : by_class) {
    sums.sum.level = key.first;
    sums.sum.kind = key.second;
    sums.sum.nodes = sums.nodes.size();
    std::sort(sums.hours.begin(), sums.hours.end());
    sums.sum.median_hours = sums.hours[(sums.hours.size() - 1) / 2];
    sums.sum.longest_hours = sums.hours.back();
    classes.push_back(std::move(sums.sum));
  }
  std::stable_sort(classes.begin(), classes.end(), [](const FaultClass& a, const FaultClass& b) {
    return a.node_hours > b.node_hours;
  });
  return classes;
}

}  // namespace batchflow::traces
