#include "core/engine/catalogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/byte_codec.h"
#include "core/base/check.h"
#include "core/order/permutation.h"

namespace batchflow::engine {
namespace {

constexpr std::uint8_t kFormat = 1;
constexpr std::uint8_t kHasBytes = 1;
constexpr std::uint8_t kHasDimensions = 2;
constexpr std::uint8_t kHasLabels = 4;
constexpr std::uint8_t kHasBundles = 8;

// The sum of all sizes, or empty when it does not fit into 64 bits.
std::optional<Bytes> total_of(const Catalogue::Parts& parts) {
  Bytes total = 0;
  if (parts.bytes.empty()) {
    if (__builtin_mul_overflow(parts.samples, parts.uniform_bytes, &total)) return std::nullopt;
    return total;
  }
  for (const Bytes bytes : parts.bytes) {
    if (__builtin_add_overflow(total, bytes, &total)) return std::nullopt;
  }
  return total;
}

std::string parts_problem(const Catalogue::Parts& parts) {
  const auto has_one_a_sample = [&](const auto& list) {
    return list.empty() || list.size() == parts.samples;
  };
  if (parts.samples == 0 || parts.samples > order::kSamplesMost) {
    return fmt::format("{} samples; a dataset has 1 to {}", parts.samples, order::kSamplesMost);
  }
  if (parts.name.size() > Catalogue::kNameMost) return "the name is too long";
  if (!has_one_a_sample(parts.bytes) || !has_one_a_sample(parts.dimensions) ||
      !has_one_a_sample(parts.labels)) {
    return fmt::format("a list does not have one entry for each of {} samples", parts.samples);
  }
  if (parts.bundle_shift > Catalogue::kBundleShiftMost) return "its bundles are too long";
  const std::uint64_t bundles = ((parts.samples - 1) >> parts.bundle_shift) + 1;
  if (parts.bundle_bytes.empty()
          ? parts.bundle_shift > 0 && !parts.bytes.empty()
          : parts.bundle_shift == 0 || parts.bundle_bytes.size() != bundles) {
    return fmt::format("a list does not have one entry for each of {} bundles", bundles);
  }
  const auto wrong = std::find_if(parts.labels.begin(), parts.labels.end(),
                                  [&](std::uint32_t label) { return label >= parts.classes; });
  if (wrong == parts.labels.end()) return "";
  return fmt::format("sample {} is of class {}, there are {}", wrong - parts.labels.begin(), *wrong,
                     parts.classes);
}

}  // namespace

std::optional<Catalogue> Catalogue::from(Parts parts, std::string& problem) {
  problem = parts_problem(parts);
  const std::optional<Bytes> total = total_of(parts);
  if (problem.empty() && !total) problem = "the sizes add up to more than 2^64 bytes";
  if (!problem.empty()) return std::nullopt;
  Catalogue catalogue;
  catalogue.total_bytes_ = *total;
  catalogue.largest_bytes_ = parts.bytes.empty()
                                 ? parts.uniform_bytes
                                 : *std::max_element(parts.bytes.begin(), parts.bytes.end());
  if (std::all_of(parts.bytes.begin(), parts.bytes.end(),
                  [](Bytes bytes) { return bytes <= UINT32_MAX; })) {
    catalogue.small_bytes_.assign(parts.bytes.begin(), parts.bytes.end());
    parts.bytes = {};
  }
  catalogue.parts_ = std::move(parts);
  return catalogue;
}

Catalogue Catalogue::uniform(std::string name, Digest version, std::uint64_t samples, Bytes bytes) {
  std::string problem;
  Parts parts;
  parts.name = std::move(name);
  parts.version = version;
  parts.samples = samples;
  parts.uniform_bytes = bytes;
  auto catalogue = from(std::move(parts), problem);
  BF_CHECK_MSG(catalogue.has_value(), problem.c_str());
  return std::move(*catalogue);
}

Bytes Catalogue::bytes(SampleId sample) const {
  BF_CHECK(sample.value < parts_.samples);
  if (!small_bytes_.empty()) return small_bytes_[sample.value];
  return parts_.bytes.empty() ? parts_.uniform_bytes : parts_.bytes[sample.value];
}

Bytes Catalogue::bundle_bytes(std::uint64_t bundle) const {
  BF_CHECK(bundle < bundles());
  if (!parts_.bundle_bytes.empty()) return parts_.bundle_bytes[bundle];
  const std::uint64_t first = bundle << parts_.bundle_shift;
  return parts_.uniform_bytes *
         std::min<std::uint64_t>(parts_.samples - first, 1ull << parts_.bundle_shift);
}

Slots Catalogue::slots(SampleId sample, Bytes slot_bytes) const {
  BF_CHECK(slot_bytes > 0);
  const Bytes size = bytes(sample);
  return std::max<Slots>(1, size / slot_bytes + (size % slot_bytes != 0 ? 1 : 0));
}

std::optional<Dimensions> Catalogue::dimensions(SampleId sample) const {
  BF_CHECK(sample.value < parts_.samples);
  if (parts_.dimensions.empty()) return std::nullopt;
  return parts_.dimensions[sample.value];
}

std::optional<std::uint32_t> Catalogue::label(SampleId sample) const {
  BF_CHECK(sample.value < parts_.samples);
  if (parts_.labels.empty()) return std::nullopt;
  return parts_.labels[sample.value];
}

void encode(const Catalogue& catalogue, std::vector<std::byte>& out) {
  const bool has_dimensions = catalogue.dimensions(SampleId(0)).has_value();
  const bool has_labels = catalogue.label(SampleId(0)).has_value();
  ByteWriter writer(out);
  writer.u8(kFormat);
  writer.u8(static_cast<std::uint8_t>(
      (catalogue.is_uniform() ? 0 : kHasBytes) | (has_dimensions ? kHasDimensions : 0) |
      (has_labels ? kHasLabels : 0) | (catalogue.has_bundles() ? kHasBundles : 0)));
  writer.count(catalogue.name().size());
  for (const char c : catalogue.name()) writer.u8(static_cast<std::uint8_t>(c));
  writer.u64(catalogue.version());
  writer.count(catalogue.samples());
  writer.count(catalogue.classes());
  if (catalogue.is_uniform()) writer.count(catalogue.bytes(SampleId(0)));
  if (catalogue.has_bundles()) {
    writer.u8(catalogue.bundle_shift());
    writer.count(catalogue.listed_bundles().size());
    for (const Bytes bytes : catalogue.listed_bundles()) writer.count(bytes);
  }
  if (catalogue.is_uniform() && !has_dimensions && !has_labels) return;
  for (SampleId sample(0); sample.value < catalogue.samples(); ++sample.value) {
    if (!catalogue.is_uniform()) writer.count(catalogue.bytes(sample));
    if (const auto dimensions = catalogue.dimensions(sample)) {
      writer.count(dimensions->width);
      writer.count(dimensions->height);
    }
    if (const auto label = catalogue.label(sample)) writer.count(*label);
  }
}

std::optional<Catalogue> decode_catalogue(std::span<const std::byte> bytes, std::string& problem) {
  ByteReader reader(bytes);
  if (const auto format = reader.u8(); reader.ok() && format != kFormat) {
    problem = fmt::format("a catalogue of format {}; this program reads {}", format, kFormat);
    return std::nullopt;
  }
  Catalogue::Parts parts;
  const std::uint8_t lists = reader.u8();
  if ((lists & ~(kHasBytes | kHasDimensions | kHasLabels | kHasBundles)) != 0) reader.fail();
  const auto name = reader.bytes(reader.count(Catalogue::kNameMost));
  parts.name.assign(name.begin(), name.end());
  parts.version = reader.u64();
  parts.samples = reader.count(order::kSamplesMost);
  parts.classes = reader.count32();
  if ((lists & kHasBytes) == 0) parts.uniform_bytes = reader.count();
  if ((lists & kHasBundles) != 0 && reader.ok()) {
    parts.bundle_shift = reader.u8();
    if (parts.bundle_shift == 0) reader.fail();
    const std::uint64_t listed = reader.count(parts.samples);
    for (std::uint64_t i = 0; i < listed && reader.ok(); ++i)
      parts.bundle_bytes.push_back(reader.count());
  }
  // Each sample of a list has at least one byte, so a claim of more samples soon fails.
  const bool listed = (lists & (kHasBytes | kHasDimensions | kHasLabels)) != 0;
  for (std::uint64_t i = 0; listed && i < parts.samples && reader.ok(); ++i) {
    if ((lists & kHasBytes) != 0) parts.bytes.push_back(reader.count());
    if ((lists & kHasDimensions) != 0) {
      const std::uint32_t width = reader.count32();
      parts.dimensions.push_back({width, reader.count32()});
    }
    if ((lists & kHasLabels) != 0) parts.labels.push_back(reader.count32());
  }
  if (!reader.ok() || !reader.at_end()) {
    problem = "these bytes are not one whole catalogue";
    return std::nullopt;
  }
  return Catalogue::from(std::move(parts), problem);
}

const Catalogue& Catalogues::add(DatasetId id, Catalogue catalogue) {
  const std::pair key(id, catalogue.version());
  return catalogues_.try_emplace(key, std::move(catalogue)).first->second;
}

const PipelineInfo& Catalogues::add(PipelineId id, const PipelineInfo& pipeline) {
  return pipelines_.try_emplace({id, pipeline.hash}, pipeline).first->second;
}

const Catalogue* Catalogues::find(DatasetId id, Digest version) const {
  const auto found = catalogues_.find({id, version});
  return found == catalogues_.end() ? nullptr : &found->second;
}

const PipelineInfo* Catalogues::find(PipelineId id, Digest hash) const {
  const auto found = pipelines_.find({id, hash});
  return found == pipelines_.end() ? nullptr : &found->second;
}

}  // namespace batchflow::engine
