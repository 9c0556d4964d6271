// What a mixture is promised, by the rule written again (docs/order.md, "Mixtures"): from which
// source each sample comes, which of its samples it is, and by which pass its random steps are
// drawn.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/order/keys.h"
#include "core/order/mixture.h"
#include "core/order/permutation.h"

namespace batchflow::test {

class MixtureCheck {
 public:
  MixtureCheck(order::KeyRoot root, std::vector<SampleRange> sources,
               std::vector<std::uint64_t> parts);

  // The service says that these parts hold from draw `at` on. Throws Violation where the job has
  // been handed that draw.
  void changed(std::uint64_t at, std::vector<std::uint64_t> parts);
  // The next sample of a step that counts. Throws Violation if the rule has another.
  void count(SampleId sample, std::uint64_t pass);
  // The samples of the source that this one is of.
  SampleRange source_of(SampleId sample) const;

  std::uint64_t counted() const { return now_; }
  std::size_t sources() const { return sources_.size(); }
  std::uint64_t changes() const { return changes_made_; }

 private:
  struct Source {
    SampleRange samples;
    std::uint64_t part = 0;
    std::uint64_t had = 0;
    __int128 due = 0;  // in units of 2^-32, less what it had
    std::uint64_t pass = UINT64_MAX;
    order::Permutation order = order::Permutation::identity(0);
  };
  std::size_t next() const;
  void change(const std::vector<std::uint64_t>& parts);

  order::KeyRoot root_;
  std::vector<Source> sources_;
  std::multimap<std::uint64_t, std::vector<std::uint64_t>> changes_;
  std::uint64_t now_ = 0;
  std::uint64_t changes_made_ = 0;
};

}  // namespace batchflow::test
