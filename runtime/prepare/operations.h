// What is done to one picture: chosen from its size, its steps and its draws, before any of it is
// done.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/prepare/plan.h"
#include "runtime/prepare/resample.h"

namespace batchflow::prepare {

struct ByPlugin {
  const PictureByPlugin* step;
  std::uint64_t seed;
  Extent2 size;
};
using Operation = std::variant<Scaling, Pad, Warp, Jitter, PointChange, Sharpening, Blur, ByPlugin>;

class Operations {
 public:
  // Begins anew, with a picture of this size.
  void begin(Extent2 extent);
  // Operations chosen from here on are a part of their own: the picture before them is kept.
  void begin_part() { part_ = all_.size(); }
  // Adds what steps [from, to) do. False: see problem().
  bool choose(const PicturePlan& plan, std::size_t from, std::size_t to, std::uint64_t draw_key);
  const std::string& problem() const { return problem_; }

  const std::vector<Operation>& all() const { return all_; }
  std::size_t part() const { return part_; }
  Extent2 extent() const { return extent_; }  // of the picture that they make
  // The last operation, if it is a scaling and in this part; else null.
  const Scaling* last_scaling() const;

 private:
  bool choose_one(const StepKind& step, std::uint64_t seed);
  // One for each kind of step; those that never fail answer true.
  bool choose(const Resize& step, std::uint64_t seed);
  bool choose(const CentreCrop& step, std::uint64_t seed);
  bool choose(const RandomResizedCrop& step, std::uint64_t seed);
  bool choose(const PadEdges& step, std::uint64_t seed);
  bool choose(const RandomCrop& step, std::uint64_t seed);
  bool choose(const Flip& step, std::uint64_t seed);
  bool choose(const ColourJitter& step, std::uint64_t seed);
  bool choose(const RandomPointChange& step, std::uint64_t seed);
  bool choose(const RandomSharpness& step, std::uint64_t seed);
  bool choose(const GaussianBlur& step, std::uint64_t seed);
  bool choose(const RandomRotation& step, std::uint64_t seed);
  bool choose(const RandomAffine& step, std::uint64_t seed);
  bool choose(const RandAugment& step, std::uint64_t seed);
  bool choose(const TrivialAugment& step, std::uint64_t seed);
  bool choose(const AutoAugment& step, std::uint64_t seed);
  bool choose(const RandomApply& step, std::uint64_t seed);
  bool choose(const RandomChoice& step, std::uint64_t seed);
  bool choose(const PictureByPlugin& step, std::uint64_t seed);

  // The last operation, if it is of this kind and in this part; else null.
  template <class Kind>
  Kind* last();
  void scale(const Box& from, Extent2 to, Filter filter);
  void crop(const Box& box, const PadStyle& outside);
  bool pad_by(const Padding& padding, const PadStyle& style);
  void flip(bool upside_down);
  void augment(const Augmentation& augmentation, const WarpStyle& style);
  bool fits(Extent2 size, std::string_view becomes);
  bool fail(std::string problem);

  std::vector<Operation> all_;
  std::size_t part_ = 0;
  Extent2 extent_;
  std::uint64_t pixels_most_ = 0;
  std::string problem_;
};

// What operations take at most, on one picture or on several that are made one after the other:
// each buffer and each table grows to the largest.
class MemoryNeeds {
 public:
  // On a picture of this size, in foreign memory or in a buffer.
  void add(std::span<const Operation> operations, Extent2 extent, bool is_foreign);
  Bytes sum() const;

 private:
  std::array<Bytes, 2> buffers_{};
  Bytes blurring_ = 0;
  Resampler::Needs tables_;
};
inline Bytes memory_needs(std::span<const Operation> operations, Extent2 extent, bool is_foreign) {
  MemoryNeeds needs;
  needs.add(operations, extent, is_foreign);
  return needs.sum();
}

}  // namespace batchflow::prepare
