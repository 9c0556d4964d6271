// What a live job is promised, by the rule written again (docs/order.md, "Live"): the steps that
// count have the records in the order of their arrival, each once, spread evenly over the ranks.
// Where too few had come, the rule draws the rest from the last records of the steps before. A step
// that may be short draws from its own records if there are none before it. A job that rehearses
// draws a part of each step, however many had come. It may draw from a reservoir of all records
// that counted.
#pragma once

#include <cstdint>
#include <vector>

#include "core/order/keys.h"
#include "tests/driver/scenario.h"

namespace batchflow::test {

class LiveCheck {
 public:
  LiveCheck(order::KeyRoot root, std::uint64_t window, bool cut, std::uint32_t rehearsed,
            std::uint32_t reservoir)
      : root_(root),
        window_(window),
        cut_(cut),
        rehearsed_(rehearsed),
        reservoir_most_(reservoir) {}

  // The source has records [first, end), and if it has ended no others.
  void grew(std::uint64_t first, std::uint64_t end, bool ended);

  struct Given {
    SampleId sample;
    std::uint64_t occurrence = 0;
    bool filled = false;
  };
  // A step that counts, without what a tail repeats. Throws Violation if the rule has another.
  // `batch_samples`: of a rank, unless the step is the last and short. Answers how many records.
  std::uint64_t count(const std::vector<std::vector<Given>>& ranks, std::uint32_t batch_samples,
                      bool last);

  // No step can come that counts.
  bool is_over(bool drop_last, std::uint64_t ranks, std::uint32_t batch_samples) const;
  std::uint64_t counted() const { return next_; }
  std::uint64_t fills() const { return fills_; }

 private:
  // How many records the next step may have.
  std::uint64_t records_most(std::uint64_t ranks, std::uint32_t batch_samples) const;
  void had(std::uint64_t record);
  bool can_be_fill(const Given& given, std::uint64_t number, std::uint64_t records) const;

  order::KeyRoot root_;
  std::uint64_t window_;
  bool cut_;
  std::uint32_t rehearsed_;
  std::uint32_t reservoir_most_;
  std::vector<std::uint64_t> reservoir_;  // of the records before next_
  std::vector<std::uint64_t> firsts_{0};  // that the source had, at one time or another
  std::uint64_t end_ = 0;
  bool ended_ = false;
  std::uint64_t next_ = 0;
  std::uint64_t fills_ = 0;
};

}  // namespace batchflow::test
