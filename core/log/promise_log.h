// The promise log: what jobs have been promised, and where each job is. It is the only thing that
// recovery reads. It is small, because it knows nothing of caches, blocks in preparation or
// policies.
//
// Its records are the engine's promises in order (core/engine/promise.h). Promises keeps the state
// they add up to; a log that has grown to its bound begins anew with that state (a snapshot), and
// the old one can be removed. After a crash recover_promises gives the joins to feed a new engine,
// each with the size its job had last, the position of its last committed step, and the hash of the
// pipeline it was served with: an engine that knows another pipeline by that name refuses the job.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "core/engine/promise.h"
#include "core/log/frame_log.h"

namespace batchflow::log {

// The state that all promises so far add up to.
class Promises {
 public:
  struct Job {
    engine::PromisedJoin join;  // `join.position` is where the job is by now
    std::uint64_t steps = 0;    // number after the last committed one; 0 again after a snapshot

    // The join to feed to a new engine. Valid until this job changes or moves.
    engine::JobJoined rejoin() const;
  };

  // A buffer that the engine fills.
  struct Buffer {
    std::uint32_t exemplars_most = 0;
    std::string policy;
    std::uint64_t shown = 0;
    std::vector<engine::Exemplar> exemplars;
    friend bool operator==(const Buffer&, const Buffer&) = default;
  };

  // Why this promise cannot follow the ones before; empty: it can.
  [[nodiscard]] std::string apply(const engine::Promise& promise);
  // A new engine counts each job's steps from 0.
  void begin_incarnations();

  const std::map<std::uint32_t, Job>& jobs() const { return jobs_; }  // by JobId
  const std::map<engine::BufferName, Buffer>& buffers() const { return buffers_; }
  // What to feed to a new engine before its jobs come. Valid until a buffer changes.
  std::vector<engine::BufferPromised> buffers_promised() const;

 private:
  std::string joined(const engine::Promise& promise);
  static std::string resized(Job& job, const engine::Promise& promise);
  std::string committed(Job& job, const engine::Promise& promise);
  std::string keep(const engine::BufferName& name, const engine::Promise& promise);
  std::string buffer(const engine::Promise& promise);
  static std::string epoch_finished(Job& job, const engine::Promise& promise);

  std::map<std::uint32_t, Job> jobs_;
  std::map<engine::BufferName, Buffer> buffers_;
};

// Writes the log and keeps its state.
class PromiseLog {
 public:
  static constexpr std::uint32_t kVersion = 8;

  explicit PromiseLog(Bytes bytes_max);
  // Goes on from what a recovery found; its first bytes are a snapshot.
  PromiseLog(Bytes bytes_max, Promises promises);

  // REQUIRES: the promise follows from what came before
  void add(const engine::Promise& promise);
  const Promises& promises() const { return promises_; }

  // The bytes to write since the last clear_pending(), in order.
  std::span<const std::byte> pending() const { return pending_; }
  void clear_pending() { pending_.clear(); }

  // Whether a new log is due: the bound is reached, and a snapshot would at least halve it.
  bool snapshot_due() const;
  // From here on pending() is a new log that begins with a snapshot. It replaces the old log once
  // it is on disk.
  void begin_anew();

 private:
  void write(const engine::Promise& promise);
  void write_buffers();

  Bytes bytes_max_;
  std::vector<std::byte> pending_;
  FrameWriter frames_;
  Promises promises_;
  Bytes snapshot_bytes_ = 0;
  std::vector<std::byte> payload_;
};

struct RecoveredPromises {
  Promises promises;
  Bytes bytes_cut = 0;  // of a record that was being written when the writer died
  Bytes hole = 0;       // where zeros begin that have later records behind them; 0: none
};
// Throws ConfigError when this is no promise log of this version, or a damaged one.
RecoveredPromises recover_promises(std::span<const std::byte> log, std::string_view name);

}  // namespace batchflow::log
