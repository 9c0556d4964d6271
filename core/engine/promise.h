// What the engine has promised and must know after a crash: joins, sizes, commits, ends, changes of
// mixtures, and buffers. Nothing else.
//
// Each engine step leaves its promises. A backend writes them to the promise log before it carries
// out the commands of that step. The log holds no caches and no policies: they start empty.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/engine/event.h"
#include "core/order/position.h"

namespace batchflow::engine {

// What a buffer that the engine fills is known by: a number that stands for its name, and the
// dataset version of its exemplars.
struct BufferName {
  std::uint64_t number = 0;
  Digest version = 0;
  friend auto operator<=>(const BufferName&, const BufferName&) = default;
};
// The exemplar that is at this index of a buffer from now on.
struct KeptExemplar {
  std::uint32_t index = 0;
  Exemplar exemplar;
};

// A join as it was accepted, with everything that it refers to.
struct PromisedJoin {
  JobJoined join;    // its lists and position point into this struct
  std::string name;  // that a backend knows the job by; the engine has none
  std::string buffer_policy;
  std::string weights_policy;
  std::vector<NodeId> ranks;
  order::Position position;
};

struct Promise {
  enum class Kind : std::uint8_t {
    joined,
    committed,
    epoch_finished,
    left,
    resized,
    mixture_changed,
    buffer,      // a part of what a buffer has: of a snapshot, or taken over; before its jobs
    buffer_gone  // its room was needed, and no job had it
  };
  Kind kind = Kind::joined;
  JobId job;
  std::uint64_t step = 0;            // committed
  std::uint32_t epoch = 0;           // committed, epoch_finished
  std::vector<order::Slice> slices;  // committed: the step's samples, fillers left out
  // committed, if a policy chooses the job's samples: which, as indices of the epoch's permutation,
  // ascending
  std::vector<std::uint64_t> indices;
  order::LaneSizes sizes;            // committed, relaxed: of the slices' generation
  Digest weights = 0;                // committed, weighted: those the epoch is drawn from
  std::uint64_t draws = 0;           // committed, weighted: of the epoch
  Digest buffer = 0;                 // committed: what is rehearsed in the epoch; 0: nothing
  std::uint64_t shown = 0;           // committed, buffer: samples that the buffer was shown so far
  std::vector<KeptExemplar> kept;    // committed, buffer
  BufferName buffer_name;            // buffer, buffer_gone
  std::uint32_t exemplars_most = 0;  // buffer
  std::string buffer_policy;         // buffer
  PromisedJoin join;                 // joined
  std::uint32_t batch_samples = 0;   // resized: of one rank
  std::vector<NodeId> ranks;         // resized
  order::MixtureChange change;       // mixture_changed

  // Makes it like new, but keeps the memory of its lists.
  void reset() {
    if (kind == Kind::joined) join = PromisedJoin();
    kind = Kind::joined;
    step = weights = draws = buffer = shown = 0;
    epoch = batch_samples = exemplars_most = 0;
    kept.clear();
    buffer_name = {};
    buffer_policy.clear();
    slices.clear();
    indices.clear();
    sizes = order::LaneSizes();
    ranks.clear();
    change = {};
  }
};

// The promises of one step. Most are commits, which are many and alike: their memory is used again.
class StepPromises {
 public:
  Promise& add(Promise::Kind kind, JobId job) {
    if (used_ == all_.size()) all_.emplace_back();
    Promise& promise = all_[used_++];
    promise.kind = kind;
    promise.job = job;
    return promise;
  }
  void clear() {
    for (std::size_t i = 0; i < used_; ++i) all_[i].reset();
    used_ = 0;
  }
  std::span<const Promise> all() const { return {all_.data(), used_}; }

 private:
  std::vector<Promise> all_;
  std::size_t used_ = 0;
};

}  // namespace batchflow::engine
