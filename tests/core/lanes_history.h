// One random history of a stream: jobs of all speeds join, leave, die and are restored; blocks are
// lost, preparations fail, the service restarts empty, sizes change. Two readers see only the ids a
// job was given and committed: each epoch must have each sample once, each visit fresh draws.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/order/keys.h"
#include "core/order/lanes.h"
#include "core/order/order.h"

namespace batchflow::test {

// Errors a restore could have: canaries that the readers must catch.
enum class RestoreBug { none, passes_forgotten, bitmap_forgotten, lanes_had_forgotten };

// What one job was given, judged by ids alone.
class EpochReader {
 public:
  EpochReader(std::uint64_t samples, bool strict, std::uint64_t epoch)
      : strict_(strict), epoch_(epoch), seen_(samples, false), draws_(samples) {}

  // Empty, or what is wrong. `sequence`: the strict order of the epoch.
  std::string read(const order::BlockName& name, const std::vector<SampleId>& ids,
                   const order::Permutation& sequence);
  // The job leaves out the rest of its epoch.
  void leave_out_tail();
  std::uint64_t epochs() const { return epochs_; }
  std::uint64_t strict_epoch() const { return epoch_; }
  std::uint64_t samples_in_epoch() const { return count_; }

 private:
  struct Draw {
    bool any = false;
    std::uint64_t generation = 0;
    std::uint32_t pass = 0;
  };
  bool strict_;
  std::uint64_t epoch_;
  std::uint64_t epochs_ = 0;
  std::uint64_t count_ = 0;
  std::vector<bool> seen_;
  std::vector<Draw> draws_;
};

class History {
 public:
  explicit History(std::uint64_t seed, RestoreBug bug = RestoreBug::none);
  // Runs to the end of all jobs. Empty, or what is wrong.
  std::string run();
  std::uint64_t job_epochs() const { return job_epochs_; }

 private:
  struct Grant {
    order::BlockName name;
    order::LaneSizes sizes;
  };
  struct Job {
    order::MemberId member = order::MemberId::none();
    bool strict = false;
    std::uint32_t speed = 1;
    std::uint32_t look_ahead = 1;
    std::uint64_t epochs_wanted = 1;
    std::uint64_t end = 0;  // a strict job says that its epochs follow to there
    order::LanePosition committed;
    std::vector<Grant> uncommitted;
    std::unique_ptr<EpochReader> reader;
  };
  struct Block {
    order::BlockRef ref;
    std::size_t requester;
    std::uint32_t reported = 0;  // to a policy: how many need it or may come to it
  };

  bool chance(double probability) { return random_.unit() < probability; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + random_.below(high - low + 1);
  }
  order::LaneSizes random_sizes();
  void join();
  void start(Job& job, std::size_t index);
  void damage(order::LanePosition& position) const;
  void stop(Job& job);
  void restart_service();
  void act(std::size_t job);
  void fill(std::size_t job);
  void take_one(std::size_t job);
  void commit(Job& job, std::size_t grants);
  void leave_out_tail(Job& job);
  void complete_one();
  void keep_window();
  void tell(Block& block);
  void tell_changed_needs();
  void lose(std::size_t resident);
  void forget_freed();
  std::size_t pick_job();
  const order::Permutation& sequence(std::uint64_t epoch);

  Random random_;
  RestoreBug bug_;
  std::uint64_t samples_;
  bool strict_jobs_;
  std::size_t window_;
  std::size_t jobs_to_come_;
  order::Lanes::Options options_;
  std::unique_ptr<order::Lanes> lanes_;
  std::vector<Job> jobs_;
  std::vector<Block> making_;
  std::vector<Block> resident_;
  std::vector<order::Lanes::Candidate> candidates_;
  std::map<std::uint64_t, order::Permutation> sequences_;
  order::Expander expander_;
  std::string error_;
  std::uint64_t job_epochs_ = 0;
};

}  // namespace batchflow::test
