#include "policies/memory_split.h"

#include <Eigen/Core>
#include <algorithm>

#include "policies/hit_curve.h"

namespace batchflow::policies {

namespace {

// A load that does not limit anything still counts for a little: what it uses is not for others.
constexpr double kLeastPrice = 0.02;
constexpr int kBisections = 24;
// Workers that are loaded less than this hold up no job.
constexpr double kHeadroom = 0.95;

// A dataset comes to be kept in so many steps, and each step finds as much more of it. One step is
// enough where as much is found as is kept.
constexpr int kSteps = 16;

Eigen::Map<Eigen::ArrayXd> array(std::vector<double>& of) {
  return {of.data(), static_cast<Eigen::Index>(of.size())};
}

std::vector<double> parts_of_steps(double exponent) {
  const int count = exponent < 1 ? kSteps : 1;
  std::vector<double> parts;
  double before = 0;
  for (int i = 1; i <= count; ++i) {
    const double kept = HitCurve::power(static_cast<double>(i) / count, 1 / exponent);
    parts.push_back(kept - before);
    before = kept;
  }
  return parts;
}

}  // namespace

// Sums are in the order of the forms: by vector instructions they would depend on how wide those
// are, and decisions must be the same on every machine.
double MemorySplit::worker_load(const Parts& parts) const {
  double saved = 0;
  for (std::size_t i = 0; i < kept_->size(); ++i) {
    saved += HitCurve::power(parts[i], (*kept_)[i].exponent) * workers_[i];
  }
  return loads_.workers / loads_.workers_most - saved;
}

double MemorySplit::store_load(const Parts& parts) const {
  found_.assign(encoded_of_.size(), {});
  for (std::size_t i = 0; i < kept_->size(); ++i) {
    Found& found = found_[(*kept_)[i].dataset];
    found.kept += parts[i];
    found.saves += parts[i] * store_[i];
    found.exponent = (*kept_)[i].exponent;
  }
  double saved = 0;
  for (const Found& one : found_) {
    const bool as_kept = one.exponent == 1 || one.kept <= 0;
    saved += as_kept ? one.saves : one.saves * HitCurve::power(one.kept, one.exponent) / one.kept;
  }
  return loads_.store / loads_.store_most - saved;
}

// What is kept decoded saves workers and the store; what is kept as stored saves the store alone.
// So a dataset is kept as stored first where the store's load has the higher price, and its samples
// are then replaced by decoded ones as far as that is worth the bytes.
void MemorySplit::fill(double price, double memory, Parts& parts) {
  const std::vector<Kept>& kept = *kept_;
  gains_.resize(kept.size());
  array(gains_) = price * array(workers_) + (1 - price) * array(store_);
  const auto gain = [&](std::size_t form) { return gains_[form]; };
  std::fill(encoded_of_.begin(), encoded_of_.end(), kNothing);
  std::fill(best_of_.begin(), best_of_.end(), kNothing);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    std::size_t& best = kept[i].encoded ? encoded_of_[kept[i].dataset] : best_of_[kept[i].dataset];
    if (best == kNothing || gain(i) * kept[best].bytes > gain(best) * kept[i].bytes) best = i;
  }
  steps_.clear();
  const auto add = [&](std::size_t form, std::size_t replaces, double bytes, double worth) {
    if (worth <= 0 || bytes <= 0) return;
    const auto count = static_cast<double>(parts_of_steps_[form].size());
    for (const double part : parts_of_steps_[form]) {
      steps_.push_back({form, replaces, part, part * bytes, worth / count});
    }
  };
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t encoded = encoded_of_[kept[i].dataset];
    if (i == encoded) {
      const std::size_t decoded = best_of_[kept[i].dataset];
      // Worth less a byte than the decoded form, it has no place beside it.
      if (decoded != kNothing && gain(i) * kept[decoded].bytes <= gain(decoded) * kept[i].bytes) {
        continue;
      }
      add(i, kNothing, kept[i].bytes, gain(i));
    } else if (i == best_of_[kept[i].dataset] && encoded != kNothing &&
               gain(encoded) * kept[i].bytes > gain(i) * kept[encoded].bytes) {
      add(i, encoded, kept[i].bytes - kept[encoded].bytes, gain(i) - gain(encoded));
    } else if (i == best_of_[kept[i].dataset]) {
      add(i, kNothing, kept[i].bytes, gain(i));
    } else {
      // Of another pipeline: the store is saved by the first.
      add(i, kNothing, kept[i].bytes, price * workers_[i]);
    }
  }
  std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
    return a.gain * b.bytes > b.gain * a.bytes;
  });
  parts.assign(kept.size(), 0);
  for (const Step& step : steps_) {
    if (memory <= 0) break;
    double part = step.part * std::min(1.0, memory / step.bytes);
    // What is to be replaced may itself be there in part only.
    if (step.replaces != kNothing) part = std::min(part, parts[step.replaces]);
    memory -= part / step.part * step.bytes;
    parts[step.form] += part;
    if (step.replaces != kNothing) parts[step.replaces] -= part;
  }
}

const MemorySplit::Parts& MemorySplit::solve(const std::vector<Kept>& kept, const Loads& loads,
                                             double memory) {
  kept_ = &kept;
  loads_ = loads;
  workers_.resize(kept.size());
  store_.resize(kept.size());
  std::size_t datasets = 0;
  parts_of_steps_.clear();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    workers_[i] = kept[i].saves_workers / loads.workers_most;
    store_[i] = kept[i].saves_store / loads.store_most;
    datasets = std::max(datasets, kept[i].dataset + 1);
    parts_of_steps_.push_back(parts_of_steps(kept[i].exponent));
  }
  encoded_of_.resize(datasets);
  best_of_.resize(datasets);
  double low = kLeastPrice;
  double high = 1 - kLeastPrice;
  fill(low, memory, low_);
  if (worker_load(low_) <= std::max(kHeadroom, store_load(low_))) return low_;
  fill(high, memory, high_);
  if (worker_load(high_) >= store_load(high_)) return high_;
  for (int i = 0; i < kBisections; ++i) {
    const double price = (low + high) / 2;
    Parts& middle = scratch_;
    fill(price, memory, middle);
    if (worker_load(middle) >= store_load(middle)) {
      low = price;
      low_ = middle;
    } else {
      high = price;
      high_ = middle;
    }
  }
  // `low_` is short of workers and `high_` of the store: between them both are equal.
  const double short_low = worker_load(low_) - store_load(low_);
  const double short_high = store_load(high_) - worker_load(high_);
  const double part = short_low + short_high > 0 ? short_high / (short_low + short_high) : 1;
  array(low_) = part * array(low_) + (1 - part) * array(high_);
  return low_;
}

}  // namespace batchflow::policies
