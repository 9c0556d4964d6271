#include "runtime/prepare/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "core/base/check.h"
#include "core/order/keys.h"

namespace batchflow::prepare {

void Operations::begin(Extent2 extent) {
  all_.clear();
  extent_ = extent;
  begin_part();
}

bool Operations::choose(const PicturePlan& plan, std::size_t from, std::size_t to,
                        std::uint64_t draw_key) {
  pixels_most_ = plan.limits.pixels_most;
  for (std::size_t i = from; i < to; ++i)
    if (!choose_one(plan.steps[i].kind, order::step_seed(draw_key, plan.steps[i].draw)))
      return false;
  return true;
}

bool Operations::choose_one(const StepKind& step, std::uint64_t seed) {
  return std::visit(
      [&](const auto& kind) {
        if constexpr (requires { choose(kind, seed); }) return choose(kind, seed);
        BF_CHECK(false);  // it stands elsewhere in a pipeline
        return false;
      },
      step);
}

bool Operations::fail(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

// A line of a million pixels would become a picture of a million lines.
bool Operations::fits(Extent2 size, std::string_view becomes) {
  if (static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height) <=
      pixels_most_)
    return true;
  return fail(fmt::format("it would be {} {} x {} pixels", becomes, size.width, size.height));
}

// ------------------------------------------------------------------------- size and place ----

bool Operations::choose(const Resize& step, std::uint64_t) {
  const Extent2 to = step.shorter > 0 ? scaled_to_shorter(extent_, step.shorter) : step.size;
  if (!fits(to, "resized to")) return false;
  scale(whole(extent_), to, step.filter);
  return true;
}

bool Operations::choose(const CentreCrop& step, std::uint64_t) {
  crop(centre_box(extent_, step.size), {});
  return true;
}

bool Operations::choose(const RandomResizedCrop& step, std::uint64_t seed) {
  Random draws(seed);
  scale(random_crop(extent_, step.area, step.ratio, draws), step.size, step.filter);
  return true;
}

bool Operations::choose(const PadEdges& step, std::uint64_t) {
  return pad_by(step.padding, step.style);
}

bool Operations::choose(const RandomCrop& step, std::uint64_t seed) {
  if (!pad_by(step.padding, step.style)) return false;
  if (step.pad_if_needed) {
    const int across = std::max(0, step.size.width - extent_.width);
    const int down = std::max(0, step.size.height - extent_.height);
    if (!pad_by({across, 0, across, 0}, step.style) || !pad_by({0, down, 0, down}, step.style))
      return false;
  }
  if (extent_.width < step.size.width || extent_.height < step.size.height)
    return fail(fmt::format("it has {} x {} pixels, and random_crop takes {} x {} of them",
                            extent_.width, extent_.height, step.size.width, step.size.height));
  Random draws(seed);
  crop(random_window(extent_, step.size, draws), {});
  return true;
}

bool Operations::choose(const Flip& step, std::uint64_t seed) {
  if (Random(seed).unit() < step.probability) flip(step.upside_down);
  return true;
}

bool Operations::choose(const RandomRotation& step, std::uint64_t seed) {
  Random draws(seed);
  all_.push_back(Warp{rotation(step.degrees.draw(draws), extent_), step.style});
  return true;
}

bool Operations::choose(const RandomAffine& step, std::uint64_t seed) {
  Random draws(seed);
  Affine affine;
  affine.degrees = step.degrees.draw(draws);
  const auto shift = [&](double share, int side) {
    const double most = share * side;
    return static_cast<double>(rounded(Range{-most, most}.draw(draws)));
  };
  affine.shift_x = shift(step.translate[0], extent_.width);
  affine.shift_y = shift(step.translate[1], extent_.height);
  affine.scale = step.scale.draw(draws);
  affine.shear_x = step.shear_x.draw(draws);
  affine.shear_y = step.shear_y.draw(draws);
  all_.push_back(Warp{inverse_of(affine, extent_), step.style});
  return true;
}

template <class Kind>
Kind* Operations::last() {
  return all_.size() == part_ ? nullptr : std::get_if<Kind>(&all_.back());
}

const Scaling* Operations::last_scaling() const {
  return all_.size() == part_ ? nullptr : std::get_if<Scaling>(&all_.back());
}

void Operations::scale(const Box& from, Extent2 to, Filter filter) {
  all_.push_back(Scaling{.from = from, .to = to, .window = whole(to), .filter = filter});
  extent_ = to;
}

void Operations::crop(const Box& box, const PadStyle& outside) {
  const bool inside = box.x >= 0 && box.y >= 0 && box.x + box.width <= extent_.width &&
                      box.y + box.height <= extent_.height;
  const auto part_of = [&box](const Box& all) {
    return Box{all.x + box.x, all.y + box.y, box.width, box.height};
  };
  // Of a picture that is scaled or padded, only the wanted part is made.
  Scaling* const scaling = last<Scaling>();
  Pad* const padding = last<Pad>();
  if (!inside) {
    all_.push_back(Pad{box, outside});
  } else if (scaling && !scaling->flip && !scaling->upside_down) {
    scaling->window = part_of(scaling->window);
  } else if (padding) {
    padding->box = part_of(padding->box);
  } else {
    all_.push_back(Scaling{.from = box, .to = box.extent(), .window = whole(box.extent())});
  }
  extent_ = box.extent();
}

bool Operations::pad_by(const Padding& padding, const PadStyle& style) {
  const Box box = padded(extent_, padding);
  if (box == whole(extent_)) return true;
  if (!fits(box.extent(), "padded to")) return false;
  crop(box, style);
  return true;
}

void Operations::flip(bool upside_down) {
  if (!last<Scaling>())
    all_.push_back(Scaling{.from = whole(extent_), .to = extent_, .window = whole(extent_)});
  Scaling& scaling = *last<Scaling>();
  bool& flips = upside_down ? scaling.upside_down : scaling.flip;
  flips = !flips;
}

// --------------------------------------------------------------------------------- colour ----

bool Operations::choose(const ColourJitter& step, std::uint64_t seed) {
  Random draws(seed);
  all_.push_back(draw_jitter(step.ranges, draws));
  return true;
}

bool Operations::choose(const RandomPointChange& step, std::uint64_t seed) {
  if (Random(seed).unit() < step.probability) all_.push_back(step.change);
  return true;
}

bool Operations::choose(const RandomSharpness& step, std::uint64_t seed) {
  if (Random(seed).unit() < step.probability) all_.push_back(step.sharpening);
  return true;
}

bool Operations::choose(const GaussianBlur& step, std::uint64_t seed) {
  Random draws(seed);
  all_.push_back(Blur{step.reach, step.sigma.draw(draws)});
  return true;
}

bool Operations::choose(const PictureByPlugin& step, std::uint64_t seed) {
  if (step.size.width > 0) extent_ = step.size;
  all_.push_back(ByPlugin{&step, seed, extent_});
  return true;
}

// -------------------------------------------------------------------------------- choices ----

bool Operations::choose(const RandAugment& step, std::uint64_t seed) {
  Random draws(seed);
  for (int i = 0; i < step.operations; ++i)
    augment(draw_rand_augment(step.magnitude, step.bins, extent_, draws), step.style);
  return true;
}

bool Operations::choose(const TrivialAugment& step, std::uint64_t seed) {
  Random draws(seed);
  augment(draw_trivial_augment(step.bins, draws), step.style);
  return true;
}

bool Operations::choose(const AutoAugment& step, std::uint64_t seed) {
  Random draws(seed);
  for (const Augmentation& change : draw_auto_augment(step.policy, extent_, draws).changes)
    augment(change, step.style);
  return true;
}

bool Operations::choose(const RandomApply& step, std::uint64_t seed) {
  if (Random(seed).unit() >= step.probability) return true;
  for (std::uint32_t i = 0; i < step.steps.size(); ++i)
    if (!choose_one(step.steps[i].kind, order::step_seed(seed, i))) return false;
  return true;
}

bool Operations::choose(const RandomChoice& step, std::uint64_t seed) {
  double left = Random(seed).unit();
  std::uint32_t i = 0;
  while (i + 1 < step.steps.size() && left >= step.probabilities[i])
    left -= step.probabilities[i++];
  return choose_one(step.steps[i].kind, order::step_seed(seed, i));
}

void Operations::augment(const Augmentation& augmentation, const WarpStyle& style) {
  const double magnitude = augmentation.magnitude;
  const auto warp = [&](const WarpMatrix& matrix) { all_.push_back(Warp{matrix, style}); };
  const auto shift = [&](double x, double y) {
    Affine affine;
    affine.shift_x = static_cast<int>(x);
    affine.shift_y = static_cast<int>(y);
    warp(inverse_of(affine, extent_));
  };
  const auto blend = [&](ColourChange change) {
    Jitter jitter;
    jitter.factor[static_cast<std::size_t>(change)] = static_cast<float>(1.0 + magnitude);
    all_.push_back(jitter);
  };
  switch (augmentation.change) {
    case AugmentChange::identity:
      return;
    case AugmentChange::shear_x:
      return warp({1, magnitude, 0, 0, 1, 0});
    case AugmentChange::shear_y:
      return warp({1, 0, 0, magnitude, 1, 0});
    case AugmentChange::translate_x:
      return shift(magnitude, 0);
    case AugmentChange::translate_y:
      return shift(0, magnitude);
    case AugmentChange::rotate:
      return warp(rotation(magnitude, extent_));
    case AugmentChange::brightness:
      return blend(ColourChange::brightness);
    case AugmentChange::colour:
      return blend(ColourChange::saturation);
    case AugmentChange::contrast:
      return blend(ColourChange::contrast);
    case AugmentChange::sharpness:
      all_.push_back(Sharpening{static_cast<float>(1.0 + magnitude)});
      return;
    case AugmentChange::posterize:
      all_.push_back(PointChange{PointChange::Kind::posterize, magnitude});
      return;
    case AugmentChange::solarize:
      all_.push_back(PointChange{PointChange::Kind::solarize, magnitude});
      return;
    case AugmentChange::autocontrast:
      all_.push_back(PointChange{PointChange::Kind::autocontrast});
      return;
    case AugmentChange::equalize:
      all_.push_back(PointChange{PointChange::Kind::equalize});
      return;
    case AugmentChange::invert:
      all_.push_back(PointChange{PointChange::Kind::invert});
      return;
  }
}

// --------------------------------------------------------------------------------- memory ----

namespace {

// The size of what an operation makes in a buffer of its own; none if it works in place.
std::optional<Extent2> made_by(const Operation& operation, Extent2 before) {
  if (const auto* scaling = std::get_if<Scaling>(&operation)) return scaling->window.extent();
  if (const auto* pad = std::get_if<Pad>(&operation)) return pad->box.extent();
  if (const auto* plugin = std::get_if<ByPlugin>(&operation)) return plugin->size;
  const bool in_place =
      std::holds_alternative<Jitter>(operation) || std::holds_alternative<PointChange>(operation);
  return in_place ? std::nullopt : std::optional(before);
}

}  // namespace

// Each operation makes a picture in the buffer that does not hold the one before, and each buffer
// grows to the largest.
void MemoryNeeds::add(std::span<const Operation> operations, Extent2 extent, bool is_foreign) {
  std::size_t shown = 1;
  const auto make = [&](Extent2 made) {
    buffers_[shown] = std::max(buffers_[shown], PictureBuffer::bytes(made));
  };
  if (!is_foreign) {
    shown = 0;
    make(extent);
  }
  for (const Operation& operation : operations) {
    std::optional<Extent2> made = made_by(operation, extent);
    if (const auto* scaling = std::get_if<Scaling>(&operation)) tables_.add(*scaling);
    if (const auto* blur = std::get_if<Blur>(&operation))
      blurring_ = std::max(blurring_, Blurrer::needs(*blur, extent));
    if (!made && is_foreign) {  // it is copied first
      tables_.add({whole(extent), extent, whole(extent)});
      made = extent;
    }
    if (made) {
      extent = *made;
      shown = 1 - shown;
      make(extent);
    }
    is_foreign = false;
  }
}

Bytes MemoryNeeds::sum() const {
  return memory::counted_sum(memory::counted_sum(tables_.sum(), blurring_),
                             memory::counted_sum(buffers_[0], buffers_[1]));
}

}  // namespace batchflow::prepare
