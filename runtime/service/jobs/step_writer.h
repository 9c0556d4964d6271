// Writes training steps into the rings of jobs' ranks, and lets the ranks go on: a step is written
// when all its batches are there, and read when every node of its ranks has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/event.h"
#include "runtime/service/jobs/job.h"
#include "runtime/service/jobs/job_waits.h"

namespace batchflow::service {

class StepWriter {
 public:
  explicit StepWriter(JobWaits& waits) : waits_(waits) {}

  // A batch of a rank. False: the rank has no room for it, or wants none.
  bool deliver(ServedJob& job, const engine::Deliver& command, const Slot* slot,
               std::uint32_t slot_samples);
  void write(RankEnd& end, std::span<const std::byte> record);
  // The sources of the job's mixture get other weights. Its ranks are told before their next step.
  static void change(ServedJob& job, const engine::MixtureSet& command);
  // Tells each rank before its next step what is in the job's buffer. A rank that is admitted later
  // is told then.
  static void change(ServedJob& job, const engine::ExemplarsSet& command);
  static void tell_buffer(RankEnd& end);
  // Tells a rank that there is no sample of a key that it asked for. False: it has not read enough
  // of its ring.
  bool absent(RankEnd& end, std::uint64_t number);
  // The rank has had all that the job asked for, or the job is refused: it need not wait for more.
  void finish(RankEnd& end, protocol::ServiceRecordKind how);
  // From now on ranks may read what was delivered, and those that sleep are woken once.
  void flush();
  // All ranks of the job on the node have the batches of the steps below `steps`.
  void held(ServedJob& job, NodeId node, std::uint64_t steps);
  void forget(RankEnd& end);
  void forget(ServedJob& job);

 private:
  static bool has_room_for(RankEnd& end, std::size_t bytes);
  static void raise(ServedJob& job);
  static void ask_held(ServedJob& job);
  static void settle_pace(ServedJob& job);
  void write_steps(ServedJob& job);
  void write_step(ServedJob& job, TrainingStep& step);
  bool write_changes(RankEnd& end);
  // Tells all ranks that the batch which follows is to be given again, or none of them.
  void write_ideal(ServedJob& job, const TrainingStep& step);
  static std::vector<std::uint64_t> chosen_indices(ServedJob& job, const engine::Deliver& command);
  void encode_indices(std::vector<std::uint64_t>& indices);

  JobWaits& waits_;
  // Since the last flush():
  std::vector<RankEnd*> written_;       // to
  std::vector<ServedJob*> delivered_;   // whole steps
  std::vector<ServedJob*> raised_;      // their pace is to be raised
  std::vector<order::Slice> slices_;    // of a step
  std::vector<std::uint64_t> indices_;  // of its chosen samples
  std::vector<std::byte> index_bytes_;  // the same as they are written
  std::vector<std::byte> record_;       // being written
};

}  // namespace batchflow::service
