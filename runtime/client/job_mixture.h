// The mixture of a job, as its program asks for other weights of it and is told of them.
//
// What was asked for, and what was reported of losses, is kept until the service has answered: the
// next service is told again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "core/order/mixing.h"
#include "runtime/client/batchflow.h"

namespace batchflow::client {

class JobMixture {
 public:
  // Other weights that the program asks for. They count from a draw on that the service says.
  void ask(order::MixtureChange change) { asked_.push_back(std::move(change)); }
  void take_back() { asked_.pop_back(); }
  // Those without an answer, in the order in which they were asked for.
  const std::deque<order::MixtureChange>& asked() const { return asked_; }
  // The service says that these weights come.
  void answered(const order::MixtureChange& change);
  // Weights come, as another service has said.
  void hear_of(const order::MixtureChange& change);
  // The next change that the program has not been told of; false: it has been told of all.
  // `weights` stay until the next call.
  bool next_change(std::uint64_t& at, const double*& weights);

  // The last loss of each source that was reported; one that is not a number changes nothing.
  void keep_losses(std::span<const float> losses);
  const std::vector<float>& losses() const { return losses_; }

  // Fills `out` with arrays that stay until the next call.
  void show(const order::Mixing& mixing, bf_mixture& out);

 private:
  std::deque<order::MixtureChange> asked_;
  std::deque<order::MixtureChange> heard_;
  std::vector<double> shown_change_;
  std::vector<float> losses_;
  struct Shown {
    std::vector<std::uint64_t> first, samples, taken, changes_at;
    std::vector<double> weights, changed_weights;
  } shown_;
};

}  // namespace batchflow::client
