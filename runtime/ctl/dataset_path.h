// The dataset of a command: the user gives a path, or the name under which a service serves it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "programs/output/terminal.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::ctl {

struct DatasetPath {
  std::string path;
  std::string format;  // empty: it is found out
  std::uint64_t tokens = 0;
  std::string column, label;  // of tables; empty: the obvious ones
  std::string version;        // that the service serves; empty: the service was not asked

  // Adds --format, --tokens, --column and --label to a command that takes a dataset.
  void add_options(CLI::App& command);
};

// The dataset at path `text`, if there is one; else the service's dataset of that name. `given` has
// the options of the user.
DatasetPath find_dataset(const std::string& text, DatasetPath given, const std::string& service);

struct OpenedDataset {
  std::shared_ptr<const void> unpacked;  // keeps what had to be unpacked
  std::shared_ptr<const sources::DataRoot> data;
  std::unique_ptr<sources::SampleIndex> index;     // of the dataset as it is now, in memory
  int root() const { return data->folder.get(); }  // that files are below; -1 of a URL
};
// Whether the command takes files of this machine alone, as they are, or also data in stores, and
// what must be unpacked: into a temporary folder ($TMPDIR).
enum class Opens : std::uint8_t { files, everything };
// Shows a bar of progress. Throws ConfigError where there is no dataset, Interrupted.
OpenedDataset open_dataset(const DatasetPath& dataset, Opens opens = Opens::files);
// The options to open it with, but for a bar of progress. Throws ConfigError for a URL, unless it
// opens everything.
sources::SourceOptions source_options(const DatasetPath& dataset, Opens opens = Opens::files);
// Shows progress in the bar.
sources::IndexProgress progress_in(output::ProgressBar& bar);
// The notes on a dataset for people, a line each.
std::string notes_text(const sources::SampleIndex& index);

}  // namespace batchflow::ctl
