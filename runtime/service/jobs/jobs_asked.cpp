// What ranks ask of their jobs beside batches: names, sums to compare data by, which ranks they
// wait for. Also the bound of corrupt samples that each job has.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include "core/order/replacement.h"
#include "runtime/service/jobs/jobs.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {
namespace {

// The most corrupt samples that a job gets by asking for more than the service's ratio: each is
// remembered.
constexpr std::uint64_t kCorruptMost = 1 << 16;
constexpr std::size_t kRanksNamed = 8;

// The CRC-32 of zlib, PNG and Ethernet, which Python has, too.
class Crc32 {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes)
      value_ = kTable[(value_ ^ static_cast<unsigned char>(byte)) & 0xff] ^ (value_ >> 8);
  }
  std::uint32_t value() const { return ~value_; }

 private:
  static constexpr std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
    }
    return table;
  }();
  std::uint32_t value_ = ~0u;
};

}  // namespace

std::string Jobs::name(Peer& peer, bool of_class, std::uint64_t key) const {
  const RankEnd* end = find_end(peer);
  if (!end) return {};
  const sources::SampleIndex& index = *end->job->dataset->index;
  if (of_class) return key < index.classes().size() ? index.classes()[key] : std::string();
  return key < index.samples() ? index.sample_name(SampleId(key)) : std::string();
}

protocol::SamplesSum Jobs::sum(Peer& peer, protocol::SamplesSum of_samples) const {
  const RankEnd* end = find_end(peer);
  const sources::SampleIndex* index = end ? end->job->dataset->index.get() : nullptr;
  const std::uint64_t all = index ? index->samples() : 0;
  of_samples.first = std::min(of_samples.first, all);
  of_samples.count = std::min(of_samples.count, all - of_samples.first);
  Crc32 names, labels;
  of_samples.pairs = 0;
  for (std::uint64_t i = 0; i < of_samples.count; ++i) {
    const SampleId sample(of_samples.first + i);
    const std::string name = index->sample_name(sample) + '\0';
    const std::string label = std::to_string(index->label(sample).value_or(-1));
    names.add(name);
    labels.add(label + '\0');
    Crc32 pair;
    pair.add(name);
    pair.add(label);
    of_samples.pairs += pair.value();
  }
  of_samples.names = names.value();
  of_samples.labels = labels.value();
  return of_samples;
}

// ------------------------------------------------------------------------------- other ranks ----

std::string Jobs::waits_for_ranks(Peer& peer) const {
  const RankEnd* end = find_end(peer);
  if (!end || end->job->over) return {};
  const Job& job = *end->job;
  std::string others;
  std::size_t count = 0;
  const auto add = [&](Rank rank, const RankEnd* other) {
    if (++count > kRanksNamed) return;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", rank);
    if (other) others += fmt::format(" (process {})", other->request.pid);
  };
  const auto named = [&] {
    if (count > kRanksNamed) others += fmt::format(" and {} more", count - kRanksNamed);
    return fmt::format("rank{} {}", count > 1 ? "s" : "", others);
  };
  if (!job.is_announced) {
    for (Rank rank = 0; rank < job.ranks.size(); ++rank)
      if (!job.ranks[rank]) add(rank, nullptr);
    return fmt::format("{} of {} to join job '{}'", named(), job.ranks.size(), job.name);
  }
  if (!job.running) return {};
  // Each rank may be ahead of the slowest by its credits, and no further.
  std::uint64_t slowest = end->consumed;
  for (const RankEnd* other : job.ranks)
    if (other) slowest = std::min(slowest, other->consumed);
  if (slowest == end->consumed) return {};
  for (Rank rank = 0; rank < job.ranks.size(); ++rank)
    if (job.ranks[rank] && job.ranks[rank]->consumed == slowest) add(rank, job.ranks[rank]);
  return fmt::format("{} of job '{}', {} at step {} where this one is at {}", named(), job.name,
                     count > 1 ? "which are" : "which is", slowest, end->consumed);
}

// --------------------------------------------------------------------------- corrupt samples ----

std::uint64_t Jobs::corrupt_most(const Job& job) const {
  const std::uint64_t samples = job.dataset->index->samples();
  std::uint64_t most = options_.corrupt_ratio_max.share_of(samples);
  if (const auto asked = job.request.corrupt_ratio_max) {
    const auto wanted = static_cast<std::uint64_t>(*asked * static_cast<double>(samples));
    most = std::min(wanted, std::max(most, kCorruptMost));
  }
  return std::max(most, order::kCorruptLeast);
}

// The engine ends jobs that have more than any job may ask for; each job has a bound of its own.
void Jobs::end_by_corrupt_samples() {
  if (!backend_) return;
  const bool has_new_job = std::exchange(has_new_job_, false);
  if (std::exchange(corrupt_seen_, backend_->corrupt_seen()) == backend_->corrupt_seen() &&
      !has_new_job)
    return;
  for (const auto& job : jobs_) {
    const std::uint64_t corrupt = backend_->corrupt_of(job->pipeline->id);
    if (!job->running || job->over || corrupt <= job->corrupt_most) continue;
    job->over = true;
    engine::Refuse why;
    why.job = job->id;
    why.why = engine::Refusal::too_many_corrupt;
    why.needed = corrupt;
    why.available = job->corrupt_most;
    const std::string message = refusal_message(*job, why);
    for (RankEnd* end : std::vector(job->ranks)) {
      if (end) refuse(*end->peer, std::string(engine::name_of(why.why)), message);
    }
  }
}

}  // namespace batchflow::service
