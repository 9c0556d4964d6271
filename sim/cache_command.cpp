#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <thread>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/cache_study.h"
#include "sim/commands.h"
#include "sim/descriptions.h"
#include "traces/generator.h"

namespace batchflow::sim {
namespace {

// The policies that people ask about first.
constexpr const char* kUsualPolicies = "fifo,lru,sieve,s3fifo,2q,arc,lfu,minio,belady-bypass";
constexpr std::uint64_t kMostThreads = 1024;
constexpr std::uint64_t kMostNodes = 1024;

struct CacheOptions {
  std::string trace;
  std::vector<std::string> policies;
  std::vector<std::string> sizes;
  std::string format = "auto";
  output::OutputFlags outputs;
  std::uint64_t seed = 1;
  std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::uint64_t nodes = 1;
  bool through_engine = false;
};

traces::TraceFormat format_named(const std::string& name) {
  if (name == "csv") return traces::TraceFormat::csv;
  return name == "oracleGeneral" ? traces::TraceFormat::oracle_general
                                 : traces::TraceFormat::by_content;
}

traces::AccessTrace open_trace(const CacheOptions& options) {
  output::ProgressBar bar("reading " + options.trace);
  return traces::open_access_trace(options.trace, format_named(options.format), [&](double done) {
    output::check_interrupted();
    bar.show(done);
  });
}

// `gen:help` is not a trace; it asks which generators there are.
int help_with_generators(const output::OutputFlags& outputs) {
  if (outputs.wanted("csv")) throw ConfigError("gen:help is not written as CSV; write --json");
  if (outputs.wanted("json")) outputs.write("json", generators_json());
  outputs.write_text(describe_generators());
  return 0;
}

void check_parts(const CacheStudy& study) {
  for (const CacheSize& size : study.sizes) {
    if (size.bytes >= study.nodes) continue;
    throw ConfigError(fmt::format(
        "--size {} is less than a byte for each of {} nodes; write a greater size, or fewer nodes",
        size.text, study.nodes));
  }
}

int run_cache(const CacheOptions& options) {
  const output::OutputFlags& outputs = options.outputs;
  outputs.check(options.trace);
  if (options.trace == "gen:help" || options.trace == "gen:") return help_with_generators(outputs);
  CacheStudy study;
  study.seed = options.seed;
  study.nodes = static_cast<std::uint32_t>(options.nodes);
  study.policies = parse_policies(
      policies::policy_list(),
      options.policies.empty() ? std::vector<std::string>{kUsualPolicies} : options.policies);
  const auto asked = parse_sizes(options.sizes);  // a wrong size is found before the trace is read
  study.trace = open_trace(options);
  study.sizes = asked.empty() ? usual_sizes(study.trace.working_set_bytes)
                              : sizes_in_bytes(asked, study.trace.working_set_bytes);
  check_parts(study);
  run_cache_study(
      study, static_cast<unsigned>(options.threads),
      options.through_engine || study.nodes > 1 ? replay_through_engine : replay_through_share);
  if (outputs.wanted("json")) outputs.write("json", cache_json(study));
  if (outputs.wanted("csv")) outputs.write("csv", cache_csv(study));
  outputs.write_text(cache_table(study));
  return cache_exit_code(study);
}

}  // namespace

void add_cache_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "cache", "Replay an access trace through eviction policies, without a cluster around it");
  const auto options = std::make_shared<CacheOptions>();
  command
      ->add_option(
          "TRACE", options->trace,
          "A file (CSV lines time,id,size or oracleGeneral records, zstd, gzip or not), - for\n"
          "standard input, or a generated trace as gen:perm,n=100000,epochs=5,jobs=4\n"
          "(gen:help lists them)")
      ->required();
  command
      ->add_option("-p,--policy", options->policies,
                   std::string("Eviction policies, by comma or repeated: name[:parameter=value...]"
                               "\n(default: ") +
                       kUsualPolicies + ")")
      ->allow_extra_args(false);
  command
      ->add_option("-s,--size", options->sizes,
                   std::string("Cache sizes, by comma or repeated: bytes, 64mb, 64mib, or parts of "
                               "the\nworking set as 10% (default: ") +
                       kUsualSizes + ")")
      ->allow_extra_args(false);
  command
      ->add_option("--format", options->format,
                   "csv, oracleGeneral, or auto: by the file's name and content (default: auto)")
      ->check(CLI::IsMember({"auto", "csv", "oracleGeneral"}, CLI::ignore_case))
      ->type_name("FORMAT");
  options->outputs.add(*command, "json", "JSON");
  options->outputs.add(*command, "csv", "CSV");
  output::add_whole_number(*command, "--seed", options->seed, 0, UINT64_MAX,
                           "The seed of policies that draw (default: 1)");
  output::add_whole_number(*command, "--threads", options->threads, 1, kMostThreads,
                           "Runs at the same time (default: all cores)");
  output::add_whole_number(
      *command, "--nodes", options->nodes, 1, kMostNodes,
      "Nodes that share the cache, and make the requests in turn; each sample\n"
      "is kept on one of them, and goes through the engine (default: 1)");
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
