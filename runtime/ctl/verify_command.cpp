// batchflowctl verify: reads all of a dataset, and says what is wrong with it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/input/find_config.h"
#include "programs/input/yaml.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/dataset_path.h"
#include "runtime/ctl/verify_dataset.h"
#include "runtime/step/step_plugin.h"

namespace batchflow::ctl {
namespace {

struct VerifyCommandOptions {
  std::string dataset;
  DatasetPath given;
  std::string pipeline;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  output::OutputFlags outputs;
};

const char* word(Finding::What what) {
  return what == Finding::What::corrupt ? "corrupt" : "unreadable";
}

std::string text_of(const VerifyReport& report, const sources::SampleIndex& index,
                    const std::string& served) {
  std::string out = notes_text(index);
  if (!served.empty() && served != fmt::format("{:016x}", index.version()))
    out += fmt::format(
        "note: the service serves version {}, and this is version {:016x}: the data was changed\n",
        output::printable(served), index.version());
  for (const Finding& one : report.findings)
    out += fmt::format("{:<10}  {}: {}\n", word(one.what), output::printable(one.name),
                       output::printable(one.why));
  const std::uint64_t wrong = report.corrupt + report.unreadable;
  if (wrong > report.findings.size())
    out += fmt::format("and {} more\n", wrong - report.findings.size());
  return out + fmt::format(
                   "{} samples, {}; {} with a checksum that fits, {} pictures decoded{}{}; {} "
                   "corrupt, {} unreadable\n",
                   report.samples, bytes_text(static_cast<double>(report.bytes)), report.checksums,
                   report.pictures,
                   report.sounds > 0 ? fmt::format(", {} sounds decoded", report.sounds) : "",
                   report.prepared > 0 ? fmt::format(", {} prepared", report.prepared) : "",
                   report.corrupt, report.unreadable);
}

std::string json_of(const VerifyReport& report, const sources::SampleIndex& index) {
  nlohmann::json all = {{"version", fmt::format("{:016x}", index.version())},
                        {"samples", report.samples},
                        {"bytes", report.bytes},
                        {"checksums", report.checksums},
                        {"pictures", report.pictures},
                        {"sounds", report.sounds},
                        {"prepared", report.prepared},
                        {"corrupt", report.corrupt},
                        {"unreadable", report.unreadable},
                        {"notes", index.notes()},
                        {"findings", nlohmann::json::array()}};
  for (const Finding& one : report.findings)
    all["findings"].push_back(
        {{"key", one.key}, {"what", word(one.what)}, {"name", one.name}, {"why", one.why}});
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int verify(const VerifyCommandOptions& options, const std::string& service) {
  options.outputs.check();
  const DatasetPath dataset = find_dataset(options.dataset, options.given, service);
  const OpenedDataset data = open_dataset(dataset, Opens::everything);
  VerifyOptions how;
  how.threads = options.threads;
  std::unique_ptr<prepare::Pipeline> pipeline;
  if (!options.pipeline.empty())
    pipeline = prepare::compile_pipeline(
        input::read_yaml_file(input::find_config(options.pipeline, "pipelines")), *data.index,
        step::StepSettings{});
  how.pipeline = pipeline.get();
  const VerifyReport report = verify_dataset(data, options.dataset, how);
  if (options.outputs.wanted("json")) {
    options.outputs.write("json", json_of(report, *data.index));
  } else {
    options.outputs.write_text(text_of(report, *data.index, dataset.version));
  }
  const std::vector<std::string> notes = data.index->notes();
  const bool is_whole = std::none_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.ends_with(sources::kLost);
  });
  return report.sound() && is_whole ? 0 : 1;
}

}  // namespace

void add_verify_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* command =
      app.add_subcommand("verify", "Read every sample, and list what is corrupt")->fallthrough();
  command->footer(
      "Exit code 1: something is corrupt or cannot be read.\n"
      "Examples:\n"
      "  batchflowctl verify /data/imagenet/train\n"
      "  batchflowctl verify s3://bucket/shards\n"
      "  batchflowctl verify /data/coco --pipeline detect.yaml\n"
      "  batchflowctl verify imagenet --json=findings.json");
  const auto options = std::make_shared<VerifyCommandOptions>();
  command
      ->add_option("DATASET", options->dataset,
                   "A path, a URL, or the name of a dataset of the service")
      ->required();
  options->given.add_options(*command);
  command->add_option("--pipeline", options->pipeline,
                      "Prepare each sample by it, too (a file, or a name that is shipped): for "
                      "fields such as masks and boxes");
  command
      ->add_option("--threads", options->threads, "Threads that read; default: one for each core")
      ->check(CLI::Range(1, 1024));
  options->outputs.add(*command, "json", "JSON");
  command->callback([&service, &action, options] {
    action = [&service, options] { return verify(*options, service); };
  });
}

}  // namespace batchflow::ctl
