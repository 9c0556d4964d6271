#include "runtime/ctl/ideal.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/protocol/records.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// A loop that computes for less of its time only waits, as far as can be told.
constexpr double kComputesLeast = 0.001;
constexpr double kStepsLeast = 4;
// The batch that is given again comes after those that the job has already; and a job may do other
// things between steps.
constexpr double kPatienceTimes = 3;
constexpr double kPatienceS = 30;

const json* job_of(const json& status, const std::string& name) {
  for (const json& job : list(status, "jobs")) {
    if (text(job, "name") == name) return &job;
  }
  return nullptr;
}

std::string milliseconds(double s) {
  return fmt::format("{:.{}f} ms", 1000 * s, s < 0.1 ? 1 : 0);
}

}  // namespace

IdealGain gain_by_waits(const json& before, const json& now, const std::string& name) {
  const json* const earlier = job_of(before, name);
  const json* const job = job_of(now, name);
  IdealGain gain;
  if (earlier == nullptr || job == nullptr) return gain;
  const auto change = [&](const char* key) { return number(*job, key) - number(*earlier, key); };
  const double batches = change("consumed_batches");
  if (batches <= 0) return gain;
  const double compute = change("compute_s") / batches;
  gain.step_s = change("wait_s") / batches + compute;
  if (compute > kComputesLeast * gain.step_s) gain.ideal_step_s = compute;
  return gain;
}

// As many steps as the job makes in `seconds` now, so they take no longer than that.
IdealGain measured_gain(ServiceClient& client, const std::string& name, IdealGain by_waits,
                        double seconds) {
  IdealGain gain = std::move(by_waits);
  const auto not_measured = [&](std::string why) {
    gain.why_not = std::move(why);
    return gain;
  };
  if (gain.step_s <= 0)
    return not_measured("it made no step meanwhile; measure for longer, as --ideal=2min");
  const double wanted = std::floor(seconds / gain.step_s);
  if (wanted < kStepsLeast)
    return not_measured(fmt::format("a step takes {:.1f} s; measure for longer: --ideal={:.0f}s",
                                    gain.step_s, std::ceil(2 * kStepsLeast * gain.step_s)));
  const auto steps = std::min(static_cast<std::uint64_t>(wanted), protocol::kIdealStepsMost);
  try {
    client.ask("job_ideal", {{"job", name}, {"steps", steps}});
  } catch (const Failure& refused) {
    return not_measured(refused.what());
  }
  const double patience = kPatienceTimes * seconds + kPatienceS;
  const auto begin = Clock::now();
  output::ProgressBar bar("repeating");
  for (;;) {
    output::check_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const double past = std::chrono::duration<double>(Clock::now() - begin).count();
    bar.show(std::min(1.0, past / seconds));
    json status;
    try {
      status = client.ask("status");
    } catch (const Failure& lost) {
      return not_measured(lost.what());
    }
    const json* const job = job_of(status, name);
    if (job == nullptr) return not_measured("the job has ended meanwhile");
    if (number(*job, "ideal_ranks_done") == std::max(1.0, number(*job, "ranks"))) {
      gain.ideal_step_s = number(*job, "ideal_step_s");
      gain.steps = steps;
      return gain;
    }
    if (past > patience)
      return not_measured(
          fmt::format("the job has not come to the end of its {} steps on one batch in {:.0f} s; "
                      "it goes on by itself",
                      steps, past));
  }
}

std::string gain_text(const IdealGain& gain) {
  if (!gain.is_known()) return "what a perfect loader would gain is not known";
  const std::string steps = fmt::format("{} a step in place of {}", milliseconds(gain.ideal_step_s),
                                        milliseconds(gain.step_s));
  const double percent = 100 * std::max(0.0, gain.ratio());
  return gain.steps > 0
             ? fmt::format(
                   "a perfect loader would gain {:.0f} %: {}, measured on {} steps that "
                   "were given one batch",
                   percent, steps, gain.steps)
             : fmt::format(
                   "by its waits, a perfect loader would gain {:.0f} %: {}; less, if its "
                   "loop runs ahead of a GPU",
                   percent, steps);
}

json gain_json(const IdealGain& gain) {
  json all = {{"is_measured", gain.steps > 0}, {"steps", gain.steps}};
  if (gain.is_known()) {
    all["gain_ratio"] = gain.ratio();
    all["step_s"] = gain.step_s;
    all["ideal_step_s"] = gain.ideal_step_s;
  }
  if (!gain.why_not.empty()) all["why_not_measured"] = gain.why_not;
  return all;
}

}  // namespace batchflow::ctl
