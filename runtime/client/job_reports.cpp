#include "runtime/client/job_reports.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/client/c_interface.h"
#include "runtime/protocol/records.h"

namespace batchflow::client {
namespace {

bf_status send_scores(std::span<const engine::Score> scores, const Send& send) {
  return send("the service does not read scores; call again to go on",
              [&](Link& link) { return link.report(scores); });
}

}  // namespace

bf_status JobReports::report_scores(std::span<const std::uint64_t> keys, const float* scores,
                                    std::uint64_t dataset_samples, const Send& send) {
  const std::size_t count = keys.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(scores[i]) || keys[i] >= dataset_samples)
      return fail(BF_BAD_ARGUMENT,
                  fmt::format("score {} is not a number, or its key is not of a sample; leave it "
                              "out",
                              i));
  }
  std::vector<engine::Score> chunk;
  for (std::size_t done = 0; done < count; done += chunk.size()) {
    chunk.clear();
    for (std::size_t i = done; i < count && chunk.size() < engine::kScoresMost; ++i)
      chunk.push_back({SampleId(keys[i]), scores[i]});
    for (const engine::Score& score : chunk) kept_.keep(score, dataset_samples);
    if (!send) continue;
    const bf_status status = send_scores(chunk, send);
    if (status != BF_OK) return status;
  }
  return BF_OK;
}

bf_status JobReports::send_all_scores(const Send& send) const {
  std::uint64_t from = 0;
  for (;;) {
    const std::vector<engine::Score> scores = kept_.next(from, engine::kScoresMost);
    if (scores.empty()) return BF_OK;
    const bf_status status = send_scores(scores, send);
    if (status != BF_OK) return status;
  }
}

void JobReports::show_scores(const std::uint64_t** keys, const float** scores, std::size_t& count) {
  shown_keys_.clear();
  shown_scores_.clear();
  std::uint64_t from = 0;
  for (const engine::Score& score : kept_.next(from, SIZE_MAX)) {
    shown_keys_.push_back(score.sample.value);
    shown_scores_.push_back(score.value);
  }
  *keys = shown_keys_.data();
  *scores = shown_scores_.data();
  count = shown_keys_.size();
}

bf_status JobReports::send_exemplars(std::span<const SampleId> all, const Send& send) {
  std::size_t first = 0;
  do {
    const auto part =
        all.subspan(first, std::min(protocol::kExemplarsInRecord, all.size() - first));
    const bool more = first + part.size() < all.size();
    const bf_status status = send(
        "the service does not read exemplars; call again",
        [&](Link& link) { return link.report(part, static_cast<std::uint32_t>(first), more); });
    if (status != BF_OK) return status;
    first += part.size();
  } while (first < all.size());
  return BF_OK;
}

}  // namespace batchflow::client
