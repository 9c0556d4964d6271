// SenseTime Helios: cluster_log.csv of one of its clusters (Venus, Earth, Saturn, Uranus).
// Source: README of github.com/S-Lab-System-Group/HeliosData. Not checked on a real file.
// Times are in a zone that is not named; 0 GPUs is a job without GPUs. A job that was cancelled
// before it started has no start, and a duration of 0.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {
    {"job_id", Role::id},    {"user", Role::user},          {"vc", Role::queue},
    {"gpu_num", Role::gpus}, {"cpu_num", Role::cpus},       {"node_num", Role::nodes},
    {"state", Role::status}, {"submit_time", Role::submit}, {"start_time", Role::start},
    {"end_time", Role::end}, {"duration", Role::duration}};
constexpr std::string_view kMarks[] = {"job_id",  "user",        "vc",
                                       "gpu_num", "submit_time", "start_time"};
constexpr CsvFormat kCsv{.columns = kColumns, .marks = kMarks, .zero_is_no_duration = true};

}  // namespace

constexpr JobFormat kHelios{
    .name = "helios", .help = "SenseTime Helios, cluster_log.csv", .checked = false, .csv = &kCsv};

}  // namespace batchflow::traces
