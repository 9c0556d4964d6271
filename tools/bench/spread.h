// The middle, least and most of several rounds.
#pragma once

#include <algorithm>
#include <vector>

namespace batchflow::bench {

struct Spread {
  double least, middle, most;
};
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

}  // namespace batchflow::bench
