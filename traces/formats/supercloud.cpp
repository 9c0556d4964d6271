// MIT Supercloud: slurm-log.csv of its Datacenter Challenge, also with columns added by others.
// Source: https://dcc.mit.edu; checked on a sample that others made, which rounds ids to floats, so
// that they are not unique there.
// GPUs are in tres_alloc. A start or end of 0 means that there was none yet.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {{"id_job", Role::id},
                               {"job_type", Role::name},
                               {"id_user", Role::user},
                               {"partition", Role::queue},
                               {"time_submit", Role::submit},
                               {"time_start", Role::start},
                               {"time_end", Role::end},
                               {"nodes_alloc", Role::nodes},
                               {"cpus_req", Role::cpus},
                               {"state", Role::slurm_state},
                               {"tres_alloc", Role::tres_allocated},
                               {"tres_req", Role::tres_requested}};
constexpr std::string_view kMarks[] = {"id_job", "id_user", "time_submit", "time_start",
                                       "tres_alloc"};
constexpr CsvFormat kCsv{
    .columns = kColumns, .marks = kMarks, .numbers = TimeBase::utc, .zero_is_no_time = true};

}  // namespace

constexpr JobFormat kSupercloud{
    .name = "supercloud", .help = "MIT Supercloud, slurm-log.csv", .checked = true, .csv = &kCsv};

}  // namespace batchflow::traces
