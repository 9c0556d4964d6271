#include "core/log/promise_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/log/field_codec.h"
#include "core/order/index_set.h"
#include "core/order/permutation.h"

namespace batchflow::log {

namespace {

// A position has a byte for each lane: this bounds what a damaged record may claim.
constexpr std::uint32_t kLanesMost = 1 << 24;
// Samples in a step, of all ranks: the same.
constexpr std::uint64_t kStepMost = 1 << 24;
constexpr std::uint64_t kLastKind = static_cast<std::uint64_t>(engine::Promise::Kind::buffer_gone);

engine::JobJoined whole(const engine::PromisedJoin& promised) {
  engine::JobJoined join = promised.join;
  join.ranks = promised.ranks;
  join.buffer_policy = promised.buffer_policy;
  join.weights_policy = promised.weights_policy;
  // A listed order has no position: its samples are named by its job.
  join.position = join.order == Order::listed ? nullptr : &promised.position;
  return join;
}

void put(std::span<const engine::KeptExemplar> kept, FieldWriter& writer) {
  writer.count(kept.size());
  for (const engine::KeptExemplar& one : kept) {
    writer.put(one.index);
    writer.put(one.exemplar);
  }
}

void take(std::vector<engine::KeptExemplar>& kept, FieldReader& reader) {
  for (std::uint64_t left = reader.count(kStepMost); left > 0 && reader.ok(); --left) {
    engine::KeptExemplar& one = kept.emplace_back();
    reader.take(one.index);
    reader.take(one.exemplar);
  }
}

void put(const engine::BufferName& name, FieldWriter& writer) {
  writer.put(name.number);
  writer.put(name.version);
}

void take(engine::BufferName& name, FieldReader& reader) {
  reader.take(name.number);
  reader.take(name.version);
}

void put(const engine::Promise& promise, FieldWriter& writer) {
  writer.count(static_cast<std::uint64_t>(promise.kind));
  writer.put(promise.job);
  switch (promise.kind) {
    case engine::Promise::Kind::joined:
      writer.put(whole(promise.join));
      return writer.put(std::string_view(promise.join.name));
    case engine::Promise::Kind::committed:
      writer.put(promise.step);
      writer.put(promise.epoch);
      writer.put(promise.sizes.samples);
      writer.put(promise.sizes.block_samples);
      writer.put(promise.sizes.lane_blocks);
      writer.put(promise.weights);
      writer.put(promise.draws);
      writer.put(promise.buffer);
      writer.put(promise.shown);
      put(promise.kept, writer);
      writer.put(std::span<const order::Slice>(promise.slices));
      if (!promise.indices.empty()) order::write_indices(promise.indices, writer.bytes());
      return;
    case engine::Promise::Kind::epoch_finished:
      return writer.put(promise.epoch);
    case engine::Promise::Kind::left:
      return;
    case engine::Promise::Kind::resized:
      writer.put(promise.batch_samples);
      return writer.put(std::span<const NodeId>(promise.ranks));
    case engine::Promise::Kind::mixture_changed:
      return order::encode(promise.change, writer.out());
    case engine::Promise::Kind::buffer:
      put(promise.buffer_name, writer);
      writer.put(promise.exemplars_most);
      writer.put(std::string_view(promise.buffer_policy));
      writer.put(promise.shown);
      return put(promise.kept, writer);
    case engine::Promise::Kind::buffer_gone:
      return put(promise.buffer_name, writer);
  }
}

std::optional<engine::Promise> taken(std::span<const std::byte> payload, Arena& arena) {
  arena.clear();
  std::deque<order::Position> positions;
  FieldReader reader(payload, arena, positions);
  engine::Promise promise;
  promise.kind = static_cast<engine::Promise::Kind>(reader.count(kLastKind));
  reader.take(promise.job);
  if (promise.kind == engine::Promise::Kind::joined) {
    engine::JobJoined& join = promise.join.join;
    std::string_view name;
    reader.take(join);
    reader.take(name);
    promise.join.name = name;
    promise.join.buffer_policy = join.buffer_policy;
    promise.join.weights_policy = join.weights_policy;
    promise.join.ranks.assign(join.ranks.begin(), join.ranks.end());
    if (join.position) promise.join.position = *join.position;
    if (join.position == nullptr && join.order != Order::listed) return std::nullopt;
    join.ranks = {};
    join.position = nullptr;
    join.buffer_policy = {};
    join.weights_policy = {};
  } else if (promise.kind == engine::Promise::Kind::committed) {
    std::span<const order::Slice> slices;
    reader.take(promise.step);
    reader.take(promise.epoch);
    reader.take(promise.sizes.samples);
    reader.take(promise.sizes.block_samples);
    reader.take(promise.sizes.lane_blocks);
    reader.take(promise.weights);
    reader.take(promise.draws);
    reader.take(promise.buffer);
    reader.take(promise.shown);
    take(promise.kept, reader);
    reader.take(slices);
    promise.slices.assign(slices.begin(), slices.end());
    if (reader.ok() && !reader.at_end()) {
      promise.indices = order::read_indices(reader.bytes(), kStepMost, order::kSamplesMost);
    }
  } else if (promise.kind == engine::Promise::Kind::epoch_finished) {
    reader.take(promise.epoch);
  } else if (promise.kind == engine::Promise::Kind::resized) {
    std::span<const NodeId> ranks;
    reader.take(promise.batch_samples);
    reader.take(ranks);
    promise.ranks.assign(ranks.begin(), ranks.end());
  } else if (promise.kind == engine::Promise::Kind::mixture_changed) {
    promise.change = order::read_mixture_change(reader.bytes());
  } else if (promise.kind == engine::Promise::Kind::buffer) {
    std::string_view policy;
    take(promise.buffer_name, reader);
    reader.take(promise.exemplars_most);
    reader.take(policy);
    reader.take(promise.shown);
    take(promise.kept, reader);
    promise.buffer_policy = policy;
  } else if (promise.kind == engine::Promise::Kind::buffer_gone) {
    take(promise.buffer_name, reader);
  }
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return promise;
}

// A new generation begins when a relaxed job's slices come from it.
std::string enter_generation(order::Position& at, const engine::Promise& promise) {
  const std::uint64_t generation = promise.slices.front().name.generation;
  if (at.has_generation() && at.lanes().generation == generation) return "";
  const bool can_begin = order::is_sane(promise.sizes) &&
                         promise.sizes.samples == at.fields().samples &&
                         promise.sizes.lanes() <= kLanesMost && at.consumed() == 0 &&
                         (!at.has_generation() || generation > at.lanes().generation);
  if (!can_begin) {
    return fmt::format("job {} cannot enter generation {} here", promise.job.value, generation);
  }
  at.begin_generation(generation, promise.sizes.block_samples, promise.sizes.lane_blocks);
  return "";
}

// A weighted job's first step of an epoch begins its draws, also if the epoch is begun anew.
std::string enter_draws(order::Position& at, const engine::Promise& promise) {
  if (promise.draws > order::kSamplesMost)
    return fmt::format("job {} cannot draw {} samples", promise.job.value, promise.draws);
  at.begin_draws(promise.weights, promise.draws);
  return "";
}

}  // namespace

// ----------------------------------------------------------------------------------- state ----

engine::JobJoined Promises::Job::rejoin() const {
  return whole(join);
}

void Promises::begin_incarnations() {
  for (auto& [id, job] : jobs_) job.steps = 0;
}

std::string Promises::apply(const engine::Promise& promise) {
  if (promise.kind == engine::Promise::Kind::joined) return joined(promise);
  if (promise.kind == engine::Promise::Kind::buffer) return buffer(promise);
  if (promise.kind == engine::Promise::Kind::buffer_gone) {
    buffers_.erase(promise.buffer_name);
    return "";
  }
  const auto found = jobs_.find(promise.job.value);
  if (found == jobs_.end()) return fmt::format("job {} has not joined", promise.job.value);
  if (promise.kind == engine::Promise::Kind::committed) return committed(found->second, promise);
  if (promise.kind == engine::Promise::Kind::epoch_finished)
    return epoch_finished(found->second, promise);
  if (promise.kind == engine::Promise::Kind::resized) {
    return resized(found->second, promise);
  }
  if (promise.kind == engine::Promise::Kind::mixture_changed)
    return found->second.join.position.change(promise.change);
  jobs_.erase(found);
  return "";
}

std::string Promises::joined(const engine::Promise& promise) {
  const auto [entry, is_new] = jobs_.try_emplace(promise.job.value);
  if (!is_new) return fmt::format("job {} joined twice", promise.job.value);
  Job& job = entry->second;
  job.join = promise.join;
  job.join.join.ranks = {};
  job.join.join.position = nullptr;
  job.join.join.buffer_policy = {};
  job.join.join.weights_policy = {};
  const engine::JobJoined& join = job.join.join;
  if (join.buffer == 0) return "";
  const engine::BufferName name{join.buffer, job.join.position.fields().dataset_version};
  const auto [made, is_first] = buffers_.try_emplace(name);
  if (is_first) {
    made->second.exemplars_most = join.buffer_exemplars;
    made->second.policy = job.join.buffer_policy;
  }
  if (made->second.exemplars_most == join.buffer_exemplars) return "";
  return fmt::format("job {} asks for a buffer of {} exemplars, and it has {}", promise.job.value,
                     join.buffer_exemplars, made->second.exemplars_most);
}

// What a buffer was shown, and what it kept of that.
std::string Promises::keep(const engine::BufferName& name, const engine::Promise& promise) {
  const auto found = buffers_.find(name);
  if (found == buffers_.end()) return fmt::format("there is no buffer {:016x}", name.number);
  Buffer& buffer = found->second;
  if (promise.shown < buffer.shown)
    return fmt::format("buffer {:016x} was shown {} samples, and then {}", name.number,
                       buffer.shown, promise.shown);
  buffer.shown = promise.shown;
  for (const engine::KeptExemplar& one : promise.kept) {
    if (one.index > buffer.exemplars.size() || one.index >= buffer.exemplars_most)
      return fmt::format("buffer {:016x} has no exemplar {}", name.number, one.index);
    if (one.index == buffer.exemplars.size()) buffer.exemplars.emplace_back();
    buffer.exemplars[one.index] = one.exemplar;
  }
  return "";
}

std::string Promises::buffer(const engine::Promise& promise) {
  const auto [made, is_first] = buffers_.try_emplace(promise.buffer_name);
  if (is_first) {
    made->second.exemplars_most = promise.exemplars_most;
    made->second.policy = promise.buffer_policy;
  }
  return keep(promise.buffer_name, promise);
}

std::vector<engine::BufferPromised> Promises::buffers_promised() const {
  std::vector<engine::BufferPromised> all;
  for (const auto& [name, buffer] : buffers_) {
    const std::span<const engine::Exemplar> exemplars = buffer.exemplars;
    std::size_t at = 0;
    do {
      const auto part =
          exemplars.subspan(at, std::min(engine::kExemplarsAtOnce, exemplars.size() - at));
      all.push_back(
          {name.number, name.version, buffer.exemplars_most, buffer.policy, buffer.shown, part});
      at += part.size();
    } while (at < exemplars.size());
  }
  return all;
}

std::string Promises::resized(Job& job, const engine::Promise& promise) {
  if (promise.batch_samples == 0 || promise.ranks.empty()) {
    return fmt::format("job {} is resized to nothing", promise.job.value);
  }
  job.join.join.batch_samples = promise.batch_samples;
  job.join.ranks = promise.ranks;
  return "";
}

std::string Promises::committed(Job& job, const engine::Promise& promise) {
  order::Position& at = job.join.position;
  if (promise.step < job.steps || promise.epoch != at.epoch()) {
    return fmt::format("job {} commits step {} of epoch {}, after {} steps in epoch {}",
                       promise.job.value, promise.step, promise.epoch, job.steps, at.epoch());
  }
  job.steps = promise.step + 1;
  if (at.order() == Order::relaxed && !at.is_chosen() && !promise.slices.empty()) {
    const std::string problem = enter_generation(at, promise);
    if (!problem.empty()) return problem;
  }
  if (at.order() == Order::weighted) {
    const std::string problem = enter_draws(at, promise);
    if (!problem.empty()) return problem;
  }
  if (!at.rehearse(promise.buffer)) {
    return fmt::format("job {} cannot rehearse", promise.job.value);
  }
  const engine::JobJoined& join = job.join.join;
  if (join.buffer != 0) {
    const std::string problem = keep({join.buffer, at.fields().dataset_version}, promise);
    if (!problem.empty()) return problem;
  }
  return at.apply(promise.slices, promise.indices);
}

std::string Promises::epoch_finished(Job& job, const engine::Promise& promise) {
  order::Position& at = job.join.position;
  if (promise.epoch != at.epoch()) {
    return fmt::format("job {} finishes epoch {} in epoch {}", promise.job.value, promise.epoch,
                       at.epoch());
  }
  at.finish_epoch();
  return "";
}

// --------------------------------------------------------------------------------- writing ----

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
  write_buffers();
  for (const auto& [id, job] : promises_.jobs()) {
    engine::Promise promise;
    promise.kind = engine::Promise::Kind::joined;
    promise.job = JobId(id);
    promise.join = job.join;
    write(promise);
  }
  snapshot_bytes_ = frames_.written();
}

void PromiseLog::write_buffers() {
  for (const engine::BufferPromised& part : promises_.buffers_promised()) {
    engine::Promise promise;
    promise.kind = engine::Promise::Kind::buffer;
    promise.job = JobId::none();
    promise.buffer_name = {part.buffer, part.version};
    promise.exemplars_most = part.exemplars_most;
    promise.buffer_policy = part.policy;
    promise.shown = part.shown;
    const auto& all = promises_.buffers().at(promise.buffer_name).exemplars;
    auto index = static_cast<std::uint32_t>(part.exemplars.data() - all.data());
    for (const engine::Exemplar& one : part.exemplars) promise.kept.push_back({index++, one});
    write(promise);
  }
}

void PromiseLog::write(const engine::Promise& promise) {
  payload_.clear();
  FieldWriter writer(payload_);
  put(promise, writer);
  frames_.append(payload_, {}, pending_);
}

void PromiseLog::add(const engine::Promise& promise) {
  const std::string problem = promises_.apply(promise);
  BF_CHECK_MSG(problem.empty(), problem.c_str());
  write(promise);
}

bool PromiseLog::snapshot_due() const {
  return frames_.written() > bytes_max_ && frames_.written() > 2 * snapshot_bytes_;
}

// -------------------------------------------------------------------------------- recovery ----

RecoveredPromises recover_promises(std::span<const std::byte> log, std::string_view name) {
  FrameReader frames(log, name, LogKind::promises, PromiseLog::kVersion);
  RecoveredPromises recovered;
  std::span<const std::byte> payload;
  Arena arena;
  while (frames.next(payload)) {
    const auto promise = taken(payload, arena);
    if (!promise) {
      frames.refuse("a record that cannot be read", "read it with the program that wrote it");
    }
    const std::string problem = recovered.promises.apply(*promise);
    if (!problem.empty()) frames.refuse(problem, "restore the log from a copy");
  }
  recovered.bytes_cut = frames.bytes_cut();
  recovered.hole = frames.hole();
  return recovered;
}

}  // namespace batchflow::log
