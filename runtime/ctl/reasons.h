// Why jobs wait: the slow link between the storage and a job, from two answers of the service that
// are some seconds apart, and the last decisions of its policies, in sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace batchflow::ctl {

struct Diagnosis {
  std::string job;
  // What holds the job up: `storage`, `preparation`, `delivery` or `room`. `none`: the job
  // computes, and batches wait for it. `start`: it has not begun.
  std::string link;
  double stalled = 0;               // a part of its ranks' time, 0 to 1
  std::vector<std::string> facts;   // with numbers
  std::vector<std::string> advice;  // what to change
  bool is_held_up() const { return link != "none"; }
};

// Diagnoses each job that is in both answers, or only those called `job` if that is not empty.
std::vector<Diagnosis> diagnose(const nlohmann::json& before, const nlohmann::json& now,
                                std::string_view job);

// What is wrong with nodes of a cluster, beside this one: which is slower than the others, and
// where.
std::vector<std::string> fleet_remarks(const nlohmann::json& before, const nlohmann::json& now);
// What is wrong with the node itself: limits, staging memory, damage.
std::vector<std::string> node_remarks(const nlohmann::json& before, const nlohmann::json& now);

// `status` and `decisions` are the service's answers to `status` and `explain`. The text is about
// all jobs, or about those called `job`, with the decisions that name it.
std::string explain_text(const nlohmann::json& status, const nlohmann::json& decisions,
                         std::string_view job);

}  // namespace batchflow::ctl
