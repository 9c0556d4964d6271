// What is known of a dataset version and of a pipeline before anything is read.
//
// A catalogue is immutable. It is named by the content hash of its dataset version and kept beside
// the logs; events refer to it and never carry it. A backend fills `Catalogues` first, and then
// sends its engine CatalogueKnown and PipelineKnown. Where the grain is above one, a sample here is
// an item: a run of samples that are read and kept as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"

namespace batchflow::engine {

// The size of a picture, or of any other sample: enough to tell how large its decoded form is.
struct Dimensions {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  friend constexpr bool operator==(const Dimensions&, const Dimensions&) = default;
};

// Small samples are read and kept in bundles: bundle b is samples [b << shift, (b + 1) << shift).
// The item of a share that a sample is in; with a shift of 0 each sample is an item of its own.
inline ItemId item_of(SampleId sample, std::uint8_t bundle_shift) {
  return ItemId(static_cast<std::uint32_t>(sample.value >> bundle_shift));
}
inline SampleId first_in_bundle(SampleId sample, std::uint8_t bundle_shift) {
  return SampleId(sample.value >> bundle_shift << bundle_shift);
}

class Catalogue {
 public:
  static constexpr std::size_t kNameMost = 4096;
  static constexpr std::uint8_t kBundleShiftMost = 16;

  // What a catalogue is made from. Lists are empty or have one entry a sample.
  struct Parts {
    std::string name;
    Digest version = 0;         // D: names the content
    std::uint64_t samples = 0;  // N, at least 1
    Bytes uniform_bytes = 0;    // of each stored sample, where `bytes` is empty
    std::vector<Bytes> bytes;
    std::vector<Dimensions> dimensions;
    std::uint32_t classes = 0;          // how many; 0: not classified
    std::vector<std::uint32_t> labels;  // below `classes`
    // Samples that lie side by side are read and kept 2^bundle_shift at a time. `bundle_bytes` says
    // what each such bundle takes where it is stored; empty: just its samples, which are uniform.
    std::uint8_t bundle_shift = 0;
    std::vector<Bytes> bundle_bytes;
  };

  // Empty, with the reason in `problem`, when the parts do not fit together.
  static std::optional<Catalogue> from(Parts parts, std::string& problem);
  // REQUIRES: samples > 0, the total fits into 64 bits
  static Catalogue uniform(std::string name, Digest version, std::uint64_t samples, Bytes bytes);

  const std::string& name() const { return parts_.name; }
  Digest version() const { return parts_.version; }
  std::uint64_t samples() const { return parts_.samples; }
  Bytes total_bytes() const { return total_bytes_; }
  Bytes mean_bytes() const { return total_bytes_ / parts_.samples; }
  Bytes largest_bytes() const { return largest_bytes_; }  // of a sample
  bool is_uniform() const { return small_bytes_.empty() && parts_.bytes.empty(); }
  std::uint32_t classes() const { return parts_.classes; }

  bool has_bundles() const { return parts_.bundle_shift > 0; }
  std::uint8_t bundle_shift() const { return parts_.bundle_shift; }
  // The sizes of bundles, if these have more than uniform samples in them; else empty.
  const std::vector<Bytes>& listed_bundles() const { return parts_.bundle_bytes; }
  std::uint64_t bundles() const { return ((parts_.samples - 1) >> parts_.bundle_shift) + 1; }
  Bytes bundle_bytes(std::uint64_t bundle) const;  // REQUIRES: bundle < bundles()

  // REQUIRES for all: sample < samples()
  Bytes bytes(SampleId sample) const;
  // The slots that the sample takes as stored; at least one.
  Slots slots(SampleId sample, Bytes slot_bytes) const;
  std::optional<Dimensions> dimensions(SampleId sample) const;
  std::optional<std::uint32_t> label(SampleId sample) const;

 private:
  Catalogue() = default;

  Parts parts_;
  std::vector<std::uint32_t> small_bytes_;  // instead of parts_.bytes where all are below 4 GiB
  Bytes total_bytes_ = 0;
  Bytes largest_bytes_ = 0;
};

void encode(const Catalogue& catalogue, std::vector<std::byte>& out);
// The bytes may come from any source: memory is allocated in proportion to them, whatever they
// claim.
std::optional<Catalogue> decode_catalogue(std::span<const std::byte> bytes, std::string& problem);

// The ordered steps from stored bytes to tensors, as far as decisions need to know them. Sizes and
// costs are expected values for one sample; the engine corrects costs by what it measures.
struct PipelineInfo {
  Digest hash = 0;         // of all steps
  Digest prefix_hash = 0;  // of the steps before the first random one: names the decoded form
  bool has_random = false;
  Bytes decoded_bytes = 0;  // 0: no step precedes the first random one, nothing is kept decoded
  Bytes prepared_bytes = 0;
  Duration decode_cost{0};   // from encoded to decoded, on one core
  Duration augment_cost{0};  // from decoded to prepared

  // Whether the decoded form differs from the stored one.
  bool decodes() const { return decoded_bytes != 0; }
};

// All catalogues and pipelines that events may refer to. Entries never move or change once added.
class Catalogues {
 public:
  // Adding the same pair again changes nothing: a content hash names one content.
  const Catalogue& add(DatasetId id, Catalogue catalogue);
  const PipelineInfo& add(PipelineId id, const PipelineInfo& pipeline);
  // Null when unknown.
  const Catalogue* find(DatasetId id, Digest version) const;
  const PipelineInfo* find(PipelineId id, Digest hash) const;

 private:
  std::map<std::pair<DatasetId, Digest>, Catalogue> catalogues_;
  std::map<std::pair<PipelineId, Digest>, PipelineInfo> pipelines_;
};

}  // namespace batchflow::engine
