// Alibaba's GPU-sharing cluster of 2023 ("openb"): openb_pod_list_*.csv.
// Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.
// A pod has `num_gpu` GPUs, and `gpu_milli` thousandths of each; a pod that waits has no
// scheduled_time. Seconds count from the beginning of the trace.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {{"name", Role::id},
                               {"cpu_milli", Role::cpu_milli},
                               {"memory_mib", Role::memory_mib},
                               {"num_gpu", Role::gpus},
                               {"gpu_milli", Role::gpu_milli},
                               {"qos", Role::queue},
                               {"pod_phase", Role::status},
                               {"creation_time", Role::submit},
                               {"deletion_time", Role::end},
                               {"scheduled_time", Role::start}};
constexpr std::string_view kMarks[] = {"name", "num_gpu", "gpu_milli", "creation_time",
                                       "scheduled_time"};
constexpr CsvFormat kCsv{.columns = kColumns, .marks = kMarks};

}  // namespace

constexpr JobFormat kOpenb{.name = "openb",
                           .help = "Alibaba GPU v2023, openb_pod_list_*.csv",
                           .checked = true,
                           .csv = &kCsv};

}  // namespace batchflow::traces
