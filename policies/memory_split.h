// How memory is best split between forms of datasets, where workers and the store limit the jobs.
//
// Each sample that is found in a cache saves time of a worker, bytes of the store, or both. Jobs
// are served at the pace of what is used most, so the best split is the one in which the greater of
// two loads is least: of the workers, and of the store. That is a linear programme with one row for
// memory. For given prices of the two loads its solution is the greedy one: what saves most per
// byte comes first. The price is found by bisection, and the two solutions next to it are mixed so
// that the loads are equal. Where workers have time to spare, what the store brings is least:
// others read from it, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchflow::policies {

class MemorySplit {
 public:
  // One form of a dataset that could be kept. `saves_*`: a second, if all of it were.
  struct Kept {
    std::size_t dataset;  // dense
    bool encoded;         // one at most of each dataset
    double bytes;         // of all of it
    double saves_workers;
    double saves_store;
    // Of its dataset: where the part p is kept, p to this power of look-ups find their sample.
    double exponent = 1;
  };
  // What there is to do in a second if nothing is kept, and what can be done.
  struct Loads {
    double workers = 0;
    double workers_most = 0;
    double store = 0;
    double store_most = 0;
  };
  // How much of each is kept, from 0 to 1. A vector's memory is that of `new`, which waits where a
  // service has none. Arrays of Eigen have other memory, and would end the service.
  using Parts = std::vector<double>;

  // REQUIRES: loads.workers_most > 0, loads.store_most > 0
  const Parts& solve(const std::vector<Kept>& kept, const Loads& loads, double memory);
  // The greater of the two loads with this split, as a part of what can be done.
  double load(const Parts& parts) const { return std::max(worker_load(parts), store_load(parts)); }
  double worker_load(const Parts& parts) const;
  double store_load(const Parts& parts) const;

 private:
  struct Step {  // a part of memory to fill: one form, perhaps in place of another of its dataset
    std::size_t form;
    std::size_t replaces;  // kNothing: none
    double part;           // of the form
    double bytes;
    double gain;
  };
  // Of a dataset, in all forms: the part that is kept, and what that saves the store if it is found
  // in as many look-ups.
  struct Found {
    double kept = 0;
    double saves = 0;
    double exponent = 1;
  };
  static constexpr std::size_t kNothing = SIZE_MAX;

  void fill(double price, double memory, Parts& parts);

  const std::vector<Kept>* kept_ = nullptr;
  Loads loads_;
  std::vector<double> workers_;  // saved by each form, as parts of what can be done
  std::vector<double> store_;
  std::vector<double> gains_;  // of each form, at a price
  Parts low_;
  Parts high_;
  Parts scratch_;
  std::vector<std::size_t> encoded_of_;
  std::vector<std::size_t> best_of_;
  std::vector<Step> steps_;
  std::vector<std::vector<double>> parts_of_steps_;  // of each form
  mutable std::vector<Found> found_;
};

}  // namespace batchflow::policies
