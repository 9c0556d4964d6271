// Finds the least value of a setting with which a scenario meets conditions, in as few runs as it
// can: between a value that fails and one that meets them, several values are tried at once.
//
// LeastSearch knows values alone, so it can be tested without runs; search_command.cpp makes the
// runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "programs/config/config.h"
#include "sim/figures.h"

namespace batchflow::sim {

// `stall_fraction<2%`, `jct_p95_s<=10min`, `samples_per_s>5000`.
struct Condition {
  enum class Sign : std::uint8_t { less, at_most, more, at_least };
  std::string text;
  const Figure* figure = nullptr;
  Sign sign = Sign::less;
  double limit = 0;

  bool is_met(double value) const;
  // How far a value is from the limit, as a part of it; 0 where it is met.
  double distance(double value) const;
};
// Throws ConfigError.
Condition parse_condition(const std::string& text);

// The values from `least` to `most`. Bytes are tried by their powers and with three digits, until
// the answer is known within 2 %; counts exactly.
struct SearchRange {
  std::uint64_t least = 1;
  std::uint64_t most = 1;
  bool is_bytes = false;  // else a count
};

// What is searched: paths of a scenario that all get the value.
struct SearchedSetting {
  std::string name;
  std::vector<std::string> paths;
  SearchRange range;

  std::string text(std::uint64_t value) const;  // for people
  // Puts the value into the tree of a scenario.
  void set(config::ConfigNode& tree, std::uint64_t value) const;
};
// `name`: cache, cores, gpus (of each node), nodes, or a path. `between`: `A,B`; empty: a range
// that the cluster suggests. Throws ConfigError.
SearchedSetting searched_setting(const std::string& name, const std::string& between,
                                 const config::ConfigNode& tree);

class LeastSearch {
 public:
  LeastSearch(SearchRange range, std::size_t at_once) : range_(range), at_once_(at_once) {}

  // The values to try next, rising, none of which was tried; none: the search is over.
  std::vector<std::uint64_t> next() const;
  void add(std::uint64_t value, bool meets) { tried_[value] = meets; }

  // The least value that meets the conditions, as do all greater values that were tried.
  std::optional<std::uint64_t> answer() const;
  // The greatest value tried below the answer.
  std::optional<std::uint64_t> below() const;
  // Values that met the conditions below one that did not.
  std::vector<std::uint64_t> out_of_line() const;

 private:
  std::vector<std::uint64_t> between(std::uint64_t low, std::uint64_t high,
                                     std::size_t count) const;

  SearchRange range_;
  std::size_t at_once_;
  std::map<std::uint64_t, bool> tried_;
};

}  // namespace batchflow::sim
