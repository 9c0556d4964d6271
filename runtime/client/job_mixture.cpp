#include "runtime/client/job_mixture.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace batchflow::client {
namespace {

double weight_of_part(std::uint64_t part) {
  return static_cast<double>(part) / order::Mixture::kWhole;
}

}  // namespace

void JobMixture::answered(const order::MixtureChange& change) {
  hear_of(change);
  // What was asked for before it, and is not among those known by then, was asked too often.
  const auto found =
      std::find_if(asked_.begin(), asked_.end(),
                   [&](const order::MixtureChange& one) { return one.parts == change.parts; });
  if (found != asked_.end()) asked_.erase(asked_.begin(), std::next(found));
}

// No more than are to come at one time, twice over: a program that never asks for them keeps these.
void JobMixture::hear_of(const order::MixtureChange& change) {
  heard_.push_back(change);
  const std::size_t most =
      std::min(order::Mixing::kChangesMost, order::Mixing::kChangedPartsMost / change.parts.size());
  if (heard_.size() > 2 * most) heard_.pop_front();
}

bool JobMixture::next_change(std::uint64_t& at, const double*& weights) {
  if (heard_.empty()) return false;
  at = heard_.front().at;
  shown_change_.clear();
  for (const std::uint64_t part : heard_.front().parts)
    shown_change_.push_back(weight_of_part(part));
  heard_.pop_front();
  weights = shown_change_.data();
  return true;
}

void JobMixture::keep_losses(std::span<const float> losses) {
  losses_.resize(losses.size(), NAN);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (std::isfinite(losses[i])) losses_[i] = losses[i];
  }
}

void JobMixture::show(const order::Mixing& mixing, bf_mixture& out) {
  const order::Mixing::Fields fields = mixing.fields();
  shown_ = {};
  for (std::size_t i = 0; i < fields.sources.size(); ++i) {
    shown_.first.push_back(fields.sources[i].first.value);
    shown_.samples.push_back(fields.sources[i].samples);
    shown_.taken.push_back(fields.states[i].taken);
    shown_.weights.push_back(weight_of_part(fields.states[i].part));
  }
  for (const order::MixtureChange& change : fields.changes) {
    shown_.changes_at.push_back(change.at);
    for (const std::uint64_t part : change.parts)
      shown_.changed_weights.push_back(weight_of_part(part));
  }
  out.drawn = mixing.drawn();
  out.sources = fields.sources.size();
  out.first = shown_.first.data();
  out.samples = shown_.samples.data();
  out.taken = shown_.taken.data();
  out.weights = shown_.weights.data();
  out.changes = fields.changes.size();
  out.changes_at = shown_.changes_at.data();
  out.changed_weights = shown_.changed_weights.data();
}

}  // namespace batchflow::client
