#include "traces/formats/slurm.h"

#include <algorithm>
#include <optional>

#include "traces/text_fields.h"

namespace batchflow::traces {
namespace {

// `32G`, `1.5T`, `170000` (MiB).
std::optional<Bytes> memory(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  int shift = 20;
  if (!text.empty() && !is_digit(text.back())) {
    const std::size_t unit = kUnits.find(text.back());
    if (unit == kUnits.npos) return std::nullopt;
    shift = 10 * (static_cast<int>(unit) + 1);
    text.remove_suffix(1);
  }
  const auto thousandths = decimal(text, 3);
  const bool fits = thousandths && *thousandths >= 0 && *thousandths <= (INT64_MAX >> shift);
  if (!fits) return std::nullopt;
  return (static_cast<Bytes>(*thousandths) << shift) / 1000;
}

}  // namespace

bool read_tres(std::string_view text, JobRecord& job) {
  constexpr std::uint32_t kMost = 4'000'000;
  std::uint32_t gpus_of_types = 0;
  bool has_all_gpus = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t mark = pair.find('=');
    if (mark == pair.npos) return false;
    const std::string_view key = pair.substr(0, mark), value = pair.substr(mark + 1);
    if (key == "mem" || key == "2") {
      const auto bytes = memory(value);
      if (!bytes) return false;
      job.memory_bytes = *bytes;
      continue;
    }
    const bool typed = key.starts_with("gres/gpu:");
    const bool gpus = typed || key == "gres/gpu" || key == "1001" || key == "1002";
    if (!gpus && key != "cpu" && key != "1" && key != "node" && key != "4") continue;
    const auto number = integer<std::uint32_t>(value);
    if (!number || *number > kMost) return false;
    if (typed) {
      gpus_of_types = std::min(gpus_of_types + *number, kMost);
    } else if (gpus) {
      job.gpus_hundredths = std::min(job.gpus_hundredths + 100 * *number, 100 * kMost);
      has_all_gpus = true;
    } else if (key == "cpu" || key == "1") {
      job.cpus_hundredths = 100 * *number;
    } else {
      job.nodes = *number;
    }
  }
  // GPUs are given by type beside their sum, or by type alone.
  if (!has_all_gpus) job.gpus_hundredths = 100 * gpus_of_types;
  return true;
}

JobStatus slurm_status(unsigned state) {
  constexpr JobStatus kStates[] = {
      JobStatus::pending,   JobStatus::running,      JobStatus::running, JobStatus::completed,
      JobStatus::cancelled, JobStatus::failed,       JobStatus::timeout, JobStatus::node_failure,
      JobStatus::preempted, JobStatus::node_failure, JobStatus::timeout, JobStatus::out_of_memory};
  return state < std::size(kStates) ? kStates[state] : JobStatus::unknown;
}

}  // namespace batchflow::traces
