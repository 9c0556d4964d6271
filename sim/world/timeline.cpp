#include "sim/world/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/check.h"
#include "core/base/names.h"

namespace batchflow::world {

namespace {

// A JSON string; a character that is not printable ASCII is written as a number or left as it is.
std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (static_cast<unsigned char>(c) < ' ') {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// Microseconds, exact to the nanosecond.
std::string microseconds(Duration duration) {
  const std::int64_t ns = duration.count();
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}
std::string microseconds(Instant instant) {
  return microseconds(instant.time_since_epoch());
}

std::string name_of(const Timeline::Slice& slice) {
  constexpr std::string_view names[] = {"read",  "prepare", "gather",        "deliver",
                                        "train", "stall",   "wait for ranks"};
  return fmt::format("{} {}", name_in<Timeline::What::idle>(names, slice.what), slice.number);
}

std::string arguments(const Timeline::Slice& slice) {
  if (slice.what != Timeline::What::read && slice.what != Timeline::What::prepare) return "";
  return fmt::format(R"(,"args":{{"generation":{},"lane":{},"pass":{},"block":{}}})",
                     slice.block.generation, slice.block.lane, slice.block.pass, slice.block.block);
}

}  // namespace

Track Timeline::track(const std::string& process, const std::string& thread) {
  const auto [found, is_new] =
      track_of_.try_emplace({process, thread}, static_cast<Track>(tracks_.size()));
  if (is_new) {
    tracks_.emplace_back(process, thread);
    lane_of_.emplace_back(nullptr, 0);
  }
  return found->second;
}

Track Timeline::take_lane(const std::string& process, const std::string& kind) {
  Lanes& lanes = lanes_[{process, kind}];
  const auto free = std::find(lanes.taken.begin(), lanes.taken.end(), false);
  const auto lane = static_cast<std::size_t>(free - lanes.taken.begin());
  if (free == lanes.taken.end()) {
    lanes.taken.push_back(false);
    lanes.tracks.push_back(track(process, fmt::format("{} {}", kind, lane + 1)));
    lane_of_[lanes.tracks.back()] = {&lanes, lane};
  }
  lanes.taken[lane] = true;
  return lanes.tracks[lane];
}

void Timeline::free_lane(Track track) {
  const auto& [lanes, lane] = lane_of_[track];
  BF_CHECK(lanes != nullptr);
  lanes->taken[lane] = false;
}

bool Timeline::room_for(std::size_t more, Instant when) {
  if (!ended_ && events() + more > events_most_) {
    ended_ = true;
    ended_at_ = when;
  }
  return !ended_;
}

void Timeline::add(const Slice& slice) {
  if (room_for(1, slice.to)) slices_.push_back(slice);
}

void Timeline::add_flow(std::span<const Point> points) {
  if (points.size() < 2 || !room_for(points.size(), points.back().second)) return;
  ++flows_;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const char phase = i == 0 ? 's' : i + 1 == points.size() ? 'f' : 't';
    flow_points_.push_back({flows_, points[i], phase});
  }
}

std::string Timeline::json(std::span<const output::SeriesPoint> series,
                           const std::string& scenario) const {
  std::string text =
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"scenario\":" + json_text(scenario) +
      fmt::format(",\"complete\":{}}},\n\"traceEvents\":[\n", !ended_);
  std::vector<std::string> processes;
  std::vector<std::size_t> process_of;
  for (const auto& [process, thread] : tracks_) {
    const auto found = std::find(processes.begin(), processes.end(), process);
    process_of.push_back(static_cast<std::size_t>(found - processes.begin()) + 1);
    if (found == processes.end()) processes.push_back(process);
  }
  const auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    fmt::format_to(out,
                   R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}},)"
                   "\n",
                   i + 1, json_text(processes[i]));
  }
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    fmt::format_to(out,
                   R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}},)"
                   "\n",
                   process_of[i], i + 1, json_text(tracks_[i].second));
  }
  for (const Slice& slice : slices_) {
    fmt::format_to(out,
                   R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}"{}}},)"
                   "\n",
                   process_of[slice.track], slice.track + 1, microseconds(slice.from),
                   microseconds(slice.to - slice.from), name_of(slice), arguments(slice));
  }
  for (const FlowPoint& point : flow_points_) {
    fmt::format_to(
        out,
        R"({{"ph":"{}","pid":{},"tid":{},"ts":{},"id":{},"name":"batch","cat":"batch"{}}},)"
        "\n",
        point.phase, process_of[point.at.first], point.at.first + 1, microseconds(point.at.second),
        point.flow, point.phase == 'f' ? R"(,"bp":"e")" : "");
  }
  for (const output::SeriesPoint& point : series) {
    const auto when = fmt::format("{:.3f}", point.time_s * 1e6);
    const output::CachedBytes& cached = point.cached;
    fmt::format_to(out,
                   R"({{"ph":"C","pid":0,"ts":{},"name":"cached bytes","args":{{"encoded":{},)"
                   R"("decoded":{},"prepared":{}}}}},)"
                   "\n",
                   when, cached.encoded_dram + cached.encoded_nvme,
                   cached.decoded_dram + cached.decoded_nvme + cached.decoded_gpu,
                   cached.prepared_dram);
    fmt::format_to(
        out,
        R"({{"ph":"C","pid":0,"ts":{},"name":"ranks that stall","args":{{"ranks":{}}}}},)"
        "\n",
        when, point.stalling);
  }
  fmt::format_to(out, R"({{"ph":"M","pid":0,"name":"process_name","args":{{"name":"all"}}}})");
  if (ended_) {
    fmt::format_to(out,
                   ",\n"
                   R"({{"ph":"i","s":"g","pid":0,"tid":0,"ts":{},"name":"the timeline )"
                   R"(ends here: {} events"}})",
                   microseconds(ended_at_), events());
  }
  return text + "\n]}\n";
}

}  // namespace batchflow::world
