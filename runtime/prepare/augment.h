// The choices of torchvision's RandAugment, TrivialAugmentWide and AutoAugment: which changes are
// made, and how strong each is.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

// In the order in which torchvision lists them; RandAugment has no `invert`.
enum class AugmentChange : std::uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  colour,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
  invert
};

struct Augmentation {
  AugmentChange change = AugmentChange::identity;
  double magnitude = 0;  // what it means depends on the change
};

// `magnitude` is one of `bins` strengths, counted from 0.
Augmentation draw_rand_augment(int magnitude, int bins, Extent2 picture, Random& random);
Augmentation draw_trivial_augment(int bins, Random& random);

enum class AugmentPolicy : std::uint8_t { imagenet, cifar10, svhn };
// A policy is 25 pairs of changes, each with a probability of its own.
struct AugmentPair {
  Augmentation changes[2];
};
AugmentPair draw_auto_augment(AugmentPolicy policy, Extent2 picture, Random& random);

}  // namespace batchflow::prepare
