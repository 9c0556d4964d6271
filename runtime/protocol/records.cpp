#include "runtime/protocol/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/order/index_set.h"
#include "core/order/permutation.h"
#include "core/order/rehearsal.h"

namespace batchflow::protocol {
namespace {

enum SliceFlag : std::uint32_t { kFillerSlice = 1, kRehearsedSlice = 2 };

// Takes one `Record` from the front.
template <class Record>
bool take(std::span<const std::byte>& bytes, Record& record) {
  if (bytes.size() < sizeof record) return false;
  std::memcpy(&record, bytes.data(), sizeof record);
  bytes = bytes.subspan(sizeof record);
  return true;
}

std::uint32_t kind_of(std::span<const std::byte> bytes) {
  std::uint32_t kind = 0;
  return take(bytes, kind) ? kind : 0;
}

std::string slices_problem(const BatchRecord& batch, std::span<const order::Slice> slices) {
  std::uint64_t plain = 0;
  std::uint64_t fillers = 0;
  std::uint64_t rehearsed = 0;
  for (const order::Slice& slice : slices) {
    if (slice.from >= slice.to) return "a slice without samples";
    if (slice.filler && slice.rehearsed) return "a slice that is both filler and rehearsed";
    (slice.filler ? fillers : slice.rehearsed ? rehearsed : plain) += slice.to - slice.from;
  }
  if (fillers != batch.fillers || rehearsed != batch.rehearsed ||
      plain + fillers + rehearsed != batch.samples) {
    return fmt::format("slices of {} + {} + {} samples in a batch of {}, {} fillers, {} rehearsed",
                       plain, fillers, rehearsed, batch.samples, batch.fillers, batch.rehearsed);
  }
  return "";
}

// The indices of chosen samples; false for bytes that are none.
bool read_chosen(std::span<const std::byte> bytes, std::vector<std::uint64_t>& indices) {
  indices.clear();
  if (bytes.empty()) return true;
  ByteReader reader(bytes);
  indices = order::read_indices(reader, kChosenMost, order::kSamplesMost);
  return reader.ok() && reader.at_end() && !indices.empty();
}

bool read_batch(std::span<const std::byte> bytes, ServiceMessage& out, std::string& problem) {
  BatchRecord& batch = out.batch;
  if (!take(bytes, batch) || bytes.size() < batch.index_bytes ||
      bytes.size() - batch.index_bytes != batch.slices * sizeof(SliceRecord)) {
    problem = "a batch record of the wrong size";
    return false;
  }
  if (!read_chosen(bytes.last(batch.index_bytes), out.indices)) {
    problem = "a batch record with indices that are none";
    return false;
  }
  bytes = bytes.first(bytes.size() - batch.index_bytes);
  out.slices.clear();
  for (SliceRecord slice{}; take(bytes, slice);) {
    if ((slice.flags & ~std::uint32_t{kFillerSlice | kRehearsedSlice}) != 0) {
      problem = fmt::format("a slice with flags {}", slice.flags);
      return false;
    }
    out.slices.push_back({{slice.generation, slice.lane, slice.pass, slice.block},
                          slice.from,
                          slice.to,
                          (slice.flags & kFillerSlice) != 0,
                          (slice.flags & kRehearsedSlice) != 0});
  }
  if (batch.own_from > batch.slices || batch.own > batch.slices - batch.own_from ||
      batch.whole_step > 1) {
    problem = fmt::format("slices {} to +{} of {}", batch.own_from, batch.own, batch.slices);
    return false;
  }
  problem = slices_problem(batch, out.own());
  for (const order::Slice& slice : out.slices) {
    if (slice.from >= slice.to) problem = "a slice without samples";
  }
  if (!problem.empty()) return false;
  const bool in_slot = batch.from <= batch.slot_samples &&
                       batch.samples <= batch.slot_samples - batch.from && batch.samples > 0;
  if (!in_slot || batch.last_of_epoch > 1 || batch.offset % 64 != 0) {
    problem = fmt::format("a batch of samples [{}, +{}) in a slot of {} at {}", batch.from,
                          batch.samples, batch.slot_samples, batch.offset);
    return false;
  }
  return true;
}

bool read_scores(std::span<const std::byte> record, JobMessage& out) {
  ScoresRecord head;
  if (!take(record, head) || head.count > engine::kScoresMost ||
      record.size() != head.count * sizeof(ScoreRecord))
    return false;
  for (ScoreRecord score; take(record, score);) {
    if (!std::isfinite(score.value)) continue;  // says nothing about its sample
    out.scores.push_back({SampleId(score.sample), score.value});
  }
  out.record.kind = JobRecordKind::scores;
  return true;
}

bool read_exemplars(std::span<const std::byte> record, JobMessage& out) {
  if (!take(record, out.part) || out.part.count > kExemplarsInRecord || out.part.more > 1 ||
      record.size() != out.part.count * sizeof(std::uint64_t))
    return false;
  for (std::uint64_t key = 0; take(record, key);) out.exemplars.emplace_back(key);
  out.record.kind = JobRecordKind::exemplars;
  return true;
}

template <class Value>
bool take_list(std::span<const std::byte>& bytes, std::size_t count, std::vector<Value>& out) {
  if (bytes.size() < count * sizeof(Value)) return false;
  out.resize(count);
  if (count > 0) std::memcpy(out.data(), bytes.data(), count * sizeof(Value));
  bytes = bytes.subspan(count * sizeof(Value));
  return true;
}
template <class Value>
void add_list(std::span<const Value> list, std::vector<std::byte>& out) {
  const auto bytes = std::as_bytes(list);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

bool read_described(std::span<const std::byte> record, JobMessage& out) {
  DescribedRecord head;
  if (!take(record, head) || head.count > engine::kDescribedMost ||
      head.features > engine::kFeaturesMost || head.has_labels > 1)
    return false;
  Described& described = out.described;
  described.features = head.features;
  out.record.kind = JobRecordKind::described;
  const bool whole = take_list(record, head.count, described.samples) &&
                     take_list(record, head.has_labels * head.count, described.labels) &&
                     take_list(record, std::size_t{head.count} * head.features, described.values);
  return whole && record.empty();
}

bool read_keys(std::span<const std::byte> record, JobMessage& out) {
  KeysRecord head;
  if (!take(record, head) || head.count == 0 || head.count > kKeysInRecord) return false;
  out.record.kind = JobRecordKind::keys;
  return take_list(record, head.count, out.keys) && record.empty();
}

bool read_losses(std::span<const std::byte> record, JobMessage& out) {
  LossesRecord head;
  if (!take(record, head) || head.count > order::Mixing::kSourcesMost) return false;
  out.record.kind = JobRecordKind::losses;
  return take_list(record, head.count, out.losses) && record.empty();
}

bool read_buffer(std::span<const std::byte> record, ServiceMessage& out) {
  BufferRecord& head = out.buffer;
  if (!take(record, head) || head.count > kBufferInRecord || head.weighted > 1 ||
      head.total > order::kExemplarsMost || head.first > head.total ||
      head.count > head.total - head.first)
    return false;
  ByteReader reader(record);
  out.exemplars.clear();
  out.weights.clear();
  std::uint64_t key = 0;
  for (std::uint32_t i = 0; i < head.count; ++i)
    out.exemplars.emplace_back(key += reader.count(order::kSamplesMost));
  for (std::uint32_t i = 0; head.weighted != 0 && i < head.count; ++i)
    out.weights.push_back(reader.count32());
  return reader.ok() && reader.at_end();
}

bool read_mixture(std::span<const std::byte> record, order::MixtureChange& change) {
  MixtureRecord head;
  if (!take(record, head)) return false;
  ByteReader reader(record);
  change = order::read_mixture_change(reader);
  return reader.ok() && reader.at_end() && !change.parts.empty();
}

void put_mixture(std::uint32_t kind, const order::MixtureChange& change,
                 std::vector<std::byte>& out) {
  const MixtureRecord head{kind, 0};
  const auto bytes = bytes_of(head);
  out.assign(bytes.begin(), bytes.end());
  encode(change, out);
  BF_CHECK(out.size() <= kRecordMost);
}

}  // namespace

bool read_service_record(std::span<const std::byte> record, ServiceMessage& out,
                         std::string& problem) {
  out.kind = static_cast<ServiceRecordKind>(kind_of(record));
  FinishedRecord finished;
  switch (out.kind) {
    case ServiceRecordKind::batch:
      return read_batch(record, out, problem);
    case ServiceRecordKind::epoch_ended:
      if (take(record, out.epoch_ended) && record.empty()) return true;
      break;
    case ServiceRecordKind::refused:
    case ServiceRecordKind::finished:
      if (take(record, finished) && record.empty()) return true;
      break;
    case ServiceRecordKind::mixture:
      if (read_mixture(record, out.change)) return true;
      break;
    case ServiceRecordKind::ideal:
      if (take(record, out.ideal) && record.empty() && out.ideal.steps > 0 &&
          out.ideal.steps <= kIdealStepsMost)
        return true;
      break;
    case ServiceRecordKind::exemplars:
      if (read_buffer(record, out)) return true;
      break;
    case ServiceRecordKind::absent:
      if (take(record, out.absent) && record.empty()) return true;
      break;
  }
  problem = fmt::format("a record of kind {} and the wrong size", static_cast<unsigned>(out.kind));
  return false;
}

bool read_job_record(std::span<const std::byte> record, JobMessage& out, std::string& problem) {
  out.record = {};
  out.scores.clear();
  out.part = {};
  out.exemplars.clear();
  const std::uint32_t kind = kind_of(record);
  if (kind == static_cast<std::uint32_t>(JobRecordKind::scores)) {
    if (read_scores(record, out)) return true;
  } else if (kind == static_cast<std::uint32_t>(JobRecordKind::exemplars)) {
    if (read_exemplars(record, out)) return true;
  } else if (kind == static_cast<std::uint32_t>(JobRecordKind::mixture)) {
    out.record.kind = JobRecordKind::mixture;
    if (read_mixture(record, out.change)) return true;
  } else if (kind == static_cast<std::uint32_t>(JobRecordKind::described)) {
    if (read_described(record, out)) return true;
  } else if (kind == static_cast<std::uint32_t>(JobRecordKind::losses)) {
    if (read_losses(record, out)) return true;
  } else if (kind == static_cast<std::uint32_t>(JobRecordKind::keys)) {
    if (read_keys(record, out)) return true;
  } else if (((kind >= static_cast<std::uint32_t>(JobRecordKind::wanted) &&
               kind <= static_cast<std::uint32_t>(JobRecordKind::unmapped)) ||
              kind == static_cast<std::uint32_t>(JobRecordKind::ideal)) &&
             take(record, out.record) && record.empty()) {
    return true;
  }
  problem = fmt::format("a record of kind {} and the wrong size", kind);
  return false;
}

void write_batch(BatchRecord batch, std::span<const order::Slice> slices,
                 std::vector<std::byte>& out, std::span<const std::byte> indices) {
  BF_CHECK(batch_bytes(slices.size(), indices.size()) <= kRecordMost);
  batch.index_bytes = static_cast<std::uint32_t>(indices.size());
  batch.kind = ServiceRecordKind::batch;
  batch.slices = static_cast<std::uint32_t>(slices.size());
  const auto head = bytes_of(batch);
  out.assign(head.begin(), head.end());
  for (const order::Slice& slice : slices) {
    const SliceRecord record{slice.name.generation,
                             slice.name.lane,
                             slice.name.pass,
                             slice.name.block,
                             slice.from,
                             slice.to,
                             (slice.filler ? std::uint32_t{kFillerSlice} : 0) |
                                 (slice.rehearsed ? std::uint32_t{kRehearsedSlice} : 0)};
    const auto bytes = bytes_of(record);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  out.insert(out.end(), indices.begin(), indices.end());
}

void write_mixture(ServiceRecordKind kind, const order::MixtureChange& change,
                   std::vector<std::byte>& out) {
  put_mixture(static_cast<std::uint32_t>(kind), change, out);
}

void write_mixture(JobRecordKind kind, const order::MixtureChange& change,
                   std::vector<std::byte>& out) {
  put_mixture(static_cast<std::uint32_t>(kind), change, out);
}

void write_scores(std::span<const engine::Score> scores, std::vector<std::byte>& out) {
  BF_CHECK(scores.size() <= engine::kScoresMost);
  const ScoresRecord head{JobRecordKind::scores, static_cast<std::uint32_t>(scores.size())};
  const auto bytes = bytes_of(head);
  out.assign(bytes.begin(), bytes.end());
  for (const engine::Score& score : scores) {
    const ScoreRecord record{score.sample.value, score.value, 0};
    const auto* first = reinterpret_cast<const std::byte*>(&record);
    out.insert(out.end(), first, first + sizeof record);
  }
}

void write_described(const Described& described, std::vector<std::byte>& out) {
  BF_CHECK(described.samples.size() <= described_in_record(described.features));
  const DescribedRecord head{JobRecordKind::described,
                             static_cast<std::uint32_t>(described.samples.size()),
                             described.features, described.labels.empty() ? 0u : 1u};
  const auto bytes = bytes_of(head);
  out.assign(bytes.begin(), bytes.end());
  add_list<SampleId>(described.samples, out);
  add_list<std::uint32_t>(described.labels, out);
  add_list<float>(described.values, out);
}

void write_keys(std::span<const SampleId> keys, std::vector<std::byte>& out) {
  BF_CHECK(!keys.empty() && keys.size() <= kKeysInRecord);
  const KeysRecord head{JobRecordKind::keys, static_cast<std::uint32_t>(keys.size())};
  const auto bytes = bytes_of(head);
  out.assign(bytes.begin(), bytes.end());
  add_list<SampleId>(keys, out);
}

void write_losses(std::span<const float> losses, std::vector<std::byte>& out) {
  BF_CHECK(losses.size() <= order::Mixing::kSourcesMost);
  const LossesRecord head{JobRecordKind::losses, static_cast<std::uint32_t>(losses.size())};
  const auto bytes = bytes_of(head);
  out.assign(bytes.begin(), bytes.end());
  add_list<float>(losses, out);
}

std::vector<std::vector<std::byte>> buffer_records(std::span<const SampleId> samples,
                                                   std::span<const std::uint32_t> weights) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> all;
  for (std::size_t i = 0; i < samples.size(); ++i)
    all.emplace_back(samples[i].value, weights.empty() ? 0 : weights[i]);
  std::sort(all.begin(), all.end());
  std::vector<std::vector<std::byte>> records;
  for (std::size_t first = 0; first < all.size(); first += kBufferInRecord) {
    const auto part = std::span(all).subspan(first, std::min(kBufferInRecord, all.size() - first));
    BufferRecord head;
    head.count = static_cast<std::uint32_t>(part.size());
    head.first = static_cast<std::uint32_t>(first);
    head.total = static_cast<std::uint32_t>(all.size());
    head.weighted = weights.empty() ? 0 : 1;
    std::vector<std::byte>& record = records.emplace_back();
    const auto bytes = bytes_of(head);
    record.assign(bytes.begin(), bytes.end());
    ByteWriter writer(record);
    std::uint64_t last = 0;
    for (const auto& [key, weight] : part) writer.count(key - std::exchange(last, key));
    for (const auto& [key, weight] : part) {
      if (!weights.empty()) writer.count(weight);
    }
    BF_CHECK(record.size() <= kRecordMost);
  }
  return records;
}

void write_exemplars(std::span<const SampleId> part, std::uint32_t first, bool more,
                     std::vector<std::byte>& out) {
  BF_CHECK(part.size() <= kExemplarsInRecord);
  const ExemplarsRecord head{JobRecordKind::exemplars, static_cast<std::uint32_t>(part.size()),
                             first, more ? 1u : 0u};
  const auto bytes = bytes_of(head);
  out.assign(bytes.begin(), bytes.end());
  static_assert(sizeof(SampleId) == sizeof(std::uint64_t));
  const auto keys = std::as_bytes(part);
  out.insert(out.end(), keys.begin(), keys.end());
}

}  // namespace batchflow::protocol
