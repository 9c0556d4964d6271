// The output of `sacct --parsable2`: fields between bars, a header, one row a job and one a step.
// Source: sacct(1) of Slurm. Not checked on a real file.
// Ask for: sacct -a -P -o
//   JobID,JobName,User,Partition,Submit,Start,End,State,NNodes,NCPUS,AllocTRES,ReqTRES
// Times are in the zone of the caller of sacct, or seconds since 1970 with SLURM_TIME_FORMAT=%s.
// Rows of steps (`17.batch`) belong to their job; a job with a start of `Unknown` or `None` never
// started. A job that never ran has no AllocTRES: what it asked for is in ReqTRES, or nowhere.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {{"jobid", Role::id},
                               {"jobidraw", Role::id},
                               {"jobname", Role::name},
                               {"user", Role::user},
                               {"uid", Role::user},
                               {"partition", Role::queue},
                               {"submit", Role::submit},
                               {"start", Role::start},
                               {"end", Role::end},
                               {"state", Role::status},
                               {"nnodes", Role::nodes},
                               {"allocnodes", Role::nodes},
                               {"ncpus", Role::cpus},
                               {"alloccpus", Role::cpus},
                               {"alloctres", Role::tres_allocated},
                               {"reqtres", Role::tres_requested}};
constexpr std::string_view kMarks[] = {"submit", "start", "end", "state", "alloctres"};
constexpr CsvFormat kCsv{.delimiter = '|',
                         .columns = kColumns,
                         .marks = kMarks,
                         .numbers = TimeBase::utc,
                         .has_steps = true};

}  // namespace

constexpr JobFormat kSacct{
    .name = "sacct", .help = "Slurm, sacct --parsable2", .checked = false, .csv = &kCsv};

}  // namespace batchflow::traces
