#include "core/promise_log.h"

#include <fmt/format.h>

#include <deque>
#include <utility>

#include "core/check.h"
#include "core/describe_fields.h"
#include "core/field_codec.h"
#include "core/permutation.h"
#include "core/position_forms.h"

namespace batchflow {

BATCHFLOW_FIELDS(GenerationOpened, job, generation, block_samples, lane_blocks)
BATCHFLOW_FIELDS(DrawsBegun, job, weights, draws)
BATCHFLOW_FIELDS(StepCommitted, job, step, epoch, compute, slices)
BATCHFLOW_FIELDS(EpochFinished, job, epoch)

namespace {

// A position has a byte for each: what a damaged record may claim is bounded.
constexpr std::uint32_t kLanesMost = 1 << 24;

template <std::size_t index = 0>
Promise take_promise(std::uint64_t which, FieldReader& reader) {
  if constexpr (index + 1 < std::variant_size_v<Promise>) {
    if (which != index) return take_promise<index + 1>(which, reader);
  }
  std::variant_alternative_t<index, Promise> promise{};
  reader.take(promise);
  return promise;
}

}  // namespace

std::string describe(const Promise& promise) {
  return described(promise);
}

// ----------------------------------------------------------------------------------- state ----

JobJoined Promises::Job::rejoin() const {
  JobJoined again = join;
  again.ranks = ranks;
  again.position = &position;
  return again;
}

void Promises::begin_incarnations() {
  for (auto& [id, job] : jobs_) job.steps = 0;
}

Promises::Job* Promises::find(JobId job) {
  const auto found = jobs_.find(job.value);
  return found == jobs_.end() ? nullptr : &found->second;
}

std::string Promises::apply(const Promise& promise) {
  const auto of_job = [&](JobId id, auto&& change) -> std::string {
    Job* job = find(id);
    return job ? change(*job) : fmt::format("job {} has not joined", id.value);
  };
  struct Cases {
    Promises& all;
    decltype(of_job)& with;

    std::string operator()(const CatalogueKnown& known) const {
      all.catalogues_[known.dataset.value] = known.version;
      return "";
    }
    std::string operator()(const PipelineKnown& known) const {
      all.pipelines_[known.pipeline.value] = known.hash;
      return "";
    }
    std::string operator()(const JobJoined& join) const {
      if (!join.position) return fmt::format("job {} joined without a position", join.job.value);
      Job job{join, {join.ranks.begin(), join.ranks.end()}, *join.position, 0};
      job.join.ranks = {};
      job.join.position = nullptr;
      const bool is_new = all.jobs_.emplace(join.job.value, std::move(job)).second;
      return is_new ? "" : fmt::format("job {} joined twice", join.job.value);
    }
    std::string operator()(const JobResized& resized) const {
      return with(resized.job, [&](Job& job) -> std::string {
        job.join.batch_samples = resized.batch_samples;
        job.ranks.assign(resized.ranks.begin(), resized.ranks.end());
        return "";
      });
    }
    std::string operator()(const GenerationOpened& opened) const {
      return with(opened.job, [&](Job& job) -> std::string {
        const Position& at = job.position;
        const LaneSizes sizes{at.fields().samples, opened.block_samples, opened.lane_blocks};
        if (at.order() != Order::relaxed || at.consumed() != 0 || !is_sane(sizes) ||
            sizes.lanes() > kLanesMost ||
            (at.has_generation() && opened.generation <= at.lanes().generation)) {
          return fmt::format("job {} cannot enter generation {} here", opened.job.value,
                             opened.generation);
        }
        job.position.begin_generation(opened.generation, opened.block_samples, opened.lane_blocks);
        return "";
      });
    }
    std::string operator()(const DrawsBegun& begun) const {
      return with(begun.job, [&](Job& job) -> std::string {
        if (job.position.order() != Order::weighted || job.position.consumed() != 0 ||
            begun.draws > kSamplesMost) {
          return fmt::format("job {} cannot begin its draws here", begun.job.value);
        }
        job.position.begin_draws(begun.weights, begun.draws);
        return "";
      });
    }
    std::string operator()(const StepCommitted& committed) const {
      return with(committed.job, [&](Job& job) -> std::string {
        if (committed.step < job.steps || committed.epoch != job.position.epoch()) {
          return fmt::format("job {} commits step {} of epoch {}, after {} steps in epoch {}",
                             committed.job.value, committed.step, committed.epoch, job.steps,
                             job.position.epoch());
        }
        job.steps = committed.step + 1;
        return job.position.apply(committed.slices);
      });
    }
    std::string operator()(const EpochFinished& finished) const {
      return with(finished.job, [&](Job& job) -> std::string {
        if (finished.epoch != job.position.epoch()) {
          return fmt::format("job {} finishes epoch {} in epoch {}", finished.job.value,
                             finished.epoch, job.position.epoch());
        }
        job.position.finish_epoch();
        return "";
      });
    }
    std::string operator()(const JobLeft& left) const {
      return all.jobs_.erase(left.job.value) == 1
                 ? ""
                 : fmt::format("job {} has not joined", left.job.value);
    }
  };
  return std::visit(Cases{*this, of_job}, promise);
}

// ----------------------------------------------------------------------------------- writing ----

PromiseLog::PromiseLog(Bytes bytes_max) : PromiseLog(bytes_max, Promises()) {}

PromiseLog::PromiseLog(Bytes bytes_max, Promises promises)
    : bytes_max_(bytes_max),
      frames_(LogKind::promises, kVersion, {}, FrameWriter::kNoBound, pending_),
      promises_(std::move(promises)) {
  promises_.begin_incarnations();
  begin_anew();
}

void PromiseLog::begin_anew() {
  pending_.clear();
  frames_ = FrameWriter(LogKind::promises, kVersion, {}, FrameWriter::kNoBound, pending_);
  for (const auto& [dataset, version] : promises_.catalogues()) {
    write(CatalogueKnown{DatasetId(dataset), version});
  }
  for (const auto& [pipeline, hash] : promises_.pipelines()) {
    write(PipelineKnown{PipelineId(pipeline), hash});
  }
  for (const auto& [id, job] : promises_.jobs()) write(job.rejoin());
  snapshot_bytes_ = frames_.written();
}

void PromiseLog::write(const Promise& promise) {
  payload_.clear();
  FieldWriter writer(payload_);
  writer.count(promise.index());
  std::visit([&](const auto& fields) { writer.put(fields); }, promise);
  frames_.append(payload_, {}, pending_);
}

void PromiseLog::add(const Promise& promise) {
  const std::string problem = promises_.apply(promise);
  BF_CHECK_MSG(problem.empty(), problem.c_str());
  write(promise);
}

bool PromiseLog::snapshot_due() const {
  return frames_.written() > bytes_max_ && frames_.written() > 2 * snapshot_bytes_;
}

// --------------------------------------------------------------------------------- recovery ----

RecoveredPromises recover_promises(std::span<const std::byte> log, std::string_view name) {
  FrameReader frames(log, name, LogKind::promises, PromiseLog::kVersion);
  RecoveredPromises recovered;
  std::span<const std::byte> payload;
  while (frames.next(payload)) {
    Arena arena;
    std::deque<Position> positions;
    FieldReader reader(payload, arena, positions);
    const std::uint64_t which = reader.count(std::variant_size_v<Promise> - 1);
    const Promise promise = take_promise(which, reader);
    if (!reader.ok() || !reader.at_end()) {
      frames.refuse("a record that cannot be read", "read it with the program that wrote it");
    }
    const std::string problem = recovered.promises.apply(promise);
    if (!problem.empty()) frames.refuse(problem, "restore the log from a copy");
  }
  recovered.bytes_cut = frames.bytes_cut();
  return recovered;
}

}  // namespace batchflow
