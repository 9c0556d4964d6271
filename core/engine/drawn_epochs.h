// The epochs of drawn orders: which samples they have is known as the job goes on.
//
// A weighted epoch is drawn when it begins, from the scores that have come by then. A mixture is
// drawn as far as blocks need it. The steps of a live job have what has come of its source, and
// those of a keyed job what its program asks for: both are decided one after the other. What is
// drawn or decided stays until it is committed (core/order/drawn_epoch.h).
#pragma once

#include <span>
#include <vector>

#include "core/engine/state.h"

namespace batchflow::engine {

class DrawnEpochs {
 public:
  explicit DrawnEpochs(EngineState& state) : s_(state) {}

  // ---- weighted
  // A rank has asked for a batch. The first draws wait until all ranks have: by then they have
  // reported the scores that they know. True: the job may begin.
  [[nodiscard]] bool draw_first(Job& job);

  // ---- mixed
  // The draws from where the job is. It may begin when it is settled.
  void begin_mixture(Job& job);
  bool is_settled(const Job& job) const;
  // Works on mixtures that are not settled, for `most` samples of their sources. Answers the jobs
  // of those that are settled now.
  std::vector<JobIndex> settle(std::uint64_t most);

  // ---- live and keyed
  // Begins the job's epoch where the job is committed. Answers how the epoch is cut into blocks. A
  // live job's epoch goes on when it has had these (Grants::open_next_run).
  order::LaneSizes begin(Job& job);
  // The program of a keyed job asks for these samples. False: it may not ask for these now.
  [[nodiscard]] bool ask(Job& job, std::span<const SampleId> samples);
  // Whether it is known what the step has. REQUIRES: the step is not before the job's last run
  bool decide(Job& job, std::uint64_t step);
  // The source of a live job has ended, and all that it had is decided.
  static bool is_at_end(const Job& job) { return job.live && job.live->has_ended(); }

  // ---- all
  // Whether the block has samples that are known by now.
  bool is_decided(const Job& job, order::BlockRef block) const;
  // Begins the next epoch, which has this number. False: it is yet to be drawn.
  // REQUIRES: all steps of the epoch before are committed
  [[nodiscard]] bool begin_next(Job& job, std::uint32_t epoch);
  // The job goes on where it is committed. That may be the start of an epoch that it had not begun
  // before.
  void go_on(Job& job);
  // The first `steps` steps of the run are committed.
  void forget(Job& job, const EpochRun& run, std::uint64_t steps);
  // The job is not served any more.
  void leave(const Job& job) { std::erase(unsettled_, job.index); }

 private:
  bool freeze(Job& job);
  void draw(Job& job, std::uint32_t epoch);
  void begin_mixed_epoch(Job& job, std::uint32_t epoch);
  bool decide_next(Job& job);

  EngineState& s_;
  std::vector<JobIndex> unsettled_;  // of mixtures that cannot be drawn from yet
};

}  // namespace batchflow::engine
