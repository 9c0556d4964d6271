// Which block is made next: collects what jobs need, asks the dispatch policy, starts its choice.
//
// A job needs a block when fewer blocks than its look-ahead depth are ready or being made for it,
// or when its ranks wait and no such block is there. The scaling policy says how deep. The dispatch
// policy chooses among the jobs' needs. Where a block is made, and whether memory allows it, are
// rules of the engine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/charges.h"
#include "core/engine/grants.h"
#include "core/engine/item_shares.h"
#include "core/engine/leads.h"
#include "core/engine/preparation.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Dispatching {
 public:
  Dispatching(EngineState& state, const ItemShares& item_shares, const DrawnEpochs& drawn_epochs,
              Grants& grants, const Charges& charges, Preparation& preparation,
              std::unique_ptr<DispatchPolicy> dispatch, std::unique_ptr<ScalingPolicy> scaling)
      : s_(state),
        drawn_epochs_(drawn_epochs),
        grants_(grants),
        charges_(charges),
        preparation_(preparation),
        item_shares_(item_shares),
        dispatch_(std::move(dispatch)),
        scaling_(std::move(scaling)) {}

  // Looks at a job again: what it needs next, if anything.
  void review(Job& job);
  void forget(Job& job);
  // Starts what the policy chooses, as long as something can be started. True: something was
  // started.
  bool start_some();
  // Counts a job that has come, or come back, as level with the others of its stream.
  void level(Job& job) { leads_.level(job); }
  // Tells nodes how many workers they should have, where the answer has changed.
  void scale();

  const DispatchPolicy& dispatch_policy() const { return *dispatch_; }
  const ScalingPolicy& scaling_policy() const { return *scaling_; }
  void change_dispatch(std::unique_ptr<DispatchPolicy> policy) { dispatch_ = std::move(policy); }
  void change_scaling(std::unique_ptr<ScalingPolicy> policy) {
    scaling_ = std::move(policy);
    scale_all_ = true;
  }
  // BF_CHECKs that every need that could be started is weighed.
  void check_consistency();
  struct Refusals {
    std::uint64_t dispatch = 0;
    std::uint64_t scaling = 0;
  };
  Refusals refused() const { return refused_; }
  // What the dispatch policy was shown when its last proposal was refused.
  std::span<const WorkCandidate> shown_when_refused() const { return shown_when_refused_; }
  std::size_t needs() const { return needs_.size(); }
  // Since when a rank has waited for a block that could be started, and the policy starts nothing.
  Instant held_since() const { return held_since_; }
  // What the policy was shown last.
  DispatchView weighed() const { return {s_.now, views_}; }

 private:
  struct JobNeed {
    JobIndex job;
    Preparation::Need what;
    WorkCandidate view;
    bool open = false;  // among those to be weighed
  };

  void measure_stalls(Node& node);
  void measure_load(Node& node);
  void scale(Node& node);
  Slots window(Stream& stream);
  std::uint32_t depth(const Job& job);
  std::uint32_t blocks_to_its_end(const Job& job) const;
  std::optional<Preparation::Need> next_need(Job& job);
  Grant* lost_grant(Job& job);
  void adopt(Grant& grant, BlockIndex block);
  WorkCandidate view_of(Job& job, const Preparation::Need& need);
  std::size_t choose();
  void wake_policy();
  bool met(const JobNeed& need);
  void put(Job& job, const Preparation::Need& need);
  void open(const Job& job);
  std::optional<Charges::Site> site(const Job& job);
  Charges::Site choose_site(const Job& job, const WorkCandidate& work, Charges::Site usual);
  void view_nodes(const Job& job, const WorkCandidate& work);
  void open_where_room_is();

  EngineState& s_;
  const DrawnEpochs& drawn_epochs_;
  Grants& grants_;
  const Charges& charges_;
  Preparation& preparation_;
  const ItemShares& item_shares_;
  std::unique_ptr<DispatchPolicy> dispatch_;
  std::unique_ptr<ScalingPolicy> scaling_;
  Leads leads_{s_};
  std::vector<JobNeed> needs_;  // at most one a job, in no particular order
  // Jobs with needs that may be startable. The needs of all others are known not to be.
  std::vector<JobIndex> open_;
  bool held_back_ = false;       // the policy started nothing though something could be started
  Instant held_since_ = kNever;  // and a rank waits: since then
  bool had_jobs_ = false;
  bool scale_all_ = true;  // whatever has changed since the scaling policy was last asked
  Instant wake_at_{};      // when the policy is asked again, if that is to come
  std::uint64_t asked_ = 0;
  Refusals refused_;
  std::vector<WorkCandidate> shown_when_refused_;
  std::vector<WorkCandidate> views_;  // of those that can be started now
  std::vector<JobIndex> startable_;   // the jobs of `views_`
  std::vector<Charges::Site> sites_;
  std::vector<Charges::Site> possible_;    // scratch
  std::vector<NodeCandidate> node_views_;  // of them
  std::map<StreamId, double> wanted_;      // scratch
  struct OpenParts : Charges::OpenParts {
    std::uint64_t as_of = 0;
  };
  std::vector<OpenParts> open_parts_;  // by stream
  std::uint64_t looks_ = 0;            // for needs that can be started
};

}  // namespace batchflow::engine
