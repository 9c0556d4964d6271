// Microsoft ITP as the authors of ElasticFlow (ASPLOS'23) publish it: one file a cluster.
// Source: README of github.com/microsoft/elasticflow-traces.
// Seconds count from 2021-03-04 in no named zone; jobs under 600 s were left out. The user, the
// status and the start of a job are not recorded.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {{"job_id", Role::id},
                               {"submission_time", Role::submit},
                               {"duration", Role::duration},
                               {"num_gpu", Role::gpus}};
constexpr std::string_view kMarks[] = {"job_id", "submission_time", "duration", "num_gpu"};
constexpr CsvFormat kCsv{.columns = kColumns, .marks = kMarks};

}  // namespace

constexpr JobFormat kItp{.name = "itp",
                         .help = "Microsoft ITP, the CSV of the ElasticFlow authors",
                         .checked = true,
                         .csv = &kCsv};

}  // namespace batchflow::traces
