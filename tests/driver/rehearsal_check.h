// The promise of a buffer of n exemplars: draws 0 to n-1 of an epoch have each exemplar once, so do
// n to 2n-1, and so on, at whatever size the job goes on; and an epoch keeps the buffer it began
// with. When exactly an epoch began cannot be seen: any buffer that it may have begun with will do,
// but none older than that of the epoch before.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/types.h"

namespace batchflow::test {

class RehearsalCheck {
 public:
  using Buffer = std::vector<SampleId>;

  // The job joins a service, which knows nothing of its buffer.
  void joined() { told_.emplace_back(); }
  // From here on the job's buffer is this.
  void reported(const Buffer& buffer) { told_.push_back(buffer); }
  // The job goes on from its last step that counts.
  void began();
  // A rank is handed a batch of the epoch.
  void handed(std::uint32_t epoch);

  // A step that counts has `draws` of generation `generation`; with none, nothing is rehearsed.
  struct Drawn {
    SampleId sample;
    std::uint64_t occurrence;
  };
  void count(std::uint32_t epoch, std::uint64_t generation, const std::vector<Drawn>& draws);
  void end_epoch();

 private:
  // Draws of one buffer, in the order of steps and ranks.
  struct Part {
    std::uint64_t generation = 0;  // 0: nothing is rehearsed
    std::uint64_t first = 0;       // of the epoch's draws
    std::vector<SampleId> samples;
    std::vector<std::size_t> candidates;  // of told_: what they may be drawn from
  };
  static bool can_be_of(const Part& part, const Buffer& buffer);
  void end_part();

  std::vector<Buffer> told_ = {{}};
  std::size_t since_ = 0;  // of told_: the first that an epoch may have begun with
  std::map<std::uint32_t, std::size_t> last_;  // and the last, for each that was handed out
  std::uint64_t draws_ = 0;                    // of this epoch
  Part part_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> visits_;  // of this epoch: sample, occurrence
  bool first_step_ = true;                                    // since the job began, of an epoch
};

}  // namespace batchflow::test
