// `batchflow-sim cache`: replays an access trace through several eviction policies at several cache
// sizes, and gives the figures as a table, JSON or CSV.
#pragma once

#include <string>
#include <vector>

#include "sim/numbers.h"
#include "sim/replay.h"

namespace batchflow::sim {

// From far too small to comfortable.
inline constexpr const char* kUsualSizes = "1%,10%,25%,50%,75%";

struct CacheSize {
  std::string text;  // as the user wrote it
  Bytes bytes;
};

struct CacheStudy {
  traces::AccessTrace trace;
  std::vector<engine::PolicyChoice> policies;
  std::vector<CacheSize> sizes;
  std::uint64_t seed = 1;
  std::uint32_t nodes = 1;            // each has an equal part of a size
  std::vector<ReplayCounts> results;  // policies x sizes; all sizes of a policy stand together

  const ReplayCounts& result(std::size_t policy, std::size_t size) const {
    return results[policy * sizes.size() + size];
  }
};

// `texts` as given, each a list by comma: `[eviction=]name[:parameter=value...]`, or sizes. What is
// named twice is done once. Throws ConfigError.
std::vector<engine::PolicyChoice> parse_policies(const engine::PolicyList& list,
                                                 const std::vector<std::string>& texts);
std::vector<AskedSize> parse_sizes(const std::vector<std::string>& texts);
// In bytes. Throws ConfigError when a size is less than a byte.
std::vector<CacheSize> sizes_in_bytes(const std::vector<AskedSize>& asked, Bytes working_set);
// kUsualSizes, without the sizes that are less than a byte of a small working set.
std::vector<CacheSize> usual_sizes(Bytes working_set);

// Fills the results. They are the same for any number of threads.
void run_cache_study(CacheStudy& study, unsigned threads, Replayer replayer);

// The exit code: 1 when a policy proposed what the rules do not allow.
int cache_exit_code(const CacheStudy& study);

std::string cache_table(const CacheStudy& study);
std::string cache_json(const CacheStudy& study);
std::string cache_csv(const CacheStudy& study);

}  // namespace batchflow::sim
