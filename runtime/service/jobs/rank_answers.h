// What ranks write into their rings: wishes, acknowledgements, releases, scores and exemplars. It
// is checked against what they were given, and becomes events of the engine.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/service/backend/backend.h"
#include "runtime/service/datasets/feeds.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/job.h"
#include "runtime/service/jobs/job_waits.h"
#include "runtime/service/jobs/step_writer.h"

namespace batchflow::service {

class RankAnswers {
 public:
  RankAnswers(Inbox& inbox, JobWaits& waits, StepWriter& writer, Feeds& feeds)
      : inbox_(inbox), waits_(waits), writer_(writer), feeds_(feeds) {}
  void set_backend(Backend& backend) { backend_ = &backend; }

  // Reads the rank's ring, which is on this node. False: it has written nonsense.
  bool read(RankEnd& end);
  // One record. False: it is nonsense.
  bool take(RankEnd& end, std::span<const std::byte> record);
  // Gives back the slot of a gathered batch.
  void release(RankEnd& end, const HeldSlot& held);
  // Adds the buffer that rank 0 came with. It counts from the first epoch on, since the engine gets
  // it with the job.
  void add_exemplars(ServedJob& job);

 private:
  bool take_exemplars(const RankEnd& end);
  bool take_described(const RankEnd& end);
  bool take_change(const RankEnd& end);
  bool take_losses(const RankEnd& end);
  bool take_keys(RankEnd& end);

  Inbox& inbox_;
  JobWaits& waits_;
  StepWriter& writer_;
  Feeds& feeds_;
  Backend* backend_ = nullptr;
  protocol::JobMessage message_;  // being read
};

}  // namespace batchflow::service
