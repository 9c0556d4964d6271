// BatchFlow's own CSV, as `job_csv` writes it; docs/traces.md describes its columns.
#include "traces/formats/format.h"

namespace batchflow::traces {
namespace {

constexpr Column kColumns[] = {
    {"id", Role::id},         {"name", Role::name},           {"user", Role::user},
    {"queue", Role::queue},   {"submit_s", Role::submit},     {"start_s", Role::start},
    {"end_s", Role::end},     {"duration_s", Role::duration}, {"gpus", Role::gpus},
    {"nodes", Role::nodes},   {"cpus", Role::cpus},           {"memory_bytes", Role::memory_bytes},
    {"status", Role::status}, {"attempts", Role::attempts}};
constexpr std::string_view kMarks[] = {"id", "submit_s", "duration_s", "gpus"};
constexpr CsvFormat kCsv{.columns = kColumns, .marks = kMarks};

}  // namespace

constexpr JobFormat kBatchflowCsv{
    .name = "batchflow", .help = "BatchFlow's own CSV", .checked = true, .csv = &kCsv};

}  // namespace batchflow::traces
