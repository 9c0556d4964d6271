// batchflowctl pack: writes a dataset again, in the packed format (docs/packed.md).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/dataset_path.h"
#include "runtime/ctl/verify_dataset.h"
#include "runtime/sources/leftovers.h"
#include "runtime/sources/pack_dataset.h"
#include "runtime/sources/stored_index.h"
#include "runtime/sources/write_sequences.h"

namespace batchflow::ctl {
namespace {

namespace fs = std::filesystem;

struct PackCommandOptions {
  std::string source;
  std::string destination;
  std::string shard_bytes = "1gib";
  std::string name;
  DatasetPath dataset;
  sources::SequenceRule sequences;
  std::int64_t end_token = -1;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  output::OutputFlags outputs;
};

// A folder that gets its name when all files in it are whole. Until then it cannot be taken for a
// dataset. If it never is whole, it is removed.
class NewFolder {
 public:
  explicit NewFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    if (fs::exists(path_, error) && !(fs::is_directory(path_, error) && fs::is_empty(path_, error)))
      throw ConfigError(fmt::format("{}: it is there, and not an empty folder; name another path",
                                    path_.string()));
    const std::string prefix = fmt::format(".{}.packing-", path_.filename().string());
    sources::remove_leftovers(path_.parent_path(), prefix);
    being_made_ = path_.parent_path() / (prefix + std::to_string(getpid()));
    if (!fs::create_directories(being_made_, error) || error)
      throw ConfigError(fmt::format("{}: cannot be made: {}; name another path",
                                    being_made_.string(), error.message()));
  }
  ~NewFolder() {
    std::error_code error;
    if (!being_made_.empty()) fs::remove_all(being_made_, error);
  }
  NewFolder(const NewFolder&) = delete;

  const fs::path& being_made() const { return being_made_; }
  void complete() {
    std::error_code error;
    fs::rename(being_made_, path_, error);
    if (error)
      throw ConfigError(fmt::format("{}: {}; name another path", path_.string(), error.message()));
    being_made_.clear();
  }

 private:
  fs::path path_;
  fs::path being_made_;
};

fs::path folder_named(const std::string& text) {
  fs::path path = fs::absolute(text).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// The corrupt samples, as `verify` finds them. If a sample cannot be read now, it may be sound, so
// nothing is packed.
std::vector<Finding> look_for_damage(const OpenedDataset& data, const PackCommandOptions& options) {
  VerifyOptions how;
  how.threads = options.threads;
  how.findings_most = SIZE_MAX;
  VerifyReport report = verify_dataset(data, options.source, how);
  for (const Finding& one : report.findings) {
    if (one.what == Finding::What::unreadable)
      throw sources::DatasetError(
          fmt::format("{}: {} samples cannot be read ({}: {}); nothing was packed", options.source,
                      report.unreadable, one.name, one.why));
  }
  return std::move(report.findings);
}

void pack_into(const fs::path& folder, const OpenedDataset& data, const PackCommandOptions& options,
               const std::string& name, Bytes shard_bytes, const std::vector<Finding>& corrupt) {
  std::vector<std::uint64_t> left_out;
  for (const Finding& one : corrupt) left_out.push_back(one.key);
  output::ProgressBar bar("packing " + options.source);
  try {
    sources::pack_dataset(*data.index, data.root(), {folder, name, shard_bytes}, left_out,
                          output::was_interrupted,
                          [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
                            bar.show(static_cast<double>(done) / static_cast<double>(total),
                                     fmt::format("{} {}", done, what));
                          });
  } catch (const sources::DatasetError&) {
    output::check_interrupted();
    throw;
  }
}

// Documents become sequences of tokens.
int pack_sequences(const PackCommandOptions& options, const fs::path& destination,
                   const std::string& name, Bytes shard_bytes) {
  const std::uint64_t length = options.dataset.tokens;
  if (const std::string problem = options.sequences.problem(length); !problem.empty())
    throw ConfigError(fmt::format("--packing: {}", problem));
  sources::SourceOptions source = source_options(options.dataset);
  NewFolder folder(destination);
  sources::SequenceCounts counts;
  std::vector<std::string> notes;
  try {
    output::ProgressBar bar("packing " + options.source);
    source.progress = progress_in(bar);
    source.opened = sources::open_data(options.source);
    const auto documents = sources::open_documents(source);
    notes = documents->notes();
    counts = sources::write_sequences(*documents, *source.opened, options.sequences, length,
                                      {folder.being_made(), name, shard_bytes, "bfseq"},
                                      source.stop, source.progress);
  } catch (const sources::DatasetError& error) {
    output::check_interrupted();
    throw ConfigError(error.what());
  }
  folder.complete();
  const double filled = static_cast<double>(counts.tokens - counts.left_out) /
                        (static_cast<double>(counts.sequences) * static_cast<double>(length) *
                         std::max<std::uint32_t>(1, options.sequences.rows));
  std::string text;
  for (const std::string& note : notes) text += fmt::format("note: {}\n", output::printable(note));
  text += fmt::format(
      "{} documents with {} tokens packed into {} sequences of {} in {}, {:.2f} % filled\n"
      "{} empty documents skipped, {} longer than a sequence, {} tokens at the end left out\n",
      counts.documents, counts.tokens, counts.sequences, length,
      output::printable(destination.string()), 100 * filled, counts.empty, counts.cut,
      counts.left_out);
  if (counts.unused > 0)
    text += fmt::format("{} documents not used, since a source of the mixture had no more\n",
                        counts.unused);
  if (options.outputs.wanted("json")) {
    const nlohmann::json all = {{"path", destination.string()},
                                {"documents", counts.documents},
                                {"tokens", counts.tokens},
                                {"sequences", counts.sequences},
                                {"filled", filled},
                                {"empty", counts.empty},
                                {"cut", counts.cut},
                                {"left_out", counts.left_out},
                                {"unused", counts.unused},
                                {"notes", notes}};
    options.outputs.write("json",
                          all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    options.outputs.write_text(text);
  }
  return 0;
}

int pack(PackCommandOptions& options) {
  options.outputs.check();
  const std::optional<Bytes> shard_bytes = parse_bytes(options.shard_bytes);
  if (!shard_bytes || *shard_bytes == 0)
    throw ConfigError(
        fmt::format("--shards-of {}: it is not a size; write 1gib or 500mb", options.shard_bytes));
  options.dataset.path = options.source;
  const fs::path destination = folder_named(options.destination);
  const std::string name = options.name.empty() ? destination.filename().string() : options.name;
  if (name.empty() || name.find('/') != std::string::npos)
    throw ConfigError(fmt::format("--name {}: it is not a file name; write imagenet", name));
  if (options.end_token >= 0)
    options.sequences.end_token = static_cast<std::uint32_t>(options.end_token);
  if (!options.sequences.packing.empty())
    return pack_sequences(options, destination, name, *shard_bytes);
  if (options.sequences != sources::SequenceRule())
    throw ConfigError(
        "--packing-seed, --rows, --mix and --end-token say how documents become sequences; write "
        "also --packing concat, whole or buckets");
  NewFolder folder(destination);
  const OpenedDataset data = open_dataset(options.dataset);
  const std::vector<Finding> corrupt = look_for_damage(data, options);
  pack_into(folder.being_made(), data, options, name, *shard_bytes, corrupt);
  output::check_interrupted();
  folder.complete();
  const std::uint64_t samples = data.index->samples() - corrupt.size();
  std::string text = notes_text(*data.index);
  nlohmann::json problems = nlohmann::json::array();
  for (const Finding& one : corrupt) {
    problems.push_back(fmt::format("{}: {}", one.name, one.why));
    text += fmt::format("corrupt, left out: {}: {}\n", output::printable(one.name),
                        output::printable(one.why));
  }
  text += fmt::format("{} samples packed into {}, {} corrupt ones left out\n", samples,
                      output::printable(destination.string()), corrupt.size());
  if (options.outputs.wanted("json")) {
    const nlohmann::json all = {{"path", destination.string()},
                                {"samples", samples},
                                {"corrupt", corrupt.size()},
                                {"notes", data.index->notes()},
                                {"problems", problems}};
    options.outputs.write("json",
                          all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    options.outputs.write_text(text);
  }
  return 0;
}

}  // namespace

void add_pack_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("pack", "Write a dataset again, into few large files with checksums")
          ->fallthrough();
  command->footer(
      "DEST gets its name when it is whole; an interrupted packing leaves nothing. Samples that\n"
      "`batchflowctl verify` calls corrupt are left out and named.\n"
      "Example:\n"
      "  batchflowctl pack /data/imagenet/train /data/imagenet-packed --shards-of 1gib\n"
      "  batchflowctl pack /data/corpus /data/corpus-2048 --tokens 2048 --packing whole");
  const auto options = std::make_shared<PackCommandOptions>();
  command->add_option("SOURCE", options->source, "A dataset: a folder, or one file")->required();
  command->add_option("DEST", options->destination, "A new or empty folder")->required();
  command->add_option("--shards-of", options->shard_bytes, "The size of a file; default: 1gib");
  command->add_option("--name", options->name,
                      "Files are called NAME-00000.bfpack; default: DEST's name");
  options->dataset.add_options(*command);
  command->add_option("--packing", options->sequences.packing,
                      "Pack documents into sequences of --tokens: concat (end to end), whole, or "
                      "buckets (documents of like length)");
  command->add_option("--packing-seed", options->sequences.seed,
                      "The seed of the order of the documents");
  command->add_option(
      "--rows", options->sequences.rows,
      "With whole: so many sequences are one sample, and all samples cost the same");
  command->add_option("--mix", options->sequences.mixture,
                      "Documents of folders, each at its share of the tokens: web:0.7+code:0.3");
  command->add_option("--end-token", options->end_token, "A token that follows each document")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{INT32_MAX}));
  command
      ->add_option("--threads", options->threads,
                   "Threads that look for damage; default: one for each core")
      ->check(CLI::Range(1, 1024));
  options->outputs.add(*command, "json", "JSON");
  command->callback([&action, options] { action = [options] { return pack(*options); }; });
}

}  // namespace batchflow::ctl
