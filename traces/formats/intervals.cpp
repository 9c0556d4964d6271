// Philly and Helios as the authors of Gen-Parallel-Workloads publish them for training: rows give
// the interval since the submission of the row before, in seconds.
// Source: README and training_data of github.com/DIR-LAB/Gen-Parallel-Workloads.
// Submissions count from the file's first row. `wall_time` is 0 throughout, and the start of a job
// is not recorded. Lines end with a return.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {{"u_id", Role::id},           {"user", Role::user},
                               {"gpu_num", Role::gpus},      {"cpu_num", Role::cpus},
                               {"node_num", Role::nodes},    {"interval", Role::interval},
                               {"run_time", Role::duration}, {"new_status", Role::status}};
constexpr std::string_view kMarks[] = {"u_id", "interval", "run_time", "gpu_num", "new_status"};
constexpr CsvFormat kCsv{.columns = kColumns, .marks = kMarks};

}  // namespace

constexpr JobFormat kIntervals{.name = "intervals",
                               .help = "Philly or Helios, the intervals of Gen-Parallel-Workloads",
                               .checked = true,
                               .csv = &kCsv};

}  // namespace batchflow::traces
