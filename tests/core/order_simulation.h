// A model of one stream in which a preparation takes no time: jobs take a block each at their own
// pace, the window drops blocks first in, first out. What is left is the order rules, so that what
// sharing costs and how random an order is can be measured apart from everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "core/base/check.h"
#include "core/order/lanes.h"

namespace batchflow::test {

class OrderSimulation {
 public:
  static constexpr std::uint64_t kTicksPerBlock = 1'000'000;  // of a job of speed 1

  struct Options {
    order::Lanes::Options lanes;
    std::size_t window_blocks = SIZE_MAX;
    std::uint32_t look_ahead = 0;  // blocks kept here ahead of each job
    std::uint32_t not_counted_against_hunger = 0;
  };
  struct Taken {
    std::uint64_t tick;
    std::size_t job;
    order::BlockName name;
    bool epoch_ended;
  };
  // The index of the candidate to take.
  using Chooser =
      std::function<std::size_t(const order::Lanes&, const std::vector<order::Lanes::Candidate>&)>;

  explicit OrderSimulation(const Options& options) : options_(options), lanes_(options.lanes) {}

  // The job's number: they count from 0.
  std::size_t join(std::uint64_t at_tick, double speed) {
    const double ticks = static_cast<double>(kTicksPerBlock) / speed;
    jobs_.push_back({order::MemberId::none(), static_cast<std::uint64_t>(ticks)});
    turns_.push({at_tick, jobs_.size() - 1});
    return jobs_.size() - 1;
  }

  // A job in the middle of an epoch of generation `generation`, which it never goes on with.
  void join_idle(std::uint64_t generation) {
    order::LanePosition position;
    position.record({generation, 0, 0, 0}, options_.lanes.sizes);
    lanes_.add_relaxed(UINT32_MAX, position);
  }

  // The job that has its turn takes a block.
  Taken step() {
    const Turn turn = turns_.top();
    turns_.pop();
    Job& job = jobs_[turn.job];
    if (job.member.is_none()) {
      job.member = lanes_.add_relaxed(static_cast<std::uint32_t>(turn.job));
      lanes_.set_look_ahead(job.member, options_.not_counted_against_hunger);
    }
    fill(job.member);
    lanes_.candidates(job.member, candidates_);
    BF_CHECK(!candidates_.empty());
    check_list_to_first_ready(job.member);
    const std::size_t choice = chooser ? chooser(lanes_, candidates_) : 0;
    const order::BlockRef block = candidates_.at(choice).block;
    const Taken taken{turn.tick, turn.job, lanes_.name(block), lanes_.take(job.member, block)};
    turns_.push({turn.tick + job.period_ticks, turn.job});
    return taken;
  }

  // Checks that the list up to the first block that is ready is the beginning of the whole list.
  void check_list_to_first_ready(order::MemberId member) {
    lanes_.candidates(member, shown_, true);
    BF_CHECK(shown_.size() <= candidates_.size());
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      BF_CHECK(shown_[i].block == candidates_[i].block);
      BF_CHECK(shown_[i].ready == (i + 1 == shown_.size() && candidates_[i].ready));
    }
    BF_CHECK(shown_.size() == candidates_.size() || shown_.back().ready);
  }

  std::uint64_t prepared() const { return prepared_; }
  const order::Lanes& lanes() const { return lanes_; }

  Chooser chooser;  // empty: the first

 private:
  struct Job {
    order::MemberId member;
    std::uint64_t period_ticks;
  };
  struct Turn {
    std::uint64_t tick;
    std::size_t job;
    bool operator<(const Turn& other) const {  // the first turn is on top
      return tick != other.tick ? tick > other.tick : job > other.job;
    }
  };

  void fill(order::MemberId member) {
    if (!lanes_.in_epoch(member)) lanes_.begin_next_epoch(member);
    while (lanes_.supply(member) < std::max(options_.look_ahead, 1u)) {
      const order::Lanes::Need need = lanes_.next_need(member);
      if (need.kind == order::Lanes::Need::Kind::make) prepare(need.block);
      if (need.kind != order::Lanes::Need::Kind::nothing) continue;
      if (!lanes_.may_begin_next_epoch(member)) return;
      lanes_.begin_next_epoch(member);
    }
  }

  void prepare(order::BlockRef block) {
    lanes_.making(block);
    lanes_.made(block);
    ++prepared_;
    window_.push_back(block);
    if (window_.size() <= options_.window_blocks) return;
    lanes_.dropped(window_.front());
    window_.pop_front();
  }

  Options options_;
  order::Lanes lanes_;
  std::vector<Job> jobs_;
  std::priority_queue<Turn> turns_;
  std::deque<order::BlockRef> window_;
  std::vector<order::Lanes::Candidate> candidates_;
  std::vector<order::Lanes::Candidate> shown_;
  std::uint64_t prepared_ = 0;
};

}  // namespace batchflow::test
