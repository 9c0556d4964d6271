// The records in the rings: batches to the job, requests and acknowledgements from it. They are
// plain structs of fixed layout; each side checks every field that it reads.
//
// A job that was admitted writes `wanted` once with all its credits, and after each `released` with
// one more. A batch is released when it is no longer read, which may be before it is consumed. When
// the service has said that a slab is gone, and the last batch in it was released, the job writes
// `unmapped`. Until then the slab counts as the service's memory.
//
// `ideal` goes only to ranks of a job that allows it (JoinRequest), before the batch that it is
// about: the rank is given that batch so many times more. It answers with an `ideal` of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/engine/event.h"
#include "core/order/mixing.h"
#include "runtime/protocol/ring.h"

namespace batchflow::protocol {

inline constexpr std::uint32_t kProtocolVersion = 3;

// -------------------------------------------------------------------------------- to the job ----

enum class ServiceRecordKind : std::uint32_t {
  batch = 1,
  epoch_ended = 2,
  refused = 3,
  finished = 4,
  mixture = 5,
  ideal = 6,
  exemplars = 8,
  absent = 13
};

struct SliceRecord {
  std::uint64_t generation;
  std::uint32_t lane;
  std::uint32_t pass;
  std::uint32_t block;
  std::uint32_t from;
  std::uint32_t to;
  std::uint32_t flags;  // 1: filler, 2: rehearsed
};

struct BatchRecord {  // followed by its slices, and by `index_bytes` bytes
  ServiceRecordKind kind = ServiceRecordKind::batch;
  std::uint32_t slices = 0;
  std::uint32_t own_from = 0;  // slices [own_from, own_from + own) are the batch's, in its order
  std::uint32_t own = 0;
  std::uint32_t whole_step = 0;  // 1: the other slices are those of all other ranks, by rank
  // With `whole_step`, where a policy chooses the job's samples: which ones the step has, fillers
  // and rehearsed ones apart, as indices of the epoch's permutation (core/order/index_set.h).
  std::uint32_t index_bytes = 0;
  std::uint64_t step = 0;
  std::uint32_t epoch = 0;
  std::uint32_t last_of_epoch = 0;
  std::uint64_t slab = 0;          // an earlier `slab` message has brought it
  std::uint64_t offset = 0;        // of the slot in the slab
  std::uint32_t slot_samples = 0;  // how many samples the slot's layout has room for
  std::uint32_t from = 0;          // the batch is samples [from, from + samples) of the slot
  std::uint32_t samples = 0;
  std::uint32_t fillers = 0;
  std::uint32_t rehearsed = 0;
  std::uint32_t repeats = 0;
  std::uint32_t block_samples = 0;  // B and L of the blocks that slices name
  std::uint32_t lane_blocks = 0;
  std::uint64_t drawn_from = 0;  // weighted: the weights' digest; rehearsed: the buffer's
  std::uint64_t draws = 0;       // weighted: of the epoch
};

inline constexpr std::size_t kSlicesMost =
    (kRecordMost - sizeof(BatchRecord)) / sizeof(SliceRecord);

// A record names at most so many samples by their indices.
inline constexpr std::uint64_t kChosenMost = 1 << 22;

struct EpochEndedRecord {
  ServiceRecordKind kind = ServiceRecordKind::epoch_ended;
  std::uint32_t epoch = 0;
  std::uint64_t samples = 0;
};
// The job is over: its last epoch has ended, it has left, or it was refused (a message says why).
struct FinishedRecord {
  ServiceRecordKind kind = ServiceRecordKind::finished;
  std::uint32_t reserved = 0;
};

// The sources of a mixture have other weights from some draw on. The record comes before the step
// of that draw; the bytes of an order::MixtureChange follow it. A job sends the same record to ask
// for such a change.
struct MixtureRecord {
  std::uint32_t kind = 0;  // of either direction
  std::uint32_t reserved = 0;
};

// The loader gives the batch that follows `steps` times more.
inline constexpr std::uint64_t kIdealStepsMost = 1'000'000;
struct IdealRecord {
  ServiceRecordKind kind = ServiceRecordKind::ideal;
  std::uint32_t reserved = 0;
  std::uint64_t steps = 0;
};

// What the job rehearses from: a buffer that the service fills. It comes before the step that first
// draws from it, in parts. Each is followed by `count` keys, as the differences of an ascending
// list, and with `weighted` by as many weights.
inline constexpr std::size_t kBufferInRecord = 1024;
struct BufferRecord {
  ServiceRecordKind kind = ServiceRecordKind::exemplars;
  std::uint32_t count = 0;
  std::uint32_t first = 0;  // 0: the parts before are forgotten
  std::uint32_t total = 0;
  std::uint32_t weighted = 0;
  std::uint32_t reserved = 0;
};

// There is no sample of the `number`-th key that the job asked for. This record comes before the
// answers to the keys behind it.
struct AbsentRecord {
  ServiceRecordKind kind = ServiceRecordKind::absent;
  std::uint32_t reserved = 0;
  std::uint64_t number = 0;  // counts from 0
};

// ------------------------------------------------------------------------------ from the job ----

enum class JobRecordKind : std::uint32_t {
  wanted = 1,
  consumed = 2,
  released = 3,
  scores = 4,
  unmapped = 5,
  exemplars = 6,
  mixture = 7,
  ideal = 8,
  described = 11,
  keys = 13,
  losses = 15
};

struct JobRecord {
  JobRecordKind kind = JobRecordKind::wanted;
  std::uint32_t credits = 0;     // wanted
  std::uint64_t step = 0;        // consumed, released; unmapped: the slab; ideal: steps
  std::uint64_t compute_ns = 0;  // consumed: the job's time with the batch, without waiting;
                                 // ideal: with these steps together
  std::uint64_t wait_ns = 0;     // consumed: how long the job waited for it
};

struct ScoresRecord {  // followed by its scores, at most kScoresMost
  JobRecordKind kind = JobRecordKind::scores;
  std::uint32_t count = 0;
};
struct ScoreRecord {
  std::uint64_t sample = 0;
  float value = 0;
  std::uint32_t reserved = 0;
};

// A part of the buffer of a job that rehearses, from its rank 0. It is followed by the keys of the
// exemplars [first, first + count). The buffer counts when a part has come that no other follows.
inline constexpr std::size_t kExemplarsInRecord = 512;
static_assert(kExemplarsInRecord <= engine::kExemplarsAtOnce);
struct ExemplarsRecord {
  JobRecordKind kind = JobRecordKind::exemplars;
  std::uint32_t count = 0;
  std::uint32_t first = 0;  // 0: the parts before are forgotten
  std::uint32_t more = 0;   // 1: another part follows
};

// What a network makes of samples, and their classes. It is followed by `count` keys, with
// `has_labels` by as many classes, and by `features` numbers for each sample.
struct DescribedRecord {
  JobRecordKind kind = JobRecordKind::described;
  std::uint32_t count = 0;  // at most kDescribedMost
  std::uint32_t features = 0;
  std::uint32_t has_labels = 0;
};
// How many samples a record has room for.
constexpr std::size_t described_in_record(std::size_t features) {
  const std::size_t one = sizeof(std::uint64_t) + sizeof(std::uint32_t) + features * sizeof(float);
  const std::size_t room = (kRecordMost - sizeof(DescribedRecord)) / one;
  return room < engine::kDescribedMost ? room : engine::kDescribedMost;
}
static_assert(described_in_record(engine::kFeaturesMost) > 0);
struct Described {
  std::uint32_t features = 0;
  std::vector<SampleId> samples;
  std::vector<std::uint32_t> labels;  // empty: they say none
  std::vector<float> values;
};

// Samples that a job asks for by their keys. It is followed by `count` keys.
struct KeysRecord {
  JobRecordKind kind = JobRecordKind::keys;
  std::uint32_t count = 0;  // 1 to kKeysInRecord
};
inline constexpr std::size_t kKeysInRecord =
    (kRecordMost - sizeof(KeysRecord)) / sizeof(std::uint64_t);

// A rank's loss on each source of a mixture that sets its weights by losses. It is followed by
// `count` numbers; a NaN says nothing of its source.
struct LossesRecord {
  JobRecordKind kind = JobRecordKind::losses;
  std::uint32_t count = 0;  // at most kSourcesMost
};
static_assert(sizeof(LossesRecord) + order::Mixing::kSourcesMost * sizeof(float) <= kRecordMost);

// ------------------------------------------------------------------------------- both ----

template <class Record>
std::span<const std::byte> bytes_of(const Record& record) {
  static_assert(std::has_unique_object_representations_v<Record>);
  return std::as_bytes(std::span<const Record, 1>(&record, 1));
}

// A record of the service that was read, and checked as far as is possible without knowing the job.
struct ServiceMessage {
  ServiceRecordKind kind = ServiceRecordKind::finished;
  BatchRecord batch;
  std::vector<order::Slice> slices;
  std::vector<std::uint64_t> indices;  // ascending
  std::span<const order::Slice> own() const {
    return std::span(slices).subspan(batch.own_from, batch.own);
  }
  EpochEndedRecord epoch_ended;
  order::MixtureChange change;
  IdealRecord ideal;
  AbsentRecord absent;
  BufferRecord buffer;  // a part of one:
  std::vector<SampleId> exemplars;
  std::vector<std::uint32_t> weights;
};
// False, with the reason in `problem`, for bytes that are no record. `out` keeps its memory.
bool read_service_record(std::span<const std::byte> record, ServiceMessage& out,
                         std::string& problem);

struct JobMessage {
  JobRecord record;
  std::vector<engine::Score> scores;
  ExemplarsRecord part;  // of exemplars:
  std::vector<SampleId> exemplars;
  order::MixtureChange change;
  Described described;
  std::vector<SampleId> keys;
  std::vector<float> losses;
};
bool read_job_record(std::span<const std::byte> record, JobMessage& out, std::string& problem);

// Writes a batch and its slices as one record to `out`. `batch` says which slices are its own; the
// others are those of other ranks. `indices` has the bytes of the chosen samples' indices.
// REQUIRES: batch_bytes(slices.size(), indices.size()) <= kRecordMost
void write_batch(BatchRecord batch, std::span<const order::Slice> slices,
                 std::vector<std::byte>& out, std::span<const std::byte> indices = {});
// The bytes of a record with `slices`, and with so many bytes of indices.
constexpr std::size_t batch_bytes(std::size_t slices, std::size_t indices = 0) {
  return sizeof(BatchRecord) + slices * sizeof(SliceRecord) + indices;
}
void write_scores(std::span<const engine::Score> scores, std::vector<std::byte>& out);
// `part`: a buffer's exemplars from index `first` on. REQUIRES: part.size() <= kExemplarsInRecord
void write_exemplars(std::span<const SampleId> part, std::uint32_t first, bool more,
                     std::vector<std::byte>& out);

// REQUIRES: described.samples.size() <= described_in_record(described.features)
void write_described(const Described& described, std::vector<std::byte>& out);
// REQUIRES: 0 < keys.size() <= kKeysInRecord
void write_keys(std::span<const SampleId> keys, std::vector<std::byte>& out);
// REQUIRES: losses.size() <= order::Mixing::kSourcesMost
void write_losses(std::span<const float> losses, std::vector<std::byte>& out);
// The records that bring a buffer, one after the other; the list may have any order.
std::vector<std::vector<std::byte>> buffer_records(std::span<const SampleId> samples,
                                                   std::span<const std::uint32_t> weights);

void write_mixture(ServiceRecordKind kind, const order::MixtureChange& change,
                   std::vector<std::byte>& out);
void write_mixture(JobRecordKind kind, const order::MixtureChange& change,
                   std::vector<std::byte>& out);

}  // namespace batchflow::protocol
