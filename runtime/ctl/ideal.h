// What a job would gain from a perfect loader, which never lets it wait.
//
// A job's waits show it as long as its loop computes while it does not wait. A loop that runs ahead
// of a GPU waits for batches while the GPU computes, so it would gain less. To measure it, the job
// is given one batch again for some time, where its script allows that.
#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {

struct IdealGain {
  double step_s = 0;        // as the job is; 0: it made no step
  double ideal_step_s = 0;  // with a perfect loader; 0: it only waits, so this is not known
  std::uint64_t steps = 0;  // on a batch that was given again; 0: judged by its waits
  std::string why_not;      // it is not measured
  bool is_known() const { return step_s > 0 && ideal_step_s > 0; }
  double ratio() const { return step_s / ideal_step_s - 1; }
};

// Judges by the waits of a job between two answers of the service, as its ranks have measured them.
IdealGain gain_by_waits(const nlohmann::json& before, const nlohmann::json& now,
                        const std::string& job);
// Measures it, if the service agrees: for `seconds` at most.
IdealGain measured_gain(ServiceClient& client, const std::string& job, IdealGain by_waits,
                        double seconds);

std::string gain_text(const IdealGain& gain);
nlohmann::json gain_json(const IdealGain& gain);

}  // namespace batchflow::ctl
