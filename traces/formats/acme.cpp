// Acme of the Shanghai AI Lab: trace_seren.csv and trace_kalos.csv.
// Source: README of github.com/InternLM/AcmeTrace. Not checked on a real file.
// Times name their zone. Kalos' duration counts from some time before the start, so the times of
// start and end are used. `type` says what the job did (pretrain, evaluation...); it is the job's
// name here.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {
    {"job_id", Role::id},          {"user", Role::user},
    {"node_num", Role::nodes},     {"gpu_num", Role::gpus},
    {"cpu_num", Role::cpus},       {"mem_per_pod_gb", Role::memory_gb_per_node},
    {"type", Role::name},          {"state", Role::status},
    {"submit_time", Role::submit}, {"start_time", Role::start},
    {"end_time", Role::end}};
constexpr std::string_view kMarks[] = {"job_id", "user",        "gpu_num",
                                       "type",   "submit_time", "gpu_time"};
constexpr CsvFormat kCsv{.columns = kColumns, .marks = kMarks};

}  // namespace

constexpr JobFormat kAcme{.name = "acme",
                          .help = "Shanghai AI Lab Acme, trace_seren.csv and trace_kalos.csv",
                          .checked = false,
                          .csv = &kCsv};

}  // namespace batchflow::traces
