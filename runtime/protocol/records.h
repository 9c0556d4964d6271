// What goes through the rings: batches down, wishes and acknowledgements up. Plain structs of fixed
// layout; both sides check every field of what they read.
//
// A job that has been admitted says `wanted` once with all its credits, and with one more after
// each `released`. A batch is released when nobody reads it any more, which may be before it is
// consumed. A slab that the service has said is gone is `unmapped` when the last batch in it has
// been released: until then it counts as the service's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/event.h"
#include "runtime/protocol/ring.h"

namespace batchflow {

inline constexpr std::uint32_t kProtocolVersion = 3;

// ---------------------------------------------------------------------------------- down ----

enum class DownKind : std::uint32_t { batch = 1, epoch_ended = 2, refused = 3, finished = 4 };

struct SliceRecord {
  std::uint64_t generation;
  std::uint32_t lane;
  std::uint32_t pass;
  std::uint32_t block;
  std::uint32_t from;
  std::uint32_t to;
  std::uint32_t flags;  // 1: filler, 2: rehearsed
};

struct BatchRecord {  // followed by slices
  DownKind kind = DownKind::batch;
  std::uint32_t slices = 0;
  std::uint32_t own_from = 0;  // slices [own_from, own_from + own) are the batch's, in its order
  std::uint32_t own = 0;
  std::uint32_t whole_step = 0;  // 1: the others are those of the other ranks, by rank
  std::uint32_t reserved = 0;
  std::uint64_t step = 0;
  std::uint32_t epoch = 0;
  std::uint32_t last_of_epoch = 0;
  std::uint64_t slab = 0;          // named by a `slab` message that came before
  std::uint64_t offset = 0;        // of the slot in it
  std::uint32_t slot_samples = 0;  // the layout is that of the job's fields for so many samples
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

struct EpochEndedRecord {
  DownKind kind = DownKind::epoch_ended;
  std::uint32_t epoch = 0;
  std::uint64_t samples = 0;
};
// The job is over: by its own wish, since its last epoch is, or refused (why: a message).
struct FinishedRecord {
  DownKind kind = DownKind::finished;
  std::uint32_t reserved = 0;
};

// ------------------------------------------------------------------------------------ up ----

enum class UpKind : std::uint32_t {
  wanted = 1,
  consumed = 2,
  released = 3,
  scores = 4,
  unmapped = 5
};

struct UpRecord {
  UpKind kind = UpKind::wanted;
  std::uint32_t credits = 0;     // wanted
  std::uint64_t step = 0;        // consumed, released; unmapped: the slab
  std::uint64_t compute_ns = 0;  // consumed: the user's time with the batch, waiting not included
  std::uint64_t wait_ns = 0;     // consumed: how long the user waited for it
};

struct ScoresRecord {  // followed by its scores, at most kScoresMost
  UpKind kind = UpKind::scores;
  std::uint32_t count = 0;
};
struct ScoreRecord {
  std::uint64_t sample = 0;
  float value = 0;
  std::uint32_t reserved = 0;
};

// ------------------------------------------------------------------------------- both ----

template <class Record>
std::span<const std::byte> bytes_of(const Record& record) {
  static_assert(std::has_unique_object_representations_v<Record>);
  return std::as_bytes(std::span<const Record, 1>(&record, 1));
}

// A record as it was read, checked as far as it can be without knowing the job.
struct DownRecord {
  DownKind kind = DownKind::finished;
  BatchRecord batch;
  std::vector<Slice> slices;
  std::span<const Slice> own() const {
    return std::span(slices).subspan(batch.own_from, batch.own);
  }
  EpochEndedRecord epoch_ended;
};
// False, with the reason in `problem`, for bytes that are none. `out` keeps its memory.
bool read_down(std::span<const std::byte> record, DownRecord& out, std::string& problem);

struct UpMessage {
  UpRecord up;
  std::vector<Score> scores;
};
bool read_up(std::span<const std::byte> record, UpMessage& out, std::string& problem);

// A batch and its slices as one record, in `out`. At most kSlicesMost slices fit. The slices that
// `batch` does not say are its own are those of other ranks.
void write_batch(BatchRecord batch, std::span<const Slice> slices, std::vector<std::byte>& out);
// The bytes of a record of so many slices.
constexpr std::size_t batch_bytes(std::size_t slices) {
  return sizeof(BatchRecord) + slices * sizeof(SliceRecord);
}
void write_scores(std::span<const Score> scores, std::vector<std::byte>& out);

}  // namespace batchflow
