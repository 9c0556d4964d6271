// What goes through the rings: batches down, wishes and acknowledgements up. Plain structs of fixed
// layout; both sides check every field of what they read.
#pragma once

#include <cstdint>

#include "core/event.h"

namespace batchflow {

inline constexpr std::uint32_t kProtocolVersion = 1;

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

struct BatchRecord {  // followed by its slices
  DownKind kind = DownKind::batch;
  std::uint32_t slices = 0;
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
  std::uint64_t drawn_from = 0;  // weighted: the weights' digest
  std::uint64_t draws = 0;       // weighted: of the epoch
};

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

enum class UpKind : std::uint32_t { wanted = 1, consumed = 2, released = 3 };

struct UpRecord {
  UpKind kind = UpKind::wanted;
  std::uint32_t credits = 0;     // wanted
  std::uint64_t step = 0;        // consumed, released
  std::uint64_t compute_ns = 0;  // consumed: the user's time with the batch, waiting not included
  std::uint64_t wait_ns = 0;     // consumed: how long the user waited for it
};

}  // namespace batchflow
