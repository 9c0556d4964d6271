#include "runtime/ctl/dataset_place.h"

#include <filesystem>
#include <utility>

#include "configs/reader/terminal.h"
#include "core/config_error.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/ctl/asking.h"

namespace batchflow::ctl {

void DatasetPlace::add_options(CLI::App& command) {
  command.add_option("--format", format, "Of the data; default: found out");
  command.add_option("--tokens", tokens, "Of a sample, in files of tokens");
}

DatasetPlace find_dataset(const std::string& text, DatasetPlace said, const std::string& service) {
  std::error_code error;
  said.path = text;
  if (text.find('/') != std::string::npos || std::filesystem::exists(text, error)) return said;
  nlohmann::json status;
  try {
    status = Asking(service).ask("status");
  } catch (const Failure& failure) {
    throw Failure(
        fmt::format("{}: there is no such file or folder here, and {}", text, failure.what()));
  }
  std::string known;
  for (const nlohmann::json& one : status.value("datasets", nlohmann::json::array())) {
    const std::string name = one.value("name", "");
    known += (known.empty() ? "" : ", ") + name;
    if (name != text) continue;
    said.path = one.value("path", "");
    if (said.format.empty()) said.format = one.value("format", "");
    if (said.tokens == 0) said.tokens = one.value("tokens", std::uint64_t{0});
    said.version = one.value("version", "");
    return said;
  }
  throw ConfigError(fmt::format("{}: neither a path nor a dataset of the service, which serves {}",
                                text, known.empty() ? "none" : known));
}

OpenedDataset open_dataset(const DatasetPlace& place) {
  ProgressBar bar("indexing " + place.path);
  SourceOptions options;
  options.name = std::filesystem::path(place.path).filename().string();
  if (options.name.empty()) options.name = place.path;
  options.root = place.path;
  options.format = place.format;
  options.tokens_per_sample = place.tokens;
  options.stop = was_interrupted;
  options.progress = [&](std::uint64_t done, std::uint64_t of, std::string_view what) {
    bar.show(of == 0 ? -1 : static_cast<double>(done) / static_cast<double>(of),
             fmt::format("{} {}", done, what));
  };
  try {
    std::string only;
    OpenedDataset opened{open_root(place.path, only), open_index(options)};
    return opened;
  } catch (const DatasetError& error) {
    check_interrupted();
    throw ConfigError(error.what());
  }
}

std::string notes_text(const SampleIndex& index) {
  std::string text;
  for (const std::string& note : index.notes()) text += fmt::format("note: {}\n", printable(note));
  return text;
}

}  // namespace batchflow::ctl
