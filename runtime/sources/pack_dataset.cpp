#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "runtime/sources/pack.h"
#include "runtime/sources/record.h"

namespace batchflow {
namespace {

// Stands for the label wherever the dataset has it: in the folder's name, a `.cls`, a feature.
constexpr std::string_view kLabel = "label";

bool is_label_part(RecordKind kind, std::string_view name) {
  return name == kLabel || (kind == RecordKind::tar && name == "cls") ||
         (kind == RecordKind::example && name == "image/class/label");
}

// One after the other, in ascending order of keys.
class Samples {
 public:
  Samples(const SampleIndex& index, int root, const std::function<bool()>& stop,
          const IndexProgress& progress)
      : index_(index), root_(root), stop_(stop), progress_(progress) {}

  // Calls take(sample, parts) for each sound sample, and problem(text) for each corrupt one.
  template <class Take, class Problem>
  void each(std::string_view what, Take take, Problem problem) {
    for (SampleId sample(0); sample.value < index_.samples(); ++sample.value) {
      if (sample.value % 256 == 0) report(sample.value, what);
      const Extent extent = index_.extent(sample);
      if (!file_ || extent.file != open_) {
        file_ = std::make_unique<DatasetFile>(root_, index_.path(extent.file));
        open_ = extent.file;
      }
      const auto record = file_->view(extent.offset, extent.bytes);
      if (record.size() < extent.bytes)
        throw DatasetError(fmt::format("{}: {}: it became shorter; start again", index_.name(),
                                       index_.path(extent.file)));
      if (parts_.find(index_.kind(), record, index_.stored_fields())) {
        take(sample, parts_);
      } else {
        problem(fmt::format("{}: {}", index_.sample_name(sample), parts_.problem()));
      }
    }
  }

 private:
  void report(std::uint64_t done, std::string_view what) {
    if (stop_ && stop_()) throw DatasetError(fmt::format("{}: packing was stopped", index_.name()));
    if (progress_) progress_(done, index_.samples(), what);
  }

  const SampleIndex& index_;
  int root_;
  const std::function<bool()>& stop_;
  const IndexProgress& progress_;
  std::unique_ptr<DatasetFile> file_;
  std::uint32_t open_ = 0;
  RecordParts parts_;
};

// What one name holds over all samples.
struct Seen {
  ElementType type = ElementType::u8;
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  std::uint64_t samples = 0;

  Field field(const std::string& name, std::uint64_t all) const {
    const bool same = samples == all && least == most && least > 0;
    if (!same) return {name, type, {std::max<std::uint64_t>(most, 1)}, true};
    return {name, type, most == 1 ? std::vector<std::uint64_t>{} : std::vector{most}, false};
  }
};

BatchSpec learn_fields(const SampleIndex& index, Samples& samples, bool labelled) {
  std::map<std::string, Seen, std::less<>> names;
  std::uint64_t all = 0;
  samples.each(
      "samples looked at",
      [&](SampleId, const RecordParts& parts) {
        ++all;
        for (const Part& part : parts.parts()) {
          // Of several of one name, the first is the value.
          if (parts.part(part.name) != &part) continue;
          if (labelled && is_label_part(index.kind(), part.name)) continue;
          auto found = names.find(part.name);
          if (found == names.end()) {
            if (names.size() == BatchSpec::kFieldsMost)
              throw DatasetError(fmt::format("{}: more than {} names of fields; pack a split of it",
                                             index.name(), BatchSpec::kFieldsMost));
            found = names.emplace(part.name, Seen{part.type}).first;
          }
          Seen& seen = found->second;
          if (seen.type != part.type)
            throw DatasetError(fmt::format("{}: feature '{}' is {} here and {} there", index.name(),
                                           part.name, element_name(seen.type),
                                           element_name(part.type)));
          seen.least = std::min(seen.least, part.elements());
          seen.most = std::max(seen.most, part.elements());
          ++seen.samples;
        }
      },
      [](const std::string&) {});
  BatchSpec spec;
  for (const auto& [name, seen] : names) spec.fields.push_back(seen.field(name, all));
  return spec;
}

// All samples have a label or the field is left out: none of its values could mean "none".
bool all_labelled(const SampleIndex& index) {
  for (SampleId sample(0); sample.value < index.samples(); ++sample.value)
    if (!index.label(sample)) return false;
  return true;
}

BatchSpec fields_of(const SampleIndex& index, Samples& samples, bool labelled) {
  BatchSpec spec = index.stored_fields();
  if (index.kind() == RecordKind::whole) {
    Bytes most = 1;
    for (SampleId sample(0); sample.value < index.samples(); ++sample.value)
      most = std::max(most, index.extent(sample).bytes);
    spec.fields.push_back({"bytes", ElementType::u8, {most}, true});
  } else if (spec.fields.empty()) {
    spec = learn_fields(index, samples, labelled);
  }
  if (labelled) spec.fields.push_back({std::string(kLabel), ElementType::i64, {}, false});
  return spec;
}

}  // namespace

PackReport pack_dataset(const SampleIndex& index, int root, const PackOptions& options,
                        const std::function<bool()>& stop, const IndexProgress& progress) {
  constexpr std::size_t kProblemsMost = 20;
  Samples samples(index, root, stop, progress);
  // What is packed has its label among its fields.
  const bool labelled = index.kind() != RecordKind::packed && all_labelled(index);
  const BatchSpec spec = fields_of(index, samples, labelled);
  PackWriter writer(options, spec, index.classes());
  PackReport report;
  std::vector<std::span<const std::byte>> values;
  samples.each(
      "samples packed",
      [&](SampleId sample, const RecordParts& parts) {
        values.clear();
        const std::int64_t label = index.label(sample).value_or(0);
        for (const Field& field : spec.fields) {
          const Part* part = parts.part(field.name);
          if (labelled && field.name == kLabel) {
            values.push_back(std::as_bytes(std::span(&label, 1)));
          } else {
            values.push_back(part != nullptr ? part->bytes : std::span<const std::byte>());
          }
        }
        writer.add(values);
        ++report.samples;
      },
      [&](std::string problem) {
        ++report.corrupt;
        if (report.problems.size() < kProblemsMost) report.problems.push_back(std::move(problem));
      });
  if (report.samples == 0)
    throw DatasetError(fmt::format("{}: all {} samples are corrupt ({}, ...); nothing was packed",
                                   index.name(), report.corrupt, report.problems.front()));
  writer.close();
  return report;
}

}  // namespace batchflow
