// The formats in which job traces are read. To add one: write formats/NAME.cpp, and name it in the
// table of formats/formats.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/byte_source.h"
#include "traces/formats/csv_format.h"
#include "traces/job_trace_builder.h"
#include "traces/line_reader.h"

namespace batchflow::traces {

// The beginning of a file, by which its format is recognised.
struct Beginning {
  std::string_view text;
  std::string_view line;  // the first that is neither empty nor a comment (`#` or `;`)

  bool has_columns(char delimiter, std::span<const std::string_view> names) const;
};

struct JobInput {
  std::string path;  // as given; `-` is standard input
  ByteSource& source;
  std::vector<char>& block;
  std::size_t filled;  // of the block, with the beginning of the file
  const JobReadOptions& options;

  LineReader lines() const { return {source, block, filled, options.progress}; }
};

struct JobFormat {
  std::string_view name;
  std::string_view help;
  bool checked;  // on real files; else written from the publisher's description alone
  // Either the columns, where a header names them, or the function that reads.
  const CsvFormat* csv = nullptr;
  bool (*is)(const Beginning&) = nullptr;
  void (*read)(const JobInput&, JobTraceBuilder&) = nullptr;
};

// In the order in which they are tried.
std::span<const JobFormat* const> job_formats();

// Every format, each defined in its file; formats.cpp lists them.
extern const JobFormat kAcme, kBatchflowCsv, kHelios, kIntervals, kItp, kOpenb, kPai2020,
    kPhillyCsv, kPhillyJson, kSacct, kSupercloud, kSwf, kSwfGpus;

}  // namespace batchflow::traces
