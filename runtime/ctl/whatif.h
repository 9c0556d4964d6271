// The running state of a service as a scenario of the coming hours, the simulations of it, and the
// record of what was changed because of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "programs/input/observed_workload.h"

namespace batchflow::ctl {

// What the jobs of a service that runs will do for `hours`, with a time before it in which a
// simulation warms its caches.
struct ComingHours {
  input::ObservedWorkload workload;
  double warm_s = 0;
};
// `status` is an answer to `status` with `models`. Throws ConfigError where no job runs.
ComingHours coming_hours(const nlohmann::json& status, double hours);

// Runs `batchflow-sim whatif` beside this program on a scenario, and answers its JSON. What it says
// and its progress go to standard error. Throws ConfigError, Failure or Interrupted.
nlohmann::json simulate_whatif(const std::string& scenario, const std::vector<std::string>& words);

// Presets that a service can change to while it runs, but `present`: those that share.
std::vector<std::string> usual_candidates(const std::string& present);

// How a service did between two answers to `status`, all jobs together.
struct LiveFigures {
  double span_s = 0;
  double samples_per_s = 0;
  double stall_fraction = 0;
};
LiveFigures live_figures(const nlohmann::json& before, const nlohmann::json& now);

// The recommendations that were applied stand in a file of the service's state folder, a line of
// JSON each.
std::filesystem::path applied_file(const nlohmann::json& status);
// Appends a line, whole or not at all. Throws Failure.
void append_applied(const std::filesystem::path& file, const nlohmann::json& applied);
// A line that cannot be read is passed over, and counted.
struct Applied {
  std::vector<nlohmann::json> all;
  std::size_t unreadable = 0;
};
Applied read_applied(const std::filesystem::path& file);

}  // namespace batchflow::ctl
