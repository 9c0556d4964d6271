// Bytes per second at which job logs are read, on one core, from files in the page cache: a line
// format with calendar times, BatchFlow's own CSV, Philly's JSON, and compressed ones (bytes before
// compression). `job_bytes`: the memory of a job once it is read.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "traces/byte_source.h"
#include "traces/job_synth.h"
#include "traces/job_trace.h"
#include "traces/text_fields.h"

namespace batchflow::bench {
namespace {

// 10^6 jobs, as large sites have in a year.
const traces::JobTrace& jobs() {
  static const traces::JobTrace trace = [] {
    traces::SynthOptions options;
    options.jobs = 1'000'000;
    options.days = 365;
    return traces::synthesize_jobs(traces::usual_job_model(), options);
  }();
  return trace;
}

// In the format in which SenseTime publishes them.
std::string helios_text() {
  std::string text =
      "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,"
      "queue\n";
  const traces::JobTrace& trace = jobs();
  for (const traces::JobRecord& job : trace.jobs) {
    text += fmt::format("{},{},{},{},4,1,COMPLETED,{},{},{},{},{}\n", trace.text(job.id),
                        trace.text(job.user), trace.text(job.queue), job.gpus_hundredths / 100,
                        traces::calendar_text(job.submit_ns), traces::calendar_text(job.start_ns),
                        traces::calendar_text(job.start_ns + job.duration_ns),
                        job.duration_ns / traces::kNanosPerSecond,
                        (job.start_ns - job.submit_ns) / traces::kNanosPerSecond);
  }
  return text;
}

// In the format in which Microsoft publishes them: indented, with every GPU on a line.
std::string philly_text() {
  constexpr std::size_t kJobs = 200'000;
  const traces::JobTrace& trace = jobs();
  std::string text = "[\n";
  for (std::size_t i = 0; i < kJobs; ++i) {
    const traces::JobRecord& job = trace.jobs[i];
    std::string gpus;
    for (std::uint32_t gpu = 0; gpu < job.gpus_hundredths / 100; ++gpu) {
      gpus += fmt::format("{}                        \"gpu{}\"", gpu == 0 ? "" : ",\n", gpu);
    }
    text += fmt::format(
        "    {{\n        \"status\": \"Pass\",\n        \"vc\": \"{}\",\n        \"jobid\": "
        "\"{}\",\n"
        "        \"attempts\": [\n            {{\n                \"start_time\": \"{}\",\n"
        "                \"end_time\": \"{}\",\n                \"detail\": [\n"
        "                    {{\n                        \"ip\": \"m1\",\n"
        "                        \"gpus\": [\n{}\n                        ]\n"
        "                    }}\n                ]\n            }}\n        ],\n"
        "        \"submitted_time\": \"{}\",\n        \"user\": \"{}\"\n    }}{}\n",
        trace.text(job.queue), trace.text(job.id), traces::calendar_text(job.start_ns),
        traces::calendar_text(job.start_ns + job.duration_ns), gpus,
        traces::calendar_text(job.submit_ns), trace.text(job.user), i + 1 == kJobs ? "" : ",");
  }
  return text + "]\n";
}

void read(benchmark::State& state, std::string (*make)(), const char* ending) {
  std::string name = (std::filesystem::temp_directory_path() / "batchflow-XXXXXX").string();
  close(mkstemp(name.data()));
  const std::string text = make();
  std::ofstream(name, std::ios::binary) << traces::encoded_for(ending, text);
  std::size_t read = 0, bytes = 0;
  for (auto _ : state) {
    const traces::JobTrace trace = traces::read_job_trace(name);
    read = trace.jobs.size();
    bytes = trace.jobs.capacity() * sizeof(traces::JobRecord) + trace.texts.bytes();
  }
  std::filesystem::remove(name);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.counters["jobs"] = static_cast<double>(read);
  state.counters["job_bytes"] = static_cast<double>(bytes) / static_cast<double>(read);
}

std::string own_text() {
  return traces::job_csv(jobs());
}

BENCHMARK_CAPTURE(read, batchflow, own_text, "")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read, batchflow_zstd, own_text, ".zst")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read, batchflow_gzip, own_text, ".gz")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read, helios, helios_text, "")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read, philly_json, philly_text, "")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace batchflow::bench
