#include "runtime/sources/pack_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "runtime/sources/record.h"

namespace batchflow::sources {
namespace {

class Packing {
 public:
  Packing(const SampleIndex& index, const std::vector<std::uint64_t>& left_out)
      : index_(index), left_out_(left_out) {
    // A packed sample has its label among its fields already.
    labelled_ = index.kind() != RecordKind::packed;
    each([&](SampleId sample) {
      // With a sample without a label there is no such field: no value of it could mean "none".
      if (!index.label(sample)) labelled_ = false;
      longest_ = std::max(longest_, index.extent(sample).bytes);
      ++samples_;
    });
    if (samples_ == 0)
      throw DatasetError(
          fmt::format("{}: all {} samples are corrupt, and nothing was packed; "
                      "`batchflowctl verify` names them",
                      index.name(), index.samples()));
    spec_ = fields();
  }

  void write(int root, const PackOptions& options, const std::function<bool()>& stop,
             const IndexProgress& progress) {
    PackWriter writer(options, spec_, index_.classes());
    std::unique_ptr<DatasetFile> file;
    std::uint32_t open = 0;
    RecordParts parts;
    each([&](SampleId sample) {
      if (writer.records() % 256 == 0) {
        if (stop && stop())
          throw DatasetError(fmt::format("{}: packing was stopped", index_.name()));
        if (progress) progress(writer.records(), samples_, "samples packed");
      }
      const Extent extent = index_.extent(sample);
      if (!file || extent.file != open) {
        file = std::make_unique<DatasetFile>(root, index_.path(extent.file));
        open = extent.file;
      }
      const auto record = file->view(extent.offset, extent.bytes);
      if (record.size() < extent.bytes)
        throw DatasetError(fmt::format("{}: {}: it became shorter; start again", index_.name(),
                                       index_.path(extent.file)));
      if (!parts.find(index_.kind(), record, index_.stored_fields()))
        throw DatasetError(fmt::format("{}: {}: {}; it changes; start again", index_.name(),
                                       index_.sample_name(sample), parts.problem()));
      add(sample, parts, writer);
    });
    writer.close();
  }

 private:
  // Calls `take` for each sample to pack, in ascending order of keys.
  template <class Take>
  void each(Take take) const {
    auto left_out = left_out_.begin();
    for (SampleId sample(0); sample.value < index_.samples(); ++sample.value) {
      if (left_out != left_out_.end() && *left_out == sample.value) {
        ++left_out;
      } else {
        take(sample);
      }
    }
  }

  batch::BatchSpec fields() const {
    batch::BatchSpec spec = index_.stored_fields();
    if (index_.kind() == RecordKind::whole)
      spec.fields = {{"bytes", batch::ElementType::u8, {std::max<Bytes>(longest_, 1)}, true}};
    if (spec.fields.empty())
      throw DatasetError(
          fmt::format("{}: samples as they are stored cannot be packed; `batchflowctl verify` says "
                      "why",
                      index_.name()));
    if (!labelled_) return spec;
    std::erase_if(spec.fields, [&](const batch::Field& field) {
      return is_label_part(index_.kind(), field.name);
    });
    spec.fields.push_back({std::string(kLabelField), batch::ElementType::i64, {}, false});
    return spec;
  }

  void add(SampleId sample, const RecordParts& parts, PackWriter& writer) {
    values_.clear();
    const std::int64_t label = index_.label(sample).value_or(0);
    for (const batch::Field& field : spec_.fields) {
      const Part* part = parts.part(field.name);
      if (labelled_ && field.name == kLabelField) {
        values_.push_back(std::as_bytes(std::span(&label, 1)));
      } else {
        values_.push_back(part != nullptr ? part->bytes : std::span<const std::byte>());
      }
    }
    writer.add(values_);
  }

  const SampleIndex& index_;
  const std::vector<std::uint64_t>& left_out_;
  bool labelled_ = false;
  Bytes longest_ = 0;
  std::uint64_t samples_ = 0;
  batch::BatchSpec spec_;
  std::vector<std::span<const std::byte>> values_;
};

}  // namespace

void pack_dataset(const SampleIndex& index, int root, const PackOptions& options,
                  const std::vector<std::uint64_t>& left_out, const std::function<bool()>& stop,
                  const IndexProgress& progress) {
  Packing(index, left_out).write(root, options, stop, progress);
}

}  // namespace batchflow::sources
