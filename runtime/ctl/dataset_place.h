// Where the data of a command lies, and how it is opened: given as a path, or by the name under
// which a service serves it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/sources/dataset_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::ctl {

struct DatasetPlace {
  std::string path;
  std::string format;  // empty: found out
  std::uint64_t tokens = 0;
  std::string version;  // that the service serves; empty: it was not asked

  // Options of its own for a command that takes a dataset.
  void add_options(CLI::App& command);
};

// What is there at `text`; else what the service calls so, with its format.
DatasetPlace find_dataset(const std::string& text, DatasetPlace said, const std::string& service);

struct OpenedDataset {
  Descriptor root;
  std::unique_ptr<SampleIndex> index;  // of what is there now, in memory
};
// Shows a bar of progress. Throws ConfigError for what is no dataset, Interrupted.
OpenedDataset open_dataset(const DatasetPlace& place);
// What people should know of it, a line each.
std::string notes_text(const SampleIndex& index);

}  // namespace batchflow::ctl
