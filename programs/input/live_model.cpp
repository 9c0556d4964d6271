#include "programs/input/live_model.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <locale>
#include <sstream>
#include <string>

#include "programs/input/find_config.h"

namespace batchflow::input {

namespace {

constexpr double kPerSecondMost = 1e9;
constexpr std::uint64_t kWindowMost = 1'000'000'000;  // as a loader's
constexpr std::size_t kRatesMost = 1'000'000;

// Lines `SECONDS,RECORDS_PER_S`; those that begin with # are left alone.
std::vector<ArrivalModel::Rate> read_rates(config::ConfigSection& section,
                                           const std::string& path) {
  const auto refuse = [&](const std::string& wrong) {
    section.refuse(
        "recorded", fmt::format("{}: {}", path, wrong),
        "name a file with lines as 0,1500: from the beginning on, 1500 records a second");
  };
  std::ifstream file(path);
  if (!file) refuse("cannot be read");
  std::vector<ArrivalModel::Rate> rates;
  std::string line;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    fields.imbue(std::locale::classic());
    double from = 0;
    double per_s = 0;
    char comma = 0;
    const bool is_whole =
        fields >> from >> comma >> per_s && comma == ',' && (fields >> std::ws).eof();
    if (!is_whole || !(from >= 0 && from < 1e9) || !(per_s >= 0 && per_s <= kPerSecondMost))
      refuse(fmt::format("line {} is no time and rate", number));
    const Duration at(std::llround(from * 1e9));
    if (rates.empty() ? at.count() != 0 : at <= rates.back().from)
      refuse(fmt::format("line {}: times begin at 0 and grow", number));
    if (rates.size() == kRatesMost) refuse("it has more than a million lines");
    rates.push_back({at, per_s});
  }
  if (rates.empty()) refuse("it has no rate");
  return rates;
}

ArrivalModel read_arrivals(config::ConfigSection& section) {
  ArrivalModel arrivals;
  arrivals.process = section.choice("arrivals", {"poisson", "even", "bursts", "recorded"},
                                    ArrivalModel::Process::poisson);
  const bool is_recorded = arrivals.process == ArrivalModel::Process::recorded;
  const bool is_bursts = arrivals.process == ArrivalModel::Process::bursts;
  if (is_recorded) {
    section.require("recorded", "a file with the rates");
    const auto& written_in = section.source().file;
    arrivals.recorded =
        read_rates(section, beside(section.text("recorded", ""), written_in ? *written_in : ""));
  } else {
    section.require("per_s", "how many records come in a second");
    arrivals.per_s = section.number("per_s", 0, 1e-6, kPerSecondMost);
  }
  if (is_bursts) {
    section.require("burst", "how long a burst is, as 1s");
    section.require("pause", "how long the pause behind it is, as 4s");
    arrivals.burst = section.duration("burst", Duration(0), std::chrono::microseconds(1));
    arrivals.pause = section.duration("pause", Duration(0), std::chrono::microseconds(1));
  }
  return arrivals;
}

}  // namespace

LiveModel read_live_model(config::ConfigSection& section) {
  LiveModel live;
  live.arrivals = read_arrivals(section);
  live.ends_after = section.duration("ends_after", live.ends_after);
  live.lag = section.duration("lag", live.lag);
  live.lag_spread = read_spread(section, "lag");
  live.lost = value_of(section.ratio("lost", Ratio{0}));
  live.late_after = section.duration("late_after", live.late_after);
  live.keep = section.bytes("keep", live.keep, 1024);
  live.can_wait = section.flag("can_wait", live.can_wait);
  live.sync = section.duration("sync", live.sync);
  live.classes = static_cast<std::uint32_t>(section.integer("classes", 0, 0, 1'000'000));
  live.class_every = static_cast<std::uint64_t>(section.integer("class_every", 0, 0));
  if (live.class_every > 0 && live.classes == 0)
    section.refuse("class_every", "there are no classes", "write classes: how many there are");
  return live;
}

LiveReading read_live_reading(config::ConfigSection& section) {
  LiveReading reading;
  enum class Fill : std::uint8_t { rehearse, cut, none };
  const Fill fill = section.choice("fill", {"rehearse", "short", "none"}, Fill::rehearse);
  reading.fills_after =
      section.duration("wait", reading.fills_after, Duration(0), std::chrono::hours(1));
  reading.fills_from = static_cast<std::uint64_t>(
      section.integer("window", static_cast<std::int64_t>(reading.fills_from), 1, kWindowMost));
  reading.fills_cut = fill == Fill::cut;
  if (fill == Fill::none) {
    reading.fills_after = Duration(0);
    reading.fills_from = 0;
  }
  reading.from_newest = section.one_of("begin", {"oldest", "newest"}, 0) == 1;
  return reading;
}

}  // namespace batchflow::input
