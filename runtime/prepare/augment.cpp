#include "runtime/prepare/augment.h"

#include <array>
#include <cmath>

namespace batchflow::prepare {
namespace {

using enum AugmentChange;

// The strongest of each change.
struct Strengths {
  float shear, translate_x, translate_y, rotate, colour;
  int bits;  // that posterize takes away
};

constexpr float kRandShear = 0.3f, kRandRotation = 30.0f, kRandColour = 0.9f;
constexpr int kRandBits = 4;
constexpr Strengths kWide = {0.99f, 32.0f, 32.0f, 135.0f, 0.99f, 6};

Strengths strengths_of(Extent2 picture) {
  return {kRandShear,
          static_cast<float>(150.0 / 331.0 * picture.width),
          static_cast<float>(150.0 / 331.0 * picture.height),
          kRandRotation,
          kRandColour,
          kRandBits};
}

// `bin` of `bins` numbers from `first` to `last`, as torch.linspace computes them one by one: in
// floats, from the nearer end.
double spaced(float first, float last, int bin, int bins) {
  const float step = (last - first) / static_cast<float>(bins - 1);
  const float made = bin < bins / 2 ? first + step * static_cast<float>(bin)
                                    : last - step * static_cast<float>(bins - 1 - bin);
  return static_cast<double>(made);
}

double posterized_bits(int bin, int bins, int bits) {
  const float each = static_cast<float>(static_cast<double>(bins - 1) / bits);
  return 8.0 - static_cast<double>(std::nearbyint(static_cast<float>(bin) / each));
}

double magnitude_of(AugmentChange change, const Strengths& strengths, int bin, int bins) {
  switch (change) {
    case shear_x:
    case shear_y:
      return spaced(0, strengths.shear, bin, bins);
    case translate_x:
      return spaced(0, strengths.translate_x, bin, bins);
    case translate_y:
      return spaced(0, strengths.translate_y, bin, bins);
    case rotate:
      return spaced(0, strengths.rotate, bin, bins);
    case brightness:
    case colour:
    case contrast:
    case sharpness:
      return spaced(0, strengths.colour, bin, bins);
    case posterize:
      return posterized_bits(bin, bins, strengths.bits);
    case solarize:
      return spaced(255, 0, bin, bins);
    default:
      return 0;
  }
}

bool has_magnitude(AugmentChange change) {
  return change > identity && change <= solarize;
}
bool has_sign(AugmentChange change) {
  return change > identity && change < posterize;
}

AugmentChange draw_change(Random& random) {
  return static_cast<AugmentChange>(random.below(static_cast<std::uint64_t>(invert)));
}

Augmentation with_sign(AugmentChange change, double magnitude, Random& random) {
  const bool is_negative = has_sign(change) && random.below(2) == 1;
  return {change, is_negative ? -magnitude : magnitude};
}

// ---------------------------------------------------------------------------- AutoAugment ----

struct PolicyChange {
  AugmentChange change;
  double probability;
  int bin = 0;  // of ten
};
using PolicyPair = std::array<PolicyChange, 2>;
using Policy = std::array<PolicyPair, 25>;

constexpr Policy kImagenet = {{
    {{{posterize, 0.4, 8}, {rotate, 0.6, 9}}}, {{{solarize, 0.6, 5}, {autocontrast, 0.6}}},
    {{{equalize, 0.8}, {equalize, 0.6}}},      {{{posterize, 0.6, 7}, {posterize, 0.6, 6}}},
    {{{equalize, 0.4}, {solarize, 0.2, 4}}},   {{{equalize, 0.4}, {rotate, 0.8, 8}}},
    {{{solarize, 0.6, 3}, {equalize, 0.6}}},   {{{posterize, 0.8, 5}, {equalize, 1.0}}},
    {{{rotate, 0.2, 3}, {solarize, 0.6, 8}}},  {{{equalize, 0.6}, {posterize, 0.4, 6}}},
    {{{rotate, 0.8, 8}, {colour, 0.4, 0}}},    {{{rotate, 0.4, 9}, {equalize, 0.6}}},
    {{{equalize, 0.0}, {equalize, 0.8}}},      {{{invert, 0.6}, {equalize, 1.0}}},
    {{{colour, 0.6, 4}, {contrast, 1.0, 8}}},  {{{rotate, 0.8, 8}, {colour, 1.0, 2}}},
    {{{colour, 0.8, 8}, {solarize, 0.8, 7}}},  {{{sharpness, 0.4, 7}, {invert, 0.6}}},
    {{{shear_x, 0.6, 5}, {equalize, 1.0}}},    {{{colour, 0.4, 0}, {equalize, 0.6}}},
    {{{equalize, 0.4}, {solarize, 0.2, 4}}},   {{{solarize, 0.6, 5}, {autocontrast, 0.6}}},
    {{{invert, 0.6}, {equalize, 1.0}}},        {{{colour, 0.6, 4}, {contrast, 1.0, 8}}},
    {{{equalize, 0.8}, {equalize, 0.6}}},
}};

constexpr Policy kCifar10 = {{
    {{{invert, 0.1}, {contrast, 0.2, 6}}},
    {{{rotate, 0.7, 2}, {translate_x, 0.3, 9}}},
    {{{sharpness, 0.8, 1}, {sharpness, 0.9, 3}}},
    {{{shear_y, 0.5, 8}, {translate_y, 0.7, 9}}},
    {{{autocontrast, 0.5}, {equalize, 0.9}}},
    {{{shear_y, 0.2, 7}, {posterize, 0.3, 7}}},
    {{{colour, 0.4, 3}, {brightness, 0.6, 7}}},
    {{{sharpness, 0.3, 9}, {brightness, 0.7, 9}}},
    {{{equalize, 0.6}, {equalize, 0.5}}},
    {{{contrast, 0.6, 7}, {sharpness, 0.6, 5}}},
    {{{colour, 0.7, 7}, {translate_x, 0.5, 8}}},
    {{{equalize, 0.3}, {autocontrast, 0.4}}},
    {{{translate_y, 0.4, 3}, {sharpness, 0.2, 6}}},
    {{{brightness, 0.9, 6}, {colour, 0.2, 8}}},
    {{{solarize, 0.5, 2}, {invert, 0.0}}},
    {{{equalize, 0.2}, {autocontrast, 0.6}}},
    {{{equalize, 0.2}, {equalize, 0.6}}},
    {{{colour, 0.9, 9}, {equalize, 0.6}}},
    {{{autocontrast, 0.8}, {solarize, 0.2, 8}}},
    {{{brightness, 0.1, 3}, {colour, 0.7, 0}}},
    {{{solarize, 0.4, 5}, {autocontrast, 0.9}}},
    {{{translate_y, 0.9, 9}, {translate_y, 0.7, 9}}},
    {{{autocontrast, 0.9}, {solarize, 0.8, 3}}},
    {{{equalize, 0.8}, {invert, 0.1}}},
    {{{translate_y, 0.7, 9}, {autocontrast, 0.9}}},
}};

constexpr Policy kSvhn = {{
    {{{shear_x, 0.9, 4}, {invert, 0.2}}},          {{{shear_y, 0.9, 8}, {invert, 0.7}}},
    {{{equalize, 0.6}, {solarize, 0.6, 6}}},       {{{invert, 0.9}, {equalize, 0.6}}},
    {{{equalize, 0.6}, {rotate, 0.9, 3}}},         {{{shear_x, 0.9, 4}, {autocontrast, 0.8}}},
    {{{shear_y, 0.9, 8}, {invert, 0.4}}},          {{{shear_y, 0.9, 5}, {solarize, 0.2, 6}}},
    {{{invert, 0.9}, {autocontrast, 0.8}}},        {{{equalize, 0.6}, {rotate, 0.9, 3}}},
    {{{shear_x, 0.9, 4}, {solarize, 0.3, 3}}},     {{{shear_y, 0.8, 8}, {invert, 0.7}}},
    {{{equalize, 0.9}, {translate_y, 0.6, 6}}},    {{{invert, 0.9}, {equalize, 0.6}}},
    {{{contrast, 0.3, 3}, {rotate, 0.8, 4}}},      {{{invert, 0.8}, {translate_y, 0.0, 2}}},
    {{{shear_y, 0.7, 6}, {solarize, 0.4, 8}}},     {{{invert, 0.6}, {rotate, 0.8, 4}}},
    {{{shear_y, 0.3, 7}, {translate_x, 0.9, 3}}},  {{{shear_x, 0.1, 6}, {invert, 0.6}}},
    {{{solarize, 0.7, 2}, {translate_y, 0.6, 7}}}, {{{shear_y, 0.8, 4}, {invert, 0.8}}},
    {{{shear_x, 0.7, 9}, {translate_y, 0.8, 3}}},  {{{shear_y, 0.8, 5}, {autocontrast, 0.7}}},
    {{{shear_x, 0.7, 2}, {invert, 0.1}}},
}};

constexpr int kPolicyBins = 10;

const Policy& policy_of(AugmentPolicy policy) {
  if (policy == AugmentPolicy::cifar10) return kCifar10;
  return policy == AugmentPolicy::svhn ? kSvhn : kImagenet;
}

}  // namespace

Augmentation draw_rand_augment(int magnitude, int bins, Extent2 picture, Random& random) {
  const AugmentChange change = draw_change(random);
  return with_sign(change, magnitude_of(change, strengths_of(picture), magnitude, bins), random);
}

Augmentation draw_trivial_augment(int bins, Random& random) {
  const AugmentChange change = draw_change(random);
  if (!has_magnitude(change)) return {change, 0};
  const auto bin = static_cast<int>(random.below(static_cast<std::uint64_t>(bins)));
  return with_sign(change, magnitude_of(change, kWide, bin, bins), random);
}

AugmentPair draw_auto_augment(AugmentPolicy policy, Extent2 picture, Random& random) {
  const PolicyPair& pair = policy_of(policy)[random.below(std::tuple_size_v<Policy>)];
  AugmentPair made;
  const double probabilities[2] = {random.unit(), random.unit()};
  const bool negative[2] = {random.below(2) == 0, random.below(2) == 0};
  for (std::size_t i = 0; i < pair.size(); ++i) {
    const PolicyChange& one = pair[i];
    if (probabilities[i] > one.probability) continue;
    const double magnitude = magnitude_of(one.change, strengths_of(picture), one.bin, kPolicyBins);
    made.changes[i] = {one.change, negative[i] && has_sign(one.change) ? -magnitude : magnitude};
  }
  return made;
}

}  // namespace batchflow::prepare
