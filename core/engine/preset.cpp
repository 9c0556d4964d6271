// The presets: BatchFlow's own, what jobs do without it, and published systems, each as far as its
// policies go. How each policy departs from its original is in its own help.
#include <fmt/format.h>

#include <vector>

#include "core/engine/engine_config.h"

namespace batchflow::engine {
namespace {

// Stored samples, and beside them the blocks that a loader prepares ahead.
constexpr std::string_view kStoredSamples = "encoded-first:forms=encoded+prepared";
// A page cache, which no policy plans: any item may leave.
constexpr std::array<std::string_view, kForms> kAnyLeaves{"random", "random", "refcount"};
constexpr std::array<std::string_view, kForms> kNoneLeaves{"minio", "minio", "refcount"};

constexpr Preset kPresets[] = {
    {.name = "default",
     .help = "One service prepares for all jobs; memory by what it saves.",
     .allocation = "batchflow",
     .eviction = {"batchflow", "batchflow", "refcount"},
     .selection = "ready-first",
     .dispatch = "batchflow",
     .scaling = "look-ahead",
     .helper_nodes = 8,
     .late_after_p99 = 2},
    {.name = "fixed",
     .help = "One service, and memory by a rule: stored samples first.",
     .allocation = "encoded-first",
     .eviction = kNoneLeaves,
     .selection = "ready-first",
     .dispatch = "earliest-deadline",
     .scaling = "look-ahead",
     .helper_nodes = 8,
     .late_after_p99 = 2},
    {.name = "independent",
     .help = "No BatchFlow: each job prepares alone, over a page cache.",
     .allocation = "proportional:forms=encoded",
     .eviction = kAnyLeaves,
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false,
     .share_nodes = false,
     .workers_per_rank = 4,
     .workers_held_during_reads = true},

    // ---- one prepared block for several jobs
    {.name = "coordl",
     .help = "CoorDL: jobs prepare in turn for all, over MinIO.",
     .allocation = kStoredSamples,
     .eviction = kNoneLeaves,
     .selection = "strict",
     .dispatch = "coordinated",
     .scaling = "static:depth=8"},
    {.name = "tensorsocket",
     .help = "TensorSocket: one producer, consumers in step.\n"
             "Departs from it: a late job makes what it missed, and waits for no epoch.",
     .allocation = kStoredSamples,
     .eviction = kAnyLeaves,
     .selection = "strict",
     .dispatch = "bounded-lag:blocks=2",
     .scaling = "static:depth=8"},
    {.name = "joader",
     .help = "Joader: what is prepared serves each job that may take it.\n"
             "Departs from it: only jobs on one dataset and pipeline share.",
     .allocation = kStoredSamples,
     .eviction = kAnyLeaves,
     .selection = "ready-first",
     .dispatch = "round-robin",
     .scaling = "static:depth=8"},
    {.name = "tf-data-service",
     .help = "tf.data service: jobs share a window that slides.\n"
             "Departs from it: what a slow job missed is made again, not skipped.",
     .allocation = "proportional:forms=prepared",
     .eviction = {"random", "random", "fifo"},
     .selection = "ready-first",
     .dispatch = "fifo",
     .scaling = "autotune",
     .helper_nodes = 8},

    // ---- each job for itself, over caches that all share
    {.name = "tf-data",
     .help = "tf.data: each job prepares alone, as parallel as it needs.",
     .allocation = kStoredSamples,
     .eviction = kAnyLeaves,
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "autotune",
     .share_streams = false,
     .share_nodes = false},
    {.name = "streaming-batch",
     .help = "Ray Data: a block at a time, where least is buffered.\n"
             "Departs from it: jobs of one node share its workers and no GPUs.",
     .allocation = kStoredSamples,
     .eviction = kAnyLeaves,
     .selection = "ready-first",
     .dispatch = "streaming-batch",
     .scaling = "look-ahead",
     .share_streams = false,
     .helper_nodes = 8,
     .late_after_p99 = 2},
    {.name = "minatoloader",
     .help = "MinatoLoader: what is slow holds up no batch.\n"
             "Departs from it: a slow block is passed over, not a slow sample.",
     .allocation = kStoredSamples,
     .eviction = kAnyLeaves,
     .selection = "ready-first",
     .dispatch = "fifo",
     .scaling = "autotune",
     .share_streams = false,
     .share_nodes = false,
     .late_after_p99 = 1},
    {.name = "cachew",
     .help = "Cachew: each dataset in the form that makes epochs shortest.",
     .allocation = "cachew",
     .eviction = kNoneLeaves,
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "cachew",
     .share_streams = false,
     .helper_nodes = 8},
    {.name = "seneca",
     .help = "Seneca: forms by a model, samples that are kept come first.",
     .allocation = "seneca",
     .eviction = {"seneca", "seneca", "refcount"},
     .selection = "seneca",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},
    {.name = "quiver",
     .help = "Quiver: memory by benefit, hits in place of misses.",
     .allocation = "quiver",
     .eviction = kNoneLeaves,
     .selection = "quiver",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},
    {.name = "silod",
     .help = "SiloD: memory by what a byte saves the store.",
     .allocation = "silod",
     .eviction = kNoneLeaves,
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},

    // ---- caches of many nodes
    {.name = "nopfs",
     .help = "NoPFS: caches are filled in the order of requests, ahead.\n"
             "Departs from it: see the eviction policy nopfs.",
     .allocation = kStoredSamples,
     .eviction = {"nopfs", "nopfs", "refcount"},
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "look-ahead",
     .share_streams = false,
     .helper_nodes = 8},
    {.name = "deepio",
     .help = "DeepIO: batches from what is in memory.",
     .allocation = kStoredSamples,
     .eviction = kAnyLeaves,
     .selection = "deepio",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},
    {.name = "hoard",
     .help = "Hoard: datasets are kept as wholes on the nodes.",
     .allocation = "hoard",
     .eviction = {"nopfs", "minio", "refcount"},
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},
    {.name = "fanstore",
     .help = "FanStore: the nodes of a job keep its dataset.\n"
             "Departs from it: samples come in as jobs read them, not before.",
     .allocation = kStoredSamples,
     .eviction = kNoneLeaves,
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},

    // ---- by importance, for weighted orders
    {.name = "shade",
     .help = "SHADE: what has the highest score stays.",
     .allocation = kStoredSamples,
     .eviction = {"shade", "shade", "refcount"},
     .selection = "shade",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},
    {.name = "icache",
     .help = "iCache: what mattered most in the last epoch stays.",
     .allocation = kStoredSamples,
     .eviction = {"icache", "icache", "refcount"},
     .selection = "strict",
     .dispatch = "fifo",
     .scaling = "static:depth=8",
     .share_streams = false},
    {.name = "fastmatch",
     .help = "FastMatch: the highest scores stay, workers are matched.",
     .allocation = "encoded-first:forms=decoded+prepared",
     .eviction = {"fastmatch", "fastmatch", "refcount"},
     .selection = "fastmatch",
     .dispatch = "fifo",
     .scaling = "fastmatch",
     .share_streams = false},
};

}  // namespace

void Preset::apply(EngineConfig& config) const {
  config.policies.allocation = allocation;
  for (std::size_t form = 0; form < kForms; ++form) config.policies.eviction[form] = eviction[form];
  config.policies.eviction[kOnDrives] = eviction[static_cast<std::size_t>(Form::encoded)];
  config.policies.eviction[kOnGpus] = eviction[static_cast<std::size_t>(Form::decoded)];
  config.policies.selection = selection;
  config.policies.dispatch = dispatch;
  config.policies.scaling = scaling;
  config.share_streams = share_streams;
  config.share_nodes = share_nodes;
  config.helper_nodes = helper_nodes;
  config.workers_per_rank = workers_per_rank;
  config.workers_held_during_reads = workers_held_during_reads;
  config.late_after_p99 = late_after_p99;
}

namespace {

std::vector<const Preset*>& all_presets() {
  static std::vector<const Preset*> all = [] {
    std::vector<const Preset*> built_in;
    for (const Preset& preset : kPresets) built_in.push_back(&preset);
    return built_in;
  }();
  return all;
}

}  // namespace

std::span<const Preset* const> presets() {
  return all_presets();
}

void refuse_taken(const Preset& preset) {
  for (const Preset& built_in : kPresets) {
    if (built_in.name == preset.name) {
      throw ConfigError(
          fmt::format("there is a built-in preset '{}'; give yours another name", preset.name));
    }
  }
}

void add_preset(const Preset& preset) {
  refuse_taken(preset);
  std::vector<const Preset*>& all = all_presets();
  std::erase_if(all, [&](const Preset* one) { return one->name == preset.name; });
  all.push_back(&preset);
}

}  // namespace batchflow::engine
