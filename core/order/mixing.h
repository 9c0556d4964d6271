// Where a job is in a mixture of parts of its dataset (docs/order.md, "Mixtures").
//
// It says from which source each draw comes, and which item of that source it is. Items count over
// all of a source's passes: item k is of pass k / samples. So what a source gives, and with which
// random steps, does not depend on the weights. They only say when it comes.
//
// It is a value of some 150 bytes a source. All that follows from it is in it, so a job goes on
// from it at any number of ranks, in a service that knows nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/byte_codec.h"
#include "core/base/types.h"
#include "core/order/mixture.h"

namespace batchflow::order {

// From draw `at` on these weights hold, as parts of Mixture::kWhole.
struct MixtureChange {
  std::uint64_t at = 0;
  std::vector<std::uint64_t> parts;
  bool soon = false;  // it was asked for from an earlier draw on, which was made by then
  friend bool operator==(const MixtureChange&, const MixtureChange&) = default;
};

class Mixing {
 public:
  static constexpr std::size_t kSourcesMost = 4096;
  // Of changes to come: how many there are, and how many parts they have together.
  static constexpr std::size_t kChangesMost = 64;
  static constexpr std::size_t kChangedPartsMost = 32'768;
  static constexpr std::uint64_t kDrawsMost = std::uint64_t{1} << 62;

  struct Fields {
    std::vector<SampleRange> sources;
    bool shuffled = true;     // each pass of a source is a permutation; else it is in its own order
    bool may_change = false;  // by mixture changes that are not known yet
    std::vector<Mixture::State> states;  // a source
    std::vector<MixtureChange> changes;  // to come, in their order
    std::uint64_t soonest = 0;           // no change may be made before
    friend bool operator==(const Fields&, const Fields&) = default;
  };
  // At the beginning, with `parts` of each source.
  static Fields beginning(std::vector<SampleRange> sources, std::span<const std::uint64_t> parts);
  // Empty, with the reason in `problem`, where no job can be there. `samples`: of the dataset.
  static std::optional<Mixing> from(Fields fields, std::uint64_t samples, std::string& problem);
  Fields fields() const;

  // How many were drawn, from all sources.
  std::uint64_t drawn() const { return mixture_.now(); }
  std::span<const SampleRange> sources() const { return sources_; }
  bool is_shuffled() const { return shuffled_; }
  bool may_change() const { return may_change_; }

  struct Draw {
    std::uint32_t source;
    std::uint64_t item;
  };
  std::uint64_t part(std::uint32_t source) const { return mixture_.part(source); }
  // Whether samples of this source may come.
  bool may_draw(std::uint32_t source) const;
  std::uint64_t taken(std::uint32_t source) const { return mixture_.taken(source); }
  // The parts after all changes to come.
  std::vector<std::uint64_t> last_parts() const;
  Draw next() const { return {mixture_.next(), mixture_.taken(mixture_.next())}; }
  void take();

  // The first draw at which a change can still be made. A change that was to be made as soon as
  // possible comes after those before it, also where draws are found again.
  std::uint64_t soonest() const { return std::max(soonest_, drawn()); }
  // How many changes more there can be.
  std::size_t changes_left() const;
  // What is wrong with a change, or nothing. Of several at the same draw, each is made, in turn: a
  // job may be at that draw already where it is drawn, and not yet where it is committed.
  [[nodiscard]] std::string problem_of(const MixtureChange& change) const;
  // REQUIRES: problem_of(change).empty()
  void change(MixtureChange change);

  // Of everything that the draws follow from.
  Digest digest() const;

 private:
  explicit Mixing(Fields&& fields);
  std::string problem_of(const MixtureChange& change, std::uint64_t soonest) const;
  void change_now();

  std::vector<SampleRange> sources_;
  bool shuffled_;
  bool may_change_;
  Mixture mixture_;
  std::vector<MixtureChange> changes_;
  std::uint64_t soonest_;
};

void encode(const Mixing& mixing, std::vector<std::byte>& out);
// Empty, with the reason in `problem`, where the bytes are no whole mixing of that many samples.
std::optional<Mixing> decode_mixing(std::span<const std::byte> bytes, std::uint64_t samples,
                                    std::string& problem);
void encode(const MixtureChange& change, std::vector<std::byte>& out);
MixtureChange read_mixture_change(ByteReader& reader);

}  // namespace batchflow::order
