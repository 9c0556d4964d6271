// Microsoft Philly as the authors of Pollux (OSDI'21) cut it: one row a job, its attempts in one.
// Source: philly.csv in github.com/petuum/adaptdl, branch osdi21-artifact, simulator/traces.
// Times are in a zone that is not named; rows are not sorted. The user, the status and the start of
// a job are not recorded.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {{"timestamp", Role::submit},
                               {"duration", Role::duration},
                               {"num_gpus", Role::gpus},
                               {"cluster", Role::queue}};
constexpr std::string_view kMarks[] = {"timestamp", "duration", "num_gpus", "gpu_time", "cluster"};
constexpr CsvFormat kCsv{.columns = kColumns, .marks = kMarks};

}  // namespace

constexpr JobFormat kPhillyCsv{.name = "philly-csv",
                               .help = "Microsoft Philly, the CSV of the Pollux authors",
                               .checked = true,
                               .csv = &kCsv};

}  // namespace batchflow::traces
