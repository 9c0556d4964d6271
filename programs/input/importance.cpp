#include "programs/input/importance.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/random.h"
#include "core/base/real_functions.h"
#include "programs/input/find_config.h"
#include "programs/input/recorded_scores.h"

namespace batchflow::input {

namespace {

void check_recording(config::ConfigSection& section, const Importance& importance,
                     std::uint64_t samples, std::uint32_t samples_per_item) {
  if (importance.spread > 0 || importance.drift > 0)
    section.refuse("recorded", "scores are those of a recording or of a model, not of both",
                   "leave out spread and drift, or recorded");
  if (samples_per_item > 1)
    section.refuse(
        "recorded",
        fmt::format("scores are of samples, and items have {} of them here", samples_per_item),
        "write grain.samples_per_item: 1, or spread in place of recorded");
  const std::uint64_t known = RecordedScores::check(importance.recorded);
  if (known != samples)
    section.refuse(
        "recorded",
        fmt::format("the recording is of a dataset of {} samples, and the job's has {}", known,
                    samples),
        fmt::format("write samples: {} for the dataset, or name another recording", known));
}

}  // namespace

Importance read_importance(config::ConfigSection& section, std::uint64_t samples,
                           std::uint32_t samples_per_item) {
  Importance importance;
  importance.spread = section.number("spread", 0, 0, 10);
  importance.drift = section.number("drift", 0, 0, 1);
  importance.recorded = section.text("recorded", "");
  if (importance.recorded.empty()) return importance;
  const auto& written_in = section.source().file;
  importance.recorded = beside(importance.recorded, written_in ? *written_in : "");
  check_recording(section, importance, samples, samples_per_item);
  return importance;
}

float Importance::score(std::uint64_t seed, std::uint64_t sample, std::uint32_t epoch) const {
  // The sum of twelve uniform numbers is near enough to a normal one.
  const auto normal = [](Random random) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.unit();
    return sum;
  };
  const double stays = normal(Random(hash(seed, sample)));
  const double comes = drift > 0 ? normal(Random(hash(seed, sample, epoch + 1))) : 0;
  return static_cast<float>(
      exp_of(spread * (std::sqrt(1 - drift * drift) * stays + drift * comes)));
}

}  // namespace batchflow::input
