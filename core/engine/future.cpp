#include "core/engine/future.h"

#include <algorithm>

#include "core/engine/books.h"

namespace batchflow::engine {

namespace {

// A sample is looked for in the orders of so many jobs at most: each takes some fifty nanoseconds,
// or a table of a permutation that must not push out the others.
constexpr std::size_t kJobsMost = 24;
constexpr double kNotAgain = -1;
// Before the first step of a job was measured, and for a job that waits all the time.
constexpr double kSlowest = 1e-3;  // samples a second
constexpr double kGuess = 1e3;

double sooner(double one, double other) {
  if (one < 0 || other < 0) return std::max(one, other);
  return std::min(one, other);
}

double samples_per_s(const Job& job, Instant now) {
  const double wanted = wanted_per_s(job);
  if (wanted == 0) return kGuess;
  return std::max(kSlowest, wanted * (1 - job.ranks.front().stall.recently(now)));
}

}  // namespace

std::uint64_t Future::next_use(const Dataset& dataset, Digest prefix, SampleId sample) {
  double soonest = kNotAgain;
  std::size_t looked_at = 0;
  for (const StreamId index : dataset.streams) {
    const Stream& stream = s_.streams[index];
    if (prefix != 0 && stream.pipeline->prefix_hash != prefix) continue;
    if (stream.family != Order::relaxed && stream.family != Order::sequential) continue;
    // Of relaxed jobs: of those that are yet to come to the sample's lane, and of the others.
    double to_come = kNotAgain;
    double next_epoch = kNotAgain;
    for (const JobIndex each : stream.jobs) {
      if (++looked_at > kJobsMost) break;
      const Job& job = s_.jobs[each];
      if (job.state != Job::State::running || job.member.is_none()) continue;
      const double rate = samples_per_s(job, s_.now);
      if (job.order != Order::relaxed) {
        soonest = sooner(soonest, in_sequence(stream, job, sample) / rate);
      } else if (is_to_come(stream, job, sample)) {
        to_come = sooner(to_come, left(stream, job) / 2 / rate);
      } else {
        next_epoch = sooner(next_epoch, in_next_epoch(stream, job) / rate);
      }
    }
    // Jobs that come to the lane of another take the blocks that were made for that one.
    soonest = sooner(soonest, next_epoch >= 0 ? next_epoch : to_come);
  }
  if (soonest < 0) return kNeverUsed;
  constexpr double kFarthest = 1e9;  // seconds: beyond any run
  const auto now = static_cast<std::uint64_t>(s_.now.time_since_epoch().count());
  return now + static_cast<std::uint64_t>(std::min(soonest, kFarthest) * 1e9);
}

std::uint64_t Future::index(const Stream& stream, std::uint64_t generation,
                            const order::LaneSizes& sizes, SampleId sample) {
  if (stream.family == Order::sequential) return sample.value;
  const Dataset& dataset = s_.datasets[stream.dataset];
  return s_.expander.index_in_generation({Order::relaxed,
                                          {dataset.catalogue->version(), stream.seed},
                                          generation,
                                          sizes,
                                          stream.run_shift},
                                         sample);
}

// What lies before the sample in the job's sequence, behind what is there or being made.
double Future::in_sequence(const Stream& stream, const Job& job, SampleId sample) {
  const order::Lanes& lanes = *stream.lanes;
  const order::LaneSizes& sizes = lanes.sizes(job.member);
  const std::uint64_t epoch = lanes.generation(job.member);
  const std::uint64_t taken = sizes.blocks() - lanes.blocks_left(job.member);
  const std::uint64_t made = (taken + lanes.supply(job.member)) * sizes.block_samples;
  for (std::uint64_t ahead = 0; ahead < 3; ++ahead) {
    if (job.epochs != 0 && epoch + ahead >= job.epochs) return kNotAgain;
    const std::uint64_t first = ahead * sizes.samples;
    if (first + sizes.samples <= made) continue;
    const std::uint64_t at = first + index(stream, epoch + ahead, sizes, sample);
    if (at >= made) return static_cast<double>(at - made);
  }
  return kNotAgain;
}

double Future::left(const Stream& stream, const Job& job) {
  const order::Lanes& lanes = *stream.lanes;
  return static_cast<double>(lanes.blocks_left(job.member)) * lanes.sizes(job.member).block_samples;
}

bool Future::is_to_come(const Stream& stream, const Job& job, SampleId sample) {
  const order::Lanes& lanes = *stream.lanes;
  if (!lanes.in_epoch(job.member)) return false;
  const order::LaneSizes& sizes = lanes.sizes(job.member);
  const std::uint64_t at = index(stream, lanes.generation(job.member), sizes, sample);
  const std::uint64_t lane = at / (std::uint64_t{sizes.lane_blocks} * sizes.block_samples);
  return lanes.is_to_come(job.member, static_cast<std::uint32_t>(lane));
}

// All that the job has left of its epoch, and half of the next.
double Future::in_next_epoch(const Stream& stream, const Job& job) {
  const std::uint32_t epoch = job.runs.empty() ? 0 : job.runs.back().epoch;
  if (job.epochs != 0 && epoch + 1 >= job.epochs) return kNotAgain;
  return left(stream, job) + static_cast<double>(stream.lanes->sizes(job.member).samples) / 2;
}

}  // namespace batchflow::engine
