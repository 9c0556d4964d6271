// Indexes files that hold a table, where each row is a sample: MDS shards, Arrow's files.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/sources/arrow_file.h"
#include "runtime/sources/columns.h"
#include "runtime/sources/mds.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/source_format.h"
#include "runtime/sources/unpack.h"

namespace batchflow::sources {
namespace {

constexpr Bytes kTableMost = Bytes{1} << 30;

bool is_same(const Column& a, const Column& b) {
  return a.name == b.name && a.kind == b.kind && a.element == b.element && a.shape == b.shape;
}

// The columns of all files of a dataset, which must be the same.
class ColumnsOfAll {
 public:
  explicit ColumnsOfAll(IndexBuilder& builder) : builder_(builder) {}

  // Answers which of them are served.
  const ChosenColumns& take(std::span<const Column> columns, std::string_view path) {
    if (columns_.empty()) {
      chosen_ = choose_columns(columns, wanted(columns), builder_.options.label_column);
      if (!chosen_.problem.empty()) builder_.refuse(path, chosen_.problem);
      columns_.assign(columns.begin(), columns.end());
      path_ = path;
      if (!chosen_.left_out.empty())
        builder_.note(fmt::format("columns that are not served: {}", chosen_.left_out));
    }
    if (!std::equal(columns.begin(), columns.end(), columns_.begin(), columns_.end(), is_same))
      builder_.refuse(path, fmt::format("its columns differ from those of {}; keep it in a folder "
                                        "of its own",
                                        path_));
    return chosen_;
  }
  void saw(Bytes bytes) {
    largest_ = std::max(largest_, bytes);
    least_ = std::min(least_, bytes);
  }

  // Sets what a sample is.
  void finish() {
    IndexHead& head = builder_.parts.head;
    head.kind = RecordKind::value;
    if (columns_.empty()) return;  // there is no sample
    head.fields.fields = {field_of(columns_[chosen_.sample], least_, largest_)};
    if (const std::string problem = head.fields.problem(); !problem.empty())
      builder_.refuse(path_, problem);
    builder_.content.add(head.fields.fields[0].name);
  }

 private:
  // Documents may be beside their text and what was made of them, such as masks.
  std::string_view wanted(std::span<const Column> columns) const {
    if (!builder_.options.column.empty() || !builder_.options.documents)
      return builder_.options.column;
    for (const std::string_view name : {"input_ids", "tokens", "token_ids"})
      for (const Column& one : columns)
        if (one.name == name && one.kind == Column::Kind::numbers) return name;
    return {};
  }

  IndexBuilder& builder_;
  std::vector<Column> columns_;
  std::string path_;
  ChosenColumns chosen_;
  Bytes least_ = UINT64_MAX, largest_ = 0;
};

class MdsSamples {
 public:
  MdsSamples(IndexBuilder& builder, ColumnsOfAll& columns) : builder_(builder), columns_(columns) {}

  void read(DatasetFile& file, std::string_view path) {
    const Bytes most = builder_.options.memory_most;
    const std::string problem =
        read_mds(file, shard_, most == 0 ? kTableMost : std::min(most, kTableMost));
    if (!problem.empty()) builder_.refuse(path, problem);
    builder_.hold(shard_.offsets.size() * sizeof(std::uint32_t));
    const ChosenColumns& chosen = columns_.take(shard_.columns, path);
    for (std::uint64_t i = 0; i < shard_.samples(); ++i) add(file, path, chosen, i);
    builder_.release(shard_.offsets.size() * sizeof(std::uint32_t));
  }

 private:
  void add(DatasetFile& file, std::string_view path, const ChosenColumns& chosen,
           std::uint64_t number) {
    const Bytes at = shard_.offsets[number];
    const Bytes bytes = shard_.offsets[number + 1] - at;
    const Bytes head = shard_.head_bytes();
    if (!find_mds_columns(shard_, file.view(at, head), bytes, places_)) {
      builder_.note(
          fmt::format("{}: sample {} is corrupt: its columns are not within it", path, number));
      return builder_.add_sample(at, 0, kNoLabel);
    }
    const MdsPlace sample = places_[chosen.sample];
    std::int64_t label = kNoLabel;
    if (chosen.label) {
      const MdsPlace place = places_[*chosen.label];
      constexpr Bytes kDigitsMost = 64;
      label = mds_number(shard_.columns[*chosen.label],
                         file.view(at + place.offset, std::min(place.bytes, kDigitsMost)))
                  .value_or(kNoLabel);
    }
    columns_.saw(sample.bytes);
    builder_.add_sample(at + sample.offset, sample.bytes, label);
  }

  IndexBuilder& builder_;
  ColumnsOfAll& columns_;
  MdsShard shard_;
  std::vector<MdsPlace> places_;
};

class ArrowRows {
 public:
  ArrowRows(IndexBuilder& builder, ColumnsOfAll& columns) : builder_(builder), columns_(columns) {}

  void read(DatasetFile& file, std::string_view path) {
    std::string problem = arrow_.open(file);
    if (!problem.empty()) builder_.refuse(path, problem);
    const ChosenColumns& chosen = columns_.take(arrow_.columns(), path);
    const std::uint64_t before = builder_.samples();
    if (before == 0 && chosen.label)
      builder_.parts.head.classes = arrow_.class_names(arrow_.columns()[*chosen.label].name);
    while (const auto batch = arrow_.next(file, problem)) add(file, path, chosen, *batch);
    if (problem == ArrowFile::kCompressed)
      throw NeedsUnpacking{NeedsUnpacking::By::pyarrow_arrow, "arrow", std::move(builder_.parts)};
    if (!problem.empty())
      builder_.note(fmt::format("{}: {}; the {} rows before it are served; {}", path, problem,
                                builder_.samples() - before, kLost));
  }

 private:
  void add(DatasetFile& file, std::string_view path, const ChosenColumns& chosen,
           const ArrowFile::Batch& batch) {
    const Bytes held = batch.rows * 4 * sizeof(std::uint64_t);
    builder_.hold(held);
    std::string problem = arrow_.values(file, batch, chosen.sample, values_);
    if (problem.empty() && chosen.label)
      problem = arrow_.values(file, batch, *chosen.label, labels_);
    if (!problem.empty()) builder_.refuse(path, problem);
    std::uint64_t begin = values_.first;
    for (std::uint64_t row = 0; row < batch.rows; ++row) {
      const std::uint64_t end = values_.ends.empty() ? begin + values_.each : values_.ends[row];
      const bool is_there = values_.is_there(row);
      const Bytes bytes = is_there ? end - begin : 0;
      columns_.saw(bytes);
      builder_.add_sample(values_.begin + begin, bytes, label(chosen, row));
      begin = end;
    }
    builder_.release(held);
  }

  std::int64_t label(const ChosenColumns& chosen, std::uint64_t row) const {
    if (!chosen.label || !labels_.is_there(row)) return kNoLabel;
    return whole_number_in(arrow_.columns()[*chosen.label],
                           std::span(labels_.bytes).subspan(row * labels_.each, labels_.each))
        .value_or(kNoLabel);
  }

  IndexBuilder& builder_;
  ColumnsOfAll& columns_;
  ArrowFile arrow_;
  ArrowFile::Values values_, labels_;
};

// The split that a file of Hugging Face's cache has by its name: `imdb-train.arrow`, or
// `imdb-test-00000-of-00002.arrow`. Empty: none.
std::string_view split_of(std::string_view path) {
  path = path.substr(path.rfind('/') + 1);
  path = path.substr(0, path.rfind('.'));
  constexpr std::string_view kShard = "-00000-of-00000";
  if (path.size() > kShard.size()) {
    const std::string_view end = path.substr(path.size() - kShard.size());
    bool is_shard = true;
    for (std::size_t i = 0; i < end.size(); ++i)
      is_shard =
          is_shard && (kShard[i] == '0' ? end[i] >= '0' && end[i] <= '9' : end[i] == kShard[i]);
    if (is_shard) path.remove_suffix(kShard.size());
  }
  const std::size_t dash = path.rfind('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view name = path.substr(dash + 1);
  for (const std::string_view split : {"train", "test", "validation", "val", "dev"})
    if (name == split) return name;
  return {};
}

// A job that trains on a folder of the cache must not get its test data.
void refuse_mixed_splits(IndexBuilder& builder) {
  const auto folder_of = [&](std::uint32_t file) {
    const std::string_view path = builder.path(file);
    return path.substr(0, path.rfind('/') + 1);
  };
  for (std::uint32_t file = 1; file < builder.files(); ++file) {
    const std::string_view one = split_of(builder.path(file - 1)),
                           other = split_of(builder.path(file));
    if (!one.empty() && !other.empty() && one != other && folder_of(file - 1) == folder_of(file))
      builder.refuse(builder.path(file),
                     fmt::format("it is of split {}, and {} beside it of {}; write the path of one "
                                 "file, or put the files of one split into a folder (cp -l)",
                                 other, builder.path(file - 1), one));
  }
}

}  // namespace

void index_arrow_files(IndexBuilder& builder) {
  refuse_mixed_splits(builder);
  ColumnsOfAll columns(builder);
  ArrowRows rows(builder, columns);
  builder.read_files([&](DatasetFile& file, std::string_view path) { rows.read(file, path); });
  columns.finish();
  builder.add_sampled_contents();
}

void index_parquet_files(IndexBuilder& builder) {
  throw NeedsUnpacking{NeedsUnpacking::By::pyarrow_parquet, "arrow", std::move(builder.parts)};
}

void index_mds_shards(IndexBuilder& builder) {
  for (std::uint32_t file = 0; file < builder.files(); ++file)
    if (is_zipped_shard(builder.path(file)))
      throw NeedsUnpacking{NeedsUnpacking::By::here, "mds", std::move(builder.parts)};
  ColumnsOfAll columns(builder);
  MdsSamples samples(builder, columns);
  builder.read_files([&](DatasetFile& file, std::string_view path) { samples.read(file, path); });
  columns.finish();
  builder.add_sampled_contents();
}

}  // namespace batchflow::sources
