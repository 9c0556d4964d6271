// Indexes files that hold a table, where each row is a sample: MDS shards.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/sources/columns.h"
#include "runtime/sources/mds.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/source_format.h"

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
      chosen_ = choose_columns(columns, builder_.options.column, builder_.options.label_column);
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
  void saw(Bytes bytes) { largest_ = std::max(largest_, bytes); }

  // Sets what a sample is.
  void finish() {
    IndexHead& head = builder_.parts.head;
    head.kind = RecordKind::value;
    if (columns_.empty()) return;  // there is no sample
    head.fields.fields = {field_of(columns_[chosen_.sample], largest_)};
    if (const std::string problem = head.fields.problem(); !problem.empty())
      builder_.refuse(path_, problem);
    builder_.content.add(head.fields.fields[0].name);
  }

 private:
  IndexBuilder& builder_;
  std::vector<Column> columns_;
  std::string path_;
  ChosenColumns chosen_;
  Bytes largest_ = 0;
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

}  // namespace

void index_mds_shards(IndexBuilder& builder) {
  ColumnsOfAll columns(builder);
  MdsSamples samples(builder, columns);
  builder.read_files([&](DatasetFile& file, std::string_view path) { samples.read(file, path); });
  columns.finish();
  builder.add_sampled_contents();
}

}  // namespace batchflow::sources
