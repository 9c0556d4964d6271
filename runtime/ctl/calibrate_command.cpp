// batchflowctl calibrate: measures this node, and writes what the simulator needs to know of it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/input/find_config.h"
#include "programs/input/yaml.h"
#include "programs/output/exit_codes.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/calibration.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/peer_listener.h"
#include "runtime/sources/bundles.h"
#include "runtime/sources/file_kinds.h"
#include "runtime/step/step_plugin.h"

namespace batchflow::ctl {
namespace {

struct CalibrateCommandOptions {
  std::string dataset;
  DatasetPath given;
  std::string pipeline;
  std::string name = "here";
  double seconds = 2;
  std::string peer;  // empty: no network is measured
  std::string listen;
  std::string token;
  bool once = false;
  output::OutputFlags outputs;
};

bool has_pictures(const sources::SampleIndex& index) {
  std::uint64_t pictures = 0;
  for (const auto& [ending, count] : index.sums(output::was_interrupted).endings)
    if (sources::is_picture_ending(ending)) pictures += count;
  return index.kind() == sources::RecordKind::whole && pictures > index.samples() / 2;
}

// Null: none was named, and the dataset is not one of pictures.
std::unique_ptr<prepare::Pipeline> find_pipeline(std::string& name,
                                                 const sources::SampleIndex& index) {
  if (name.empty() && has_pictures(index)) name = "imagenet-train";
  if (name.empty()) return nullptr;
  const std::string file = input::find_config(name, "pipelines");
  return prepare::compile_pipeline(input::read_yaml_file(file), index, step::StepSettings{});
}

std::string microseconds(double seconds) {
  return fmt::format("{:.1f}us", seconds * 1e6);
}
// The digits that a measurement has.
std::string bytes_number(double bytes) {
  return fmt::format("{:.0f}", std::round(bytes));
}

std::string host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "this machine";
}

// The processor time of reads, by their number and their bytes.
struct ReadCost {
  double each_s = 0;
  double s_per_byte = 0;
};
ReadCost read_cost(const Calibration& made) {
  const ReadRate& small = made.sizes.front();
  const ReadRate& large = made.sizes.back();
  const auto more = static_cast<double>(large.taken_bytes - small.taken_bytes);
  ReadCost cost;
  if (more > 0) cost.s_per_byte = std::max(0.0, (large.cpu_s - small.cpu_s) / more);
  cost.each_s =
      std::max(0.0, small.cpu_s - cost.s_per_byte * static_cast<double>(small.taken_bytes));
  return cost;
}

// What a service costs beside preparation, where one was measured.
std::string overhead_text(const Calibration& made) {
  const ReadCost read = read_cost(made);
  const double copies = made.service ? made.service->copy_s_per_byte : 0;
  std::string text = fmt::format("step: {}, wake: {}, read: {}, read_ns_per_byte: {:.4f}",
                                 microseconds(made.sleep_over_s), microseconds(made.wake_s),
                                 microseconds(read.each_s), (read.s_per_byte + copies) * 1e9);
  if (const auto& costs = made.service)
    text += fmt::format(", touch_ns_per_byte: {:.4f}, batch: {}, ns_per_sample: {:.0f}",
                        costs->touch_s_per_byte * 1e9, microseconds(costs->batch_s),
                        costs->sample_s * 1e9);
  if (const auto& network = made.network)
    text += fmt::format(", send_ns_per_byte: {:.4f}, receive_ns_per_byte: {:.4f}",
                        network->cpu_s_per_byte(true) * 1e9, network->cpu_s_per_byte(false) * 1e9);
  return "{" + text + "}";
}

double taken_bytes_per_s(const ReadRate& rate) {
  return rate.reads_per_s * static_cast<double>(rate.taken_bytes);
}

double most_bytes_per_s(const Calibration& made) {
  double most = 0;
  for (const ReadRate& rate : made.sizes) most = std::max(most, taken_bytes_per_s(rate));
  return most;
}

// What a read takes beside the time for its bytes, where it is alone.
double latency_s(const Calibration& made) {
  const auto bytes = static_cast<double>(made.reads.back().bytes);
  return std::max(0.0, made.reads.front().p50_s - bytes / most_bytes_per_s(made));
}

// The part of the greatest rate that reads of each size reach.
std::string efficiency_text(const Calibration& made) {
  const double most = most_bytes_per_s(made);
  std::string text;
  Bytes before = 0;
  for (const ReadRate& rate : made.sizes) {
    if (rate.taken_bytes == std::exchange(before, rate.taken_bytes)) continue;
    text += fmt::format("{}{{bytes: {}, efficiency: {:.3f}}}", text.empty() ? "" : ", ",
                        rate.taken_bytes, std::clamp(taken_bytes_per_s(rate) / most, 1e-3, 1.0));
  }
  return "[" + text + "]";
}

// A message passes two network cards on its way there, and two on its way back.
std::string network_text(const Calibration& made) {
  if (!made.network) return "";
  const NetworkCosts& network = *made.network;
  const double sent = network.most_bytes_per_s(true), received = network.most_bytes_per_s(false);
  return fmt::format(
      "    # The network to {}: {}/s there, {}/s back. Reads of the store pass it, too:\n"
      "    # leave these two lines out where the store is a drive of this node.\n"
      "    nic_bytes_per_s: {}\n"
      "    nic_latency: {}\n",
      output::printable(network.peer), bytes_text(sent), bytes_text(received),
      bytes_number(std::min(sent, received)), microseconds(network.p50_s / 4));
}

std::string cluster_text(const Calibration& made, const CalibrateCommandOptions& options) {
  const Bytes memory =
      static_cast<Bytes>(sysconf(_SC_PHYS_PAGES)) * static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return fmt::format(
      "# Measured by `batchflowctl calibrate {}` on {}: reads of {} bytes by {}, {}.\n"
      "kind: cluster\n"
      "name: {}\n"
      "nodes:\n"
      "  - name: {}\n"
      "    cores: {}\n"
      "    processors: {}\n"
      "    workers_help: true\n"
      "    overhead: {}\n"
      "    gpus: 8  # not measured\n"
      "    memory: {}\n"
      "    cache: 50%\n"
      "    memory_bytes_per_s: {}\n"
      "{}"
      "store:\n"
      "  bytes_per_s: {}\n"
      "  efficiency: {}\n"
      "  latency: {}\n"
      "  operations_ahead: {}\n"
      "  queue: {}\n",
      output::printable(options.dataset), output::printable(host()), made.reads.back().bytes,
      made.reader,
      made.past_page_cache ? "past the page cache"
                           : "out of the page cache, since the file system knows no other way",
      options.name, options.name, cores, cores, overhead_text(made), memory,
      bytes_number(made.copy_bytes_per_s), network_text(made), bytes_number(most_bytes_per_s(made)),
      efficiency_text(made), microseconds(latency_s(made)), made.reads.back().depth,
      made.reads.back().depth);
}

// From stored bytes, in the service if one was measured: there they come out of more memory.
double cold_s(const Calibration& made) {
  const bool in_service = made.service && made.service->prepare_s > 0;
  return in_service ? made.service->prepare_s : made.preparation->cold_s;
}

std::string workload_text(const Calibration& made, const CalibrateCommandOptions& options,
                          const OpenedDataset& data) {
  const Bytes total = data.index->sums(output::was_interrupted).total;
  const Bytes mean = total / data.index->samples();
  const std::uint8_t shift = sources::bundle_shift(*data.index, total, output::was_interrupted);
  std::string text = fmt::format(
      "# Measured by `batchflowctl calibrate {}` on {}: for `datasets:` and `pipelines:` of a\n"
      "# scenario. Costs are of one core, while all work.\n"
      "datasets:\n"
      "  - {{name: data, samples: {}, bytes: {}, read_bytes: {}, opens: {}{}}}\n",
      output::printable(options.dataset), output::printable(host()), data.index->samples(), mean,
      std::max(mean, made.reads.back().taken_bytes),
      microseconds(made.service ? made.service->opens_s : 0),
      shift >= 2 ? fmt::format(", bundle: {}", mean << shift) : "");
  if (!made.preparation) return text;
  const PreparationCost& cost = *made.preparation;
  text += fmt::format("pipelines:\n  - name: {}\n    steps:\n", options.pipeline);
  if (cost.decoded > 0)
    text += fmt::format("      - {{name: decode, cost: {}, output: {}}}\n",
                        microseconds(std::max(0.0, cold_s(made) - cost.decoded_s)), cost.decoded);
  return text + fmt::format("      - {{name: {}, random: {}, kept: false, cost: {}, output: {}}}\n",
                            cost.random ? "augment" : "finish", cost.random,
                            microseconds(cost.decoded > 0 ? cost.decoded_s : cold_s(made)),
                            cost.prepared);
}

std::string network_table(const NetworkCosts& network) {
  std::string text = fmt::format(
      "{}: a small message there and back takes {}, p99 {}\n{:>14}{:>12}{:>14}{:>16}{:>16}\n",
      output::printable(network.peer), microseconds(network.p50_s), microseconds(network.p99_s),
      "streams", "bytes", "bytes/s", "ns/byte here", "ns/byte there");
  for (const NetworkRate& rate : network.rates)
    text += fmt::format("{:>14}{:>12}{:>14}{:>16.4f}{:>16.4f}\n", rate.streams,
                        rate.is_sent ? "sent" : "received", bytes_text(rate.bytes_per_s),
                        rate.own_s_per_byte * 1e9, rate.peer_s_per_byte * 1e9);
  return text;
}

std::string table(const Calibration& made, const CalibrateCommandOptions& options) {
  std::string text = fmt::format("{:>14}{:>12}{:>14}{:>12}{:>12}\n", "reads at once", "reads/s",
                                 "bytes/s", "p50", "p99");
  for (const ReadRate& rate : made.reads)
    text += fmt::format("{:>14}{:>12.0f}{:>14}{:>12}{:>12}\n", rate.depth, rate.reads_per_s,
                        bytes_text(rate.bytes_per_s), microseconds(rate.p50_s),
                        microseconds(rate.p99_s));
  if (!made.past_page_cache)
    text += "note: the file system has no O_DIRECT, so these are reads of memory, not of a store\n";
  if (const auto& cost = made.preparation) {
    text += fmt::format("{}: {} a sample of {} on a core while all work, {} on one alone",
                        options.pipeline, microseconds(cost->cold_s),
                        bytes_text(static_cast<double>(cost->stored)), microseconds(cost->alone_s));
    if (cost->decoded > 0)
      text += fmt::format("; {} of its decoded form of {}", microseconds(cost->decoded_s),
                          bytes_text(static_cast<double>(cost->decoded)));
    text += "\n";
  } else {
    text += "preparation was not measured: name a pipeline by --pipeline\n";
  }
  for (std::size_t i = 0; i + 1 < made.sizes.size(); ++i)
    text += fmt::format("reads of {} bytes, {} at once: {}/s\n", made.sizes[i].bytes,
                        made.sizes[i].depth, bytes_text(made.sizes[i].bytes_per_s));
  text += fmt::format(
      "copies in memory: {}/s; a thread wakes after {}, and sleeps {} longer than it should\n",
      bytes_text(made.copy_bytes_per_s), microseconds(made.wake_s),
      microseconds(made.sleep_over_s));
  if (made.network) text += network_table(*made.network);
  if (const auto& costs = made.service)
    return text + fmt::format(
                      "a service of {} workers: {} a sample to prepare, {} a read, {} a batch and "
                      "{:.2f} us a sample of it to hand over\n",
                      costs->workers, microseconds(costs->prepare_s), microseconds(costs->read_s),
                      microseconds(costs->batch_s), costs->sample_s * 1e6);
  return text + "a service was not measured: there is no batchflowd beside this program\n";
}

std::string json_of(const Calibration& made) {
  nlohmann::json all = {{"reader", made.reader},
                        {"past_page_cache", made.past_page_cache},
                        {"copy_bytes_per_s", made.copy_bytes_per_s},
                        {"wake_s", made.wake_s},
                        {"sleep_over_s", made.sleep_over_s},
                        {"sizes", nlohmann::json::array()},
                        {"service", nullptr},
                        {"network", nullptr},
                        {"reads", nlohmann::json::array()},
                        {"preparation", nullptr}};
  const auto read = [](const ReadRate& rate) -> nlohmann::json {
    return {{"depth", rate.depth},
            {"bytes", rate.bytes},
            {"taken_bytes", rate.taken_bytes},
            {"reads_per_s", rate.reads_per_s},
            {"bytes_per_s", rate.bytes_per_s},
            {"p50_s", rate.p50_s},
            {"p99_s", rate.p99_s},
            {"cpu_s", rate.cpu_s}};
  };
  for (const ReadRate& rate : made.reads) all["reads"].push_back(read(rate));
  for (const ReadRate& rate : made.sizes) all["sizes"].push_back(read(rate));
  if (const auto& cost = made.preparation)
    all["preparation"] = {{"alone_s", cost->alone_s},       {"cold_s", cost->cold_s},
                          {"decoded_s", cost->decoded_s},   {"stored_bytes", cost->stored},
                          {"decoded_bytes", cost->decoded}, {"prepared_bytes", cost->prepared}};
  if (const auto& costs = made.service)
    all["service"] = {{"workers", costs->workers},
                      {"prepare_s", costs->prepare_s},
                      {"read_s", costs->read_s},
                      {"opens_s", costs->opens_s},
                      {"copy_s_per_byte", costs->copy_s_per_byte},
                      {"touch_s_per_byte", costs->touch_s_per_byte},
                      {"batch_s", costs->batch_s},
                      {"sample_s", costs->sample_s}};
  if (const auto& network = made.network) {
    nlohmann::json rates = nlohmann::json::array();
    for (const NetworkRate& rate : network->rates)
      rates.push_back({{"streams", rate.streams},
                       {"sent", rate.is_sent},
                       {"bytes_per_s", rate.bytes_per_s},
                       {"own_s_per_byte", rate.own_s_per_byte},
                       {"peer_s_per_byte", rate.peer_s_per_byte}});
    all["network"] = {{"peer", network->peer},
                      {"p50_s", network->p50_s},
                      {"p99_s", network->p99_s},
                      {"rates", rates}};
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The part of all that is measured which the network takes.
double measure_network_part([[maybe_unused]] const CalibrateCommandOptions& options,
                            [[maybe_unused]] output::ProgressBar& bar,
                            [[maybe_unused]] Calibration& made) {
#ifdef BATCHFLOW_REMOTE
  constexpr double kPart = 0.25;
  if (options.peer.empty()) return 0;
  NetworkCostsOptions how;
  how.peer = options.peer;
  how.token_file = options.token;
  how.seconds = options.seconds;
  how.stop = output::was_interrupted;
  how.progress = [&](double done, std::string_view what) { bar.show(kPart * done, what); };
  made.network = measure_network(how);
  return kPart;
#else
  return 0;
#endif
}

int listen_for_peers([[maybe_unused]] const CalibrateCommandOptions& options) {
#ifdef BATCHFLOW_REMOTE
  const bool is_whole =
      serve_peers({options.listen, options.token, options.once, output::was_interrupted});
  if (options.once) output::check_interrupted();
  return is_whole || !options.once ? 0 : output::kFailed;
#else
  return output::kFailed;
#endif
}

void check(const CalibrateCommandOptions& options) {
  const bool listens = !options.listen.empty();
  if (listens != options.dataset.empty())
    throw ConfigError("calibrate: write a dataset, or --listen, and not both");
  if (listens && !options.peer.empty())
    throw ConfigError("calibrate: --listen is for the peer, and --peer for the node that measures");
  if ((listens || !options.peer.empty()) && options.token.empty())
    throw ConfigError(
        "calibrate: no token; write --token FILE on both sides (openssl rand -hex 32 >FILE; chmod "
        "600 FILE)");
  if (options.once && !listens) throw ConfigError("calibrate: --once is for --listen");
}

int calibrate_command(CalibrateCommandOptions& options, const std::string& service) {
  check(options);
  if (!options.listen.empty()) return listen_for_peers(options);
  options.outputs.check();
  const DatasetPath dataset = find_dataset(options.dataset, options.given, service);
  const OpenedDataset data = open_dataset(dataset);
  const std::unique_ptr<prepare::Pipeline> pipeline = find_pipeline(options.pipeline, *data.index);
  CalibrationOptions how;
  how.seconds = options.seconds;
  how.stop = output::was_interrupted;
  if (pipeline) {
    how.service.emplace();
    how.service->dataset = std::filesystem::absolute(dataset.path);
    how.service->pipeline = options.pipeline;
    how.service->workers = std::max(1u, std::thread::hardware_concurrency());
    how.service->seconds = options.seconds;
    how.service->stop = output::was_interrupted;
  }
  Calibration made;
  {
    output::ProgressBar bar("calibrating");
    Calibration network;
    const double before = measure_network_part(options, bar, network);
    how.progress = [&](double done, std::string_view what) {
      bar.show(before + (1 - before) * done, what);
    };
    made = calibrate(data, pipeline.get(), how);
    made.network = std::move(network.network);
  }
  output::check_interrupted();
  if (options.outputs.wanted("cluster"))
    options.outputs.write("cluster", cluster_text(made, options));
  if (options.outputs.wanted("workload"))
    options.outputs.write("workload", workload_text(made, options, data));
  if (options.outputs.wanted("json")) options.outputs.write("json", json_of(made));
  options.outputs.write_text(table(made, options));
  return 0;
}

}  // namespace

void add_calibrate_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure this node, for simulations that are like it")
          ->fallthrough();
  command->footer(
      "It reads random samples as the service does, 1 to 32 at once, and prepares some on one "
      "core.\n"
      "With --peer it measures the network to a machine on which --listen runs. Measure while "
      "nothing else runs.\n"
      "Examples:\n"
      "  batchflowctl calibrate /data/imagenet/train --cluster=here.yaml --workload=imagenet.yaml\n"
      "  batchflow-sim run four-jobs --cluster here.yaml\n"
      "  batchflowctl calibrate --listen 10.0.0.2:9840 --token token\n"
      "  batchflowctl calibrate /data/imagenet/train --peer 10.0.0.2:9840 --token token "
      "--cluster=here.yaml");
  const auto options = std::make_shared<CalibrateCommandOptions>();
  command->add_option("DATASET", options->dataset,
                      "A path, or the name of a dataset of the service");
  options->given.add_options(*command);
  command->add_option("--pipeline", options->pipeline,
                      "A name or a file; default: imagenet-train for pictures, else none");
  command->add_option("--name", options->name, "The name of the cluster that is written (here)")
      ->check([](const std::string& name) {
        const bool is_name =
            !name.empty() && name.find_first_not_of(
                                 "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == std::string::npos;
        return is_name ? std::string() : "a name has letters, digits, - and _ alone";
      });
  command->add_option("--seconds", options->seconds, "For each thing that is measured (2)")
      ->check(CLI::Range(0.05, 600.0));
#ifdef BATCHFLOW_REMOTE
  command->add_option(
      "--peer", options->peer,
      "HOST:PORT of a machine on which --listen runs: the network to it is measured");
  command->add_option("--listen", options->listen,
                      "ADDRESS:PORT: measures nothing by itself, and is the peer of another node\n"
                      "until it is interrupted");
  command->add_flag("--once", options->once, "With --listen: only for one measurement");
  command
      ->add_option(
          "--token", options->token,
          "A file with the token that both sides of a network have, readable by its owner\n"
          "alone")
      ->envname("BATCHFLOW_TOKEN_FILE");
#endif
  options->outputs.add(*command, "cluster", "YAML");
  options->outputs.add(*command, "workload", "YAML");
  options->outputs.add(*command, "json", "JSON");
  command->callback([&service, &action, options] {
    action = [&service, options] { return calibrate_command(*options, service); };
  });
}

}  // namespace batchflow::ctl
