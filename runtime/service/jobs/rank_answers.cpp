#include "runtime/service/jobs/rank_answers.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/engine/engine_config.h"
#include "core/order/rehearsal.h"

namespace batchflow::service {

namespace {

// Records of one rank that are read before others have their turn: it may write as fast as its ring
// is read.
constexpr std::size_t kRecordsPerRead = 64;

// No step computes for longer than a year.
Duration bounded(std::uint64_t nanoseconds) {
  return std::min(
      Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(nanoseconds, INT64_MAX))),
      engine::kDurationMost);
}

}  // namespace

bool RankAnswers::read(RankEnd& end) {
  end.from_job->awake();
  const bool well = end.from_job->read(
      kRecordsPerRead, [&](std::span<const std::byte> record) { return take(end, record); });
  end.from_job->free_read();
  return well;
}

void RankAnswers::release(RankEnd& end, const HeldSlot& held) {
  if (held.in_place) return;
  if (AgentEnd* const agent = end.peer->agent()) {
    agent->free(held.share, held.slot);
  } else if (backend_) {
    backend_->released(held.share, held.slot);
  }
}

void RankAnswers::add_exemplars(ServedJob& job) {
  const std::vector<SampleId> all = std::exchange(job.ranks[0]->request.exemplars, {});
  if (job.request.order_options.buffer_exemplars > 0) return;  // the engine fills its buffer
  job.buffer_samples = all.size();
  for (std::size_t first = 0; first < all.size(); first += engine::kExemplarsAtOnce) {
    const auto end = std::min(all.size(), first + engine::kExemplarsAtOnce);
    std::vector<SampleId> part(all.begin() + static_cast<std::ptrdiff_t>(first),
                               all.begin() + static_cast<std::ptrdiff_t>(end));
    inbox_.add(engine::ExemplarsReported{job.id, first == 0, static_cast<std::uint32_t>(first),
                                         inbox_.keep(std::move(part)), end < all.size()});
  }
}

// A part of the buffer that is to replace the one before. False: no rank of this job sends it.
bool RankAnswers::take_exemplars(const RankEnd& end) {
  ServedJob& job = *end.job;
  const protocol::ExemplarsRecord& part = message_.part;
  const std::uint64_t samples = job.dataset->index->samples();
  const bool are_samples = std::all_of(message_.exemplars.begin(), message_.exemplars.end(),
                                       [&](SampleId sample) { return sample.value < samples; });
  const bool follows = part.first == 0 || part.first == job.buffer_samples;
  if (end.rank != 0 || job.request.order_options.rehearsed == 0 ||
      job.request.order == Order::live || job.request.order_options.buffer_exemplars > 0 ||
      !are_samples || !follows || part.first + part.count > order::kExemplarsMost)
    return false;
  job.buffer_samples = part.first + part.count;
  if (job.running)
    inbox_.add(engine::ExemplarsReported{job.id, part.first == 0, part.first,
                                         inbox_.keep(std::vector(message_.exemplars)),
                                         part.more != 0});
  return true;
}

// Other weights for the sources of a mixture. False: the job has none that may change.
bool RankAnswers::take_change(const RankEnd& end) {
  const ServedJob& job = *end.job;
  const protocol::OrderOptions& options = job.request.order_options;
  const std::vector<std::uint64_t>& parts = message_.change.parts;
  const std::uint64_t sum = std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
  if (!options.weights_change || parts.size() != options.sources.size() ||
      sum != order::Mixture::kWhole)
    return false;
  if (job.running)
    inbox_.add(engine::MixtureChanged{job.id, message_.change.at, inbox_.keep(std::vector(parts))});
  return true;
}

// What a rank loses on each source. False: the job has no policy that goes by that.
bool RankAnswers::take_losses(const RankEnd& end) {
  const ServedJob& job = *end.job;
  const protocol::OrderOptions& options = job.request.order_options;
  if (options.weights_policy.empty() || message_.losses.size() != options.sources.size())
    return false;
  if (job.running)
    inbox_.add(engine::LossesReported{job.id, inbox_.keep(std::move(message_.losses))});
  return true;
}

// What a network makes of samples. False: the job has no buffer, or these are no samples of its
// dataset.
bool RankAnswers::take_described(const RankEnd& end) {
  const ServedJob& job = *end.job;
  protocol::Described& described = message_.described;
  const std::uint64_t samples = job.dataset->index->samples();
  const bool are_samples = std::all_of(described.samples.begin(), described.samples.end(),
                                       [&](SampleId sample) { return sample.value < samples; });
  if (job.request.order_options.buffer_exemplars == 0 || job.request.order == Order::live ||
      !are_samples)
    return false;
  if (job.running)
    inbox_.add(engine::SamplesDescribed{
        job.id, described.features, inbox_.keep(std::move(described.samples)),
        inbox_.keep(std::move(described.labels)), inbox_.keep(std::move(described.values))});
  return true;
}

// Samples that the rank asks for, by their keys. False: it asks for more than it may, or for none.
bool RankAnswers::take_keys(RankEnd& end) {
  const ServedJob& job = *end.job;
  if (!job.request.order_options.keyed) return false;
  if (!job.running || end.left) return true;
  std::vector<SampleId> there;
  for (const SampleId key : message_.keys) {
    const std::uint64_t number = end.keys++;
    if (key.value < job.dataset->index->samples() && feeds_.has(job.dataset->id, key.value)) {
      there.push_back(key);
    } else if (!writer_.absent(end, number)) {
      return false;
    }
  }
  end.keys_there += there.size();
  if (end.keys_there - (end.consumed - end.first_step) > end.credits) return false;
  if (there.empty()) return true;
  if (end.delivered <= end.consumed) waits_.begin(end);
  inbox_.add(engine::SamplesWanted{job.id, end.rank, inbox_.keep(std::move(there)), {}, {}});
  return true;
}

bool RankAnswers::take(RankEnd& end, std::span<const std::byte> bytes) {
  std::string problem;
  if (!protocol::read_job_record(bytes, message_, problem)) return false;
  const protocol::JobRecord& record = message_.record;
  ServedJob& job = *end.job;
  switch (record.kind) {
    case protocol::JobRecordKind::wanted:
      if (record.credits == 0) return false;
      if (job.running && !end.left)
        inbox_.add(
            engine::BatchWanted{job.id, end.rank, std::min(record.credits, engine::kCreditsMost)});
      return true;
    case protocol::JobRecordKind::scores:
      if (job.running)
        inbox_.add(engine::ScoresReported{job.id, inbox_.keep(std::vector(message_.scores))});
      return true;
    case protocol::JobRecordKind::exemplars:
      return take_exemplars(end);
    case protocol::JobRecordKind::mixture:
      return take_change(end);
    case protocol::JobRecordKind::described:
      return take_described(end);
    case protocol::JobRecordKind::keys:
      return take_keys(end);
    case protocol::JobRecordKind::losses:
      return take_losses(end);
    case protocol::JobRecordKind::consumed: {
      if (record.step != end.consumed || record.step >= end.delivered) return false;
      ++end.consumed;
      end.end_if_far_enough();
      if (end.consumed - end.first_step == job.steps_left)
        writer_.finish(end, protocol::ServiceRecordKind::finished);
      const Duration waited = bounded(record.wait_ns);
      waits_.consumed(end, waited, bounded(record.compute_ns));
      job.sums.steps = std::max(job.sums.steps, end.consumed);
      if (job.running)
        inbox_.add(
            engine::BatchConsumed{job.id, end.rank, record.step, bounded(record.compute_ns)});
      return true;
    }
    case protocol::JobRecordKind::ideal:
      return job.ideal.done(end.rank, record.step, bounded(record.compute_ns));
    case protocol::JobRecordKind::unmapped:
      if (end.slabs_gone.erase(record.step) + end.slabs.erase(record.step) == 0) return false;
      if (backend_) backend_->retry_waiting();
      return true;
    case protocol::JobRecordKind::released: {
      const auto found = end.held.find(record.step);
      if (found == end.held.end()) return false;
      release(end, found->second);
      end.held.erase(found);
      inbox_.add(engine::SlotReleased{job.id, end.rank, record.step});
      return true;
    }
  }
  return false;
}

}  // namespace batchflow::service
