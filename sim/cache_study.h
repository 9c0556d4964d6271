// `batchflow-sim cache`: an access trace through several eviction policies at several cache sizes,
// and what came of it as a table, JSON or CSV.
#pragma once

#include <string>
#include <vector>

#include "sim/replay.h"

namespace batchflow::sim {

struct CacheSize {
  std::string text;  // as it was asked for
  Bytes bytes;
};

struct CacheStudy {
  AccessTrace trace;
  std::vector<PolicyChoice> policies;
  std::vector<CacheSize> sizes;
  std::uint64_t seed = 1;
  std::vector<ReplayCounts> results;  // policies x sizes, the sizes of one policy together

  const ReplayCounts& result(std::size_t policy, std::size_t size) const {
    return results[policy * sizes.size() + size];
  }
};

// `texts` as given, each a list by comma: `[eviction=]name[:parameter=value...]`, or sizes. What is
// named twice is done once. Throws ConfigError.
std::vector<PolicyChoice> parse_policies(const PolicyList& list,
                                         const std::vector<std::string>& texts);
std::vector<CacheSize> parse_sizes(const std::vector<std::string>& texts, Bytes working_set);

// Fills the results, whatever the number of threads, with the same figures.
void run_cache_study(CacheStudy& study, unsigned threads, Replayer replayer);

std::string cache_table(const CacheStudy& study);
std::string cache_json(const CacheStudy& study);
std::string cache_csv(const CacheStudy& study);

}  // namespace batchflow::sim
