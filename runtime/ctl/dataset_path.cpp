#include "runtime/ctl/dataset_path.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/output/terminal.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {

void DatasetPath::add_options(CLI::App& command) {
  command.add_option("--format", format, "The format of the data; default: it is found out");
  command.add_option(
      "--tokens", tokens,
      "Tokens of a sample, for files of tokens; or of a sequence, for documents that are packed");
  command.add_option("--column", column, "Of tables: the column that is the sample");
  command.add_option("--label", label, "Of tables: the column that is its label");
}

DatasetPath find_dataset(const std::string& text, DatasetPath given, const std::string& service) {
  std::error_code error;
  given.path = text;
  if (text.find('/') != std::string::npos || std::filesystem::exists(text, error)) return given;
  nlohmann::json status;
  try {
    status = ServiceClient(service).ask("status");
  } catch (const Failure& failure) {
    throw Failure(
        fmt::format("{}: there is no such file or folder here, and {}", text, failure.what()));
  }
  std::string known;
  for (const nlohmann::json& served : status.value("datasets", nlohmann::json::array())) {
    const std::string name = served.value("name", "");
    known += (known.empty() ? "" : ", ") + name;
    if (name != text) continue;
    given.path = served.value("path", "");
    if (given.format.empty()) given.format = served.value("format", "");
    // Of sequences the documents are looked at.
    if (!served.value("packing", "").empty()) return given;
    if (given.tokens == 0) given.tokens = served.value("tokens", std::uint64_t{0});
    if (given.column.empty()) given.column = served.value("column", "");
    if (given.label.empty()) given.label = served.value("label", "");
    given.version = served.value("version", "");
    return given;
  }
  throw ConfigError(fmt::format("{}: is neither a path nor a dataset of the service; it serves {}",
                                text, known.empty() ? "none" : known));
}

namespace {

// Goes with the last that uses it.
std::shared_ptr<const std::filesystem::path> temporary_folder() {
  std::error_code error;
  std::string name = std::filesystem::temp_directory_path(error) / "batchflow-unpacked-XXXXXX";
  if (error || mkdtemp(name.data()) == nullptr)
    throw ConfigError(fmt::format("{}: no folder can be made to unpack to; set TMPDIR", name));
  return {new std::filesystem::path(name), [](const std::filesystem::path* folder) {
            std::error_code ignored;
            std::filesystem::remove_all(*folder, ignored);
            delete folder;
          }};
}

}  // namespace

sources::SourceOptions source_options(const DatasetPath& dataset, Opens opens) {
  if (opens == Opens::files && objects::is_url(dataset.path))
    throw ConfigError(fmt::format(
        "{}: this command reads files of this machine; copy the data here", dataset.path));
  sources::SourceOptions options;
  options.name = std::filesystem::path(dataset.path).filename().string();
  if (options.name.empty()) options.name = dataset.path;
  options.root = dataset.path;
  options.format = dataset.format;
  options.tokens_per_sample = dataset.tokens;
  options.column = dataset.column;
  options.label_column = dataset.label;
  options.stop = output::was_interrupted;
  return options;
}

sources::IndexProgress progress_in(output::ProgressBar& bar) {
  return [&bar](std::uint64_t done, std::uint64_t total, std::string_view what) {
    bar.show(total == 0 ? -1 : static_cast<double>(done) / static_cast<double>(total),
             fmt::format("{} {}", done, what));
  };
}

OpenedDataset open_dataset(const DatasetPath& dataset, Opens opens) {
  sources::SourceOptions options = source_options(dataset, opens);
  output::ProgressBar bar("indexing " + dataset.path);
  options.progress = progress_in(bar);
  try {
    OpenedDataset opened;
    opened.data = options.opened = sources::open_data(dataset.path);
    if (opens == Opens::everything) {
      const auto folder = temporary_folder();
      options.unpack_folder = *folder;
      opened.unpacked = folder;
    }
    opened.index = sources::open_index(options);
    if (auto unpacked = opened.index->unpacked()) opened.data = std::move(unpacked);
    return opened;
  } catch (const sources::DatasetError& error) {
    output::check_interrupted();
    throw ConfigError(error.what());
  }
}

std::string notes_text(const sources::SampleIndex& index) {
  std::string text;
  for (const std::string& note : index.notes())
    text += fmt::format("note: {}\n", output::printable(note));
  return text;
}

}  // namespace batchflow::ctl
