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

void Future::look_at(const Dataset& dataset, const std::optional<Lane>& lane) {
  dataset_ = &dataset;
  lane_ = lane;
  for (Readers& one : readers_) one.known = false;
}

Future::Readers& Future::readers(Digest prefix) {
  Readers& readers = readers_[prefix == 0 ? 0 : 1];
  if (readers.known && readers.prefix == prefix) return readers;
  readers.known = true;
  readers.prefix = prefix;
  readers.all.clear();
  std::size_t looked_at = 0;
  for (const StreamId index : dataset_->streams) {
    const Stream& stream = s_.streams[index];
    if (prefix != 0 && stream.pipeline->prefix_hash != prefix) continue;
    if (stream.family == Order::listed) continue;
    for (const JobIndex each : stream.jobs) {
      if (++looked_at > kJobsMost) break;
      const Job& job = s_.jobs[each];
      if (job.state == Job::State::running && !job.member.is_none())
        add_reader(readers, stream, job);
    }
  }
  readers.next_use.reset();
  readers.alike =
      lane_ && std::all_of(readers.all.begin(), readers.all.end(), [this](const Reader& reader) {
        return reader.job->order == Order::relaxed && in_lane(reader) && !reader.rehearsal;
      });
  return readers;
}

// Whether the lane is one of those that the job, which is relaxed, goes through now.
bool Future::in_lane(const Reader& reader) const {
  if (!lane_ || reader.stream != lane_->stream) return false;
  const order::Lanes& lanes = *reader.stream->lanes;
  return lanes.generation(reader.job->member) == lane_->generation &&
         lanes.sizes(reader.job->member) == lane_->sizes;
}

void Future::add_reader(Readers& readers, const Stream& stream, const Job& job) const {
  const order::Lanes& lanes = *stream.lanes;
  const order::LaneSizes& sizes = lanes.sizes(job.member);
  Reader reader{&stream, &job, samples_per_s(job, s_.now)};
  if (!job.runs.empty()) reader.rehearsal = job.runs.back().rehearsal.get();
  if (is_drawn(job.order)) {
    if (!job.drawn) return;
  } else if (job.order != Order::relaxed) {
    const std::uint64_t taken = sizes.blocks() - lanes.blocks_left(job.member);
    reader.made = (taken + lanes.supply(job.member)) * sizes.block_samples;
  } else {
    const double left = static_cast<double>(lanes.blocks_left(job.member)) * sizes.block_samples;
    reader.left_s = left / 2 / reader.rate;
    const std::uint32_t epoch = job.runs.empty() ? 0 : job.runs.back().epoch;
    if (job.epochs == 0 || epoch + 1 < job.epochs)
      reader.next_epoch_s = (left + static_cast<double>(sizes.samples) / 2) / reader.rate;
  }
  readers.all.push_back(reader);
}

std::uint64_t Future::next_use(Digest prefix, SampleId sample) {
  Readers& readers = this->readers(prefix);
  if (!readers.alike) return next_use_among(readers.all, sample);
  if (!readers.next_use) readers.next_use = next_use_among(readers.all, sample);
  return *readers.next_use;
}

std::uint64_t Future::next_use_among(const std::vector<Reader>& all, SampleId sample) {
  double soonest = kNotAgain;
  for (auto reader = all.begin(); reader != all.end();) {
    const Stream* stream = reader->stream;
    // Of relaxed jobs: of those that are yet to come to the sample's lane, and of the others.
    double to_come = kNotAgain;
    double next_epoch = kNotAgain;
    found_count_ = 0;
    for (; reader != all.end() && reader->stream == stream; ++reader) {
      if (reader->rehearsal)
        soonest = sooner(soonest, until_rehearsed(*reader, sample) / reader->rate);
      if (is_drawn(reader->job->order)) {
        soonest = sooner(soonest, until_drawn(*reader, sample) / reader->rate);
      } else if (reader->job->order != Order::relaxed) {
        soonest = sooner(soonest, in_sequence(*reader, sample) / reader->rate);
      } else if (is_to_come(*reader, sample)) {
        to_come = sooner(to_come, reader->left_s);
      } else {
        next_epoch = sooner(next_epoch, reader->next_epoch_s);
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
  for (std::size_t i = 0; i < found_count_; ++i) {
    if (found_[i].generation == generation && found_[i].sizes == sizes) return found_[i].index;
  }
  const Dataset& dataset = s_.datasets[stream.dataset];
  const std::uint64_t index =
      s_.expander.index_in_generation({Order::relaxed,
                                       {dataset.catalogue->version(), stream.seed},
                                       generation,
                                       sizes,
                                       stream.run_shift},
                                      sample);
  if (found_count_ < found_.size()) found_[found_count_++] = {generation, sizes, index};
  return index;
}

// What lies before the sample in the job's sequence, behind what is there or being made.
double Future::in_sequence(const Reader& reader, SampleId sample) {
  const Job& job = *reader.job;
  const order::Lanes& lanes = *reader.stream->lanes;
  const order::LaneSizes& sizes = lanes.sizes(job.member);
  const std::uint64_t epoch = lanes.generation(job.member);
  for (std::uint64_t ahead = 0; ahead < 3; ++ahead) {
    if (job.epochs != 0 && epoch + ahead >= job.epochs) return kNotAgain;
    const std::uint64_t first = ahead * sizes.samples;
    if (first + sizes.samples <= reader.made) continue;
    const std::uint64_t at = first + index(*reader.stream, epoch + ahead, sizes, sample);
    if (at >= reader.made) return static_cast<double>(at - reader.made);
  }
  return kNotAgain;
}

// Draws by weight are independent of the past: so many are expected until one is of the sample. Of
// a mixture it is the time that a pass of the sample's source takes.
double Future::until_drawn(const Reader& reader, SampleId sample) const {
  if (const order::LiveEpoch* live = reader.job->live) {
    // Records come in turn. Of those that were had, few come again.
    return sample.value >= live->next() ? static_cast<double>(sample.value - live->next())
                                        : kNotAgain;
  }
  if (reader.job->keys) return kNotAgain;  // nothing says what is asked for next
  if (reader.job->mixed) {
    const double draws = reader.job->mixed->draws_a_pass(sample);
    return draws > 0 ? draws : kNotAgain;
  }
  const order::WeightTree& weights = reader.job->weights->frozen();
  const std::uint32_t weight = weights.weight(sample);
  if (weight == 0) return kNotAgain;
  return static_cast<double>(weights.total()) / weight;
}

// An exemplar comes once in a round of the buffer, of which each batch has a part.
double Future::until_rehearsed(const Reader& reader, SampleId sample) {
  const double draws = reader.rehearsal->draws_for(sample);
  if (draws == 0) return kNotAgain;
  return draws * reader.job->batch_samples / reader.job->rehearsed;
}

bool Future::is_to_come(const Reader& reader, SampleId sample) {
  const order::Lanes& lanes = *reader.stream->lanes;
  const order::MemberId member = reader.job->member;
  if (!lanes.in_epoch(member)) return false;
  if (in_lane(reader)) return lanes.is_to_come(member, lane_->lane);
  const order::LaneSizes& sizes = lanes.sizes(member);
  const std::uint64_t at = index(*reader.stream, lanes.generation(member), sizes, sample);
  const std::uint64_t lane = at / (std::uint64_t{sizes.lane_blocks} * sizes.block_samples);
  return lanes.is_to_come(member, static_cast<std::uint32_t>(lane));
}

}  // namespace batchflow::engine
