#include "runtime/service/control/node_memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "core/base/config_value.h"
#include "fmt/format.h"

namespace batchflow::service {
namespace {

// The memory of the service itself: stacks, pages of indices, sockets.
constexpr Bytes kOwn = Bytes{64} << 20;
constexpr Bytes kDataOfOwn = Bytes{16} << 20;
// The part of it that workers take for ordinary pictures.
constexpr Bytes kScratchOfOwn = Bytes{16} << 20;
// The part of the memory that is scratch of workers unless it is set. With 4 GiB, it allows a
// sample of the 67 million pixels that decode accepts.
constexpr Bytes kScratchPart = 8;
// The most that each worker may keep: it holds the buffers for pictures of some million pixels.
constexpr Bytes kScratchEachMost = Bytes{16} << 20;
// Two blocks of 32 MiB, and what rounding adds: with less, no job with pictures could be admitted.
constexpr Bytes kCacheLeast = Bytes{80} << 20;

Bytes memory_of_machine_left() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  Bytes kib = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return Bytes{1} << 30;
}

// The bounds of this process's control group and of those above it count: a container has less than
// its machine.
Bytes memory_left() {
  Bytes left = memory_of_machine_left();
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    if (!line.starts_with("0::/")) continue;
    for (std::filesystem::path group = line.substr(3);; group = group.parent_path()) {
      const std::filesystem::path folder = "/sys/fs/cgroup" + group.string();
      Bytes most = 0, used = 0;
      // The word `max` is no number: there is no bound.
      if (std::ifstream(folder / "memory.max") >> most &&
          std::ifstream(folder / "memory.current") >> used)
        left = std::min(left, most > used ? most - used : 0);
      if (group == "/") break;
    }
  }
  return left;
}

// The first part of it belongs to the service's own memory.
Bytes apart_for_data(const NodeConfig& config) {
  return config.data_bytes > kDataOfOwn ? config.data_bytes - kDataOfOwn : 0;
}

Bytes apart_for_scratch(const NodeConfig& config) {
  return config.scratch > kScratchOfOwn ? config.scratch - kScratchOfOwn : 0;
}

// With a small memory, at most half of what batches can do without.
Bytes usual_scratch(const NodeConfig& config) {
  const Bytes needed = config.storage.staging + kOwn + kCacheLeast;
  const Bytes left = config.memory > needed ? config.memory - needed : 0;
  return std::min(std::max(config.memory / kScratchPart, kScratchOfOwn), kScratchOfOwn + left / 2);
}

// Divides the memory, of which a running service holds so much. Throws ConfigError where its parts
// do not fit into it.
void divide_memory(NodeConfig& config, Bytes held) {
  // Staging holds the blocks that are being read: a fraction of a small budget.
  if (held == 0) config.storage.staging = std::min(config.storage.staging, config.memory / 4);
  if (config.scratch == 0) config.scratch = usual_scratch(config);
  const auto mib = [](Bytes bytes) { return bytes >> 20; };
  const Bytes scratch = apart_for_scratch(config);
  const Bytes fixed = kCacheLeast + kOwn + scratch;
  if (cache_bytes(config) < kCacheLeast)
    throw ConfigError(fmt::format(
        "memory: {} MiB are too little: {} MiB go to staging{} and {} MiB to the service itself, "
        "and at least {} MiB must be left for batches; give it {} MiB or more (--memory)",
        mib(config.memory), mib(config.storage.staging),
        scratch == 0 ? "" : fmt::format(", {} MiB to the workers' scratch", mib(scratch)),
        mib(kOwn), mib(kCacheLeast),
        held == 0 ? (mib(fixed) * 4 + 2) / 3 : mib(fixed + config.storage.staging)));
}

}  // namespace

Bytes cache_bytes(const NodeConfig& config) {
  const Bytes own = config.storage.staging + kOwn + config.steps_bytes + apart_for_data(config) +
                    apart_for_scratch(config);
  return config.memory > own ? config.memory - own : 0;
}

Bytes planned_bytes(const NodeConfig& config) {
  const Bytes cache = cache_bytes(config);
  return cache - cache / 16;
}

Bytes engine_bytes(const NodeConfig& config) {
  return config.shown_staging() + planned_bytes(config);
}

// A quarter is for what workers keep, and the rest for samples that need more.
memory::ScratchLimits scratch_limits(const NodeConfig& config) {
  const Bytes all = config.workers == 0 ? 1 : config.workers;
  memory::ScratchLimits limits;
  limits.each = std::min(kScratchEachMost, config.scratch / 4 / all);
  limits.shared = config.scratch - limits.each * all;
  return limits;
}

void settle(NodeConfig& config, Bytes held) {
  const Bytes left = memory_left() + held;
  if (config.memory == 0) config.memory = left / 2;
  if (config.workers == 0) config.workers = std::max(1u, std::thread::hardware_concurrency());
  divide_memory(config, held);
  if (config.memory > left)
    throw ConfigError(
        fmt::format("memory: {} MiB are asked for, and the machine has {} MiB left; "
                    "give it less (--memory), or end something else",
                    config.memory >> 20, left >> 20));
}

void check_memory(NodeConfig config) {
  // Without a size it is what the machine has left.
  if (config.memory > 0) divide_memory(config, 0);
}

void set_apart_for_steps(NodeConfig& config, Bytes bytes) {
  const Bytes left = cache_bytes(config);
  if (left < kCacheLeast + bytes)
    throw ConfigError(fmt::format(
        "its steps' processes may take {} MiB together (the memory of each, for each worker), and "
        "{} MiB of the service's memory are left for them; give it more (--memory), or the steps "
        "less",
        bytes >> 20, left < kCacheLeast ? 0 : (left - kCacheLeast) >> 20));
  config.steps_bytes += bytes;
}

void set_apart_for_data(NodeConfig& config, Bytes bytes) {
  NodeConfig after = config;
  after.data_bytes += bytes;
  // If nothing is taken from batches there is nothing to refuse.
  if (cache_bytes(after) < std::min(kCacheLeast, cache_bytes(config))) {
    const Bytes cache = cache_bytes(config);
    const Bytes own = kDataOfOwn - std::min(kDataOfOwn, config.data_bytes);
    throw ConfigError(fmt::format(
        "its tables take {} MiB, and {} MiB of the service's memory are left for datasets that "
        "jobs bring; give the service more (--memory)",
        (bytes + (Bytes{1} << 20) - 1) >> 20,
        (own + (cache < kCacheLeast ? 0 : cache - kCacheLeast)) >> 20));
  }
  config.data_bytes = after.data_bytes;
}

}  // namespace batchflow::service
