// Which link between the storage and a job is the slow one: judged by two answers of the service,
// some seconds apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace batchflow::ctl {

struct Diagnosis {
  std::string job;
  // `storage`, `preparation`, `delivery` or `room` hold it up; `none`: it computes, and its batches
  // wait for it; `start`: it has not begun.
  std::string link;
  double stalled = 0;               // of its ranks' time, 0 to 1
  std::vector<std::string> facts;   // with numbers
  std::vector<std::string> advice;  // what to change
  bool is_held_up() const { return link != "none"; }
};

// Of each job that was there all the time, or of those called `job` if that is not empty.
std::vector<Diagnosis> diagnose(const nlohmann::json& before, const nlohmann::json& now,
                                std::string_view job);

// What is wrong with the node itself, whatever the jobs do: limits, staging memory, damage.
std::vector<std::string> node_remarks(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace batchflow::ctl
