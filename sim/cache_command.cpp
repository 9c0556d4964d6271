#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "core/config_error.h"
#include "policies/registry.h"
#include "sim/cache_study.h"
#include "sim/commands.h"
#include "sim/output_file.h"
#include "sim/terminal.h"
#include "traces/generator.h"

namespace batchflow::sim {
namespace {

// What stands for a size or policy that was not given: the policies people ask about first, and
// sizes from far too small to comfortable.
const std::vector<std::string> kPolicies = {"fifo,lru,sieve,s3fifo,2q,arc,lfu,minio,belady-bypass"};
const std::vector<std::string> kSizes = {"1%,10%,25%,50%,75%"};

struct Options {
  std::string trace;
  std::vector<std::string> policies;
  std::vector<std::string> sizes;
  std::string format = "auto";
  std::string json;  // empty: not asked for
  std::string csv;
  std::uint64_t seed = 1;
  unsigned threads = 0;
  bool through_engine = false;
};

TraceFormat format_named(const std::string& name) {
  if (name == "csv") return TraceFormat::csv;
  return name == "oracle" ? TraceFormat::oracle_general : TraceFormat::by_content;
}

std::optional<OutputFile> output(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return std::optional<OutputFile>(std::in_place, path);
}

AccessTrace open_trace(const Options& options) {
  ProgressBar bar("reading " + options.trace);
  return open_access_trace(options.trace, format_named(options.format), [&](double done) {
    check_interrupted();
    bar.show(done);
  });
}

int run_cache(const Options& options) {
  if (options.trace == "gen:help" || options.trace == "gen:") {
    std::fputs(generator_help().c_str(), stdout);
    return 0;
  }
  CacheStudy study;
  study.seed = options.seed;
  study.policies =
      parse_policies(policy_list(), options.policies.empty() ? kPolicies : options.policies);
  const std::vector<std::string>& sizes = options.sizes.empty() ? kSizes : options.sizes;
  parse_sizes(sizes, UINT64_MAX);  // a slip is found before the trace is read
  if (options.json == "-" && options.csv == "-") {
    throw ConfigError("--json and --csv cannot both go to standard output; write --csv=FILE");
  }
  auto json = output(options.json);
  auto csv = output(options.csv);
  study.trace = open_trace(options);
  study.sizes = parse_sizes(sizes, study.trace.working_set_bytes);
  const unsigned threads =
      options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
  run_cache_study(study, threads,
                  options.through_engine ? replay_through_engine : replay_through_share);
  if (json) json->write(cache_json(study));
  if (csv) csv->write(cache_csv(study));
  const bool taken = (json && json->to_standard_output()) || (csv && csv->to_standard_output());
  std::fputs(cache_table(study).c_str(), taken ? stderr : stdout);
  return 0;
}

}  // namespace

void add_cache_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "cache", "Replay an access trace through eviction policies, without a cluster around it");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("TRACE", options->trace,
                   "A file (CSV lines time,id,size or oracleGeneral binary, zstd or not), or a\n"
                   "generated trace as gen:perm,n=100000,epochs=5,jobs=4 (gen:help lists them)")
      ->required();
  command
      ->add_option("-p,--policy", options->policies,
                   "Eviction policies, by comma or repeated: name[:parameter=value...]\n"
                   "(default: " +
                       kPolicies.front() + ")")
      ->allow_extra_args(false);
  command
      ->add_option("-s,--size", options->sizes,
                   "Cache sizes, by comma or repeated: bytes, 64mb, 64mib, or shares of the\n"
                   "working set as 10% (default: " +
                       kSizes.front() + ")")
      ->allow_extra_args(false);
  command->add_option("--format", options->format, "Of the file: auto, csv or oracle")
      ->check(CLI::IsMember({"auto", "csv", "oracle"}))
      ->capture_default_str();
  command->add_flag("--json{-}", options->json,
                    "Write JSON to standard output, or with =FILE to a file");
  command->add_flag("--csv{-}", options->csv,
                    "Write CSV to standard output, or with =FILE to a file");
  command->add_option("--seed", options->seed, "For policies that draw")->capture_default_str();
  command->add_option("--threads", options->threads, "Runs at the same time (default: all cores)")
      ->check(CLI::Range(1u, 4096u));
  command->add_flag("--through-engine", options->through_engine,
                    "Send each request through the engine's step, as a live service would: the\n"
                    "same counts, some ten times slower");
  command->footer(
      "Examples:\n"
      "  batchflow-sim cache gen:perm,n=100000,epochs=5 --policy lru,sieve,minio --size 10%,50%\n"
      "  batchflow-sim cache trace.csv.zst --policy s3fifo:small=0.2 --size 64gb --json=out.json");
  command->callback([options, &action] { action = [options] { return run_cache(*options); }; });
}

}  // namespace batchflow::sim
