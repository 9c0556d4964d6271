// The steps that a pipeline may consist of: their names, parameters and versions.
//
// The text of a step names everything that decides its bytes, and hashes of pipelines are hashes of
// these texts. So a change of what a step does must raise its version in steps.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "programs/config/config.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/prepare/augment.h"
#include "runtime/prepare/colour.h"
#include "runtime/prepare/decode.h"
#include "runtime/prepare/erase.h"
#include "runtime/prepare/finish.h"
#include "runtime/prepare/geometry.h"
#include "runtime/prepare/neighbours.h"
#include "runtime/prepare/pad.h"
#include "runtime/prepare/point_change.h"
#include "runtime/prepare/sound.h"
#include "runtime/prepare/warp.h"
#include "runtime/step/step_plugin.h"

namespace batchflow::prepare {

struct Decode {
  DecodeLimits limits;
};
// Frames of a group, from one of them on.
struct Clip {
  std::uint32_t frames = 0;
  std::uint32_t every = 1;  // of the group's frames
  bool anywhere = false;    // else in the middle
};
struct Resize {
  int shorter = 0;  // 0: to `size`
  Extent2 size;
  Filter filter = Filter::bilinear;
};
struct CentreCrop {
  Extent2 size;
};
struct RandomResizedCrop {
  Extent2 size;
  Range area;
  Range ratio;
  Filter filter = Filter::bilinear;
};
struct PadEdges {
  Padding padding;
  PadStyle style;
};
struct RandomCrop {
  Extent2 size;
  Padding padding;
  bool pad_if_needed = false;  // else a smaller picture is refused
  PadStyle style;
};
struct Flip {
  bool upside_down = false;  // else left and right change sides
  double probability = 0;
};
struct RandomPointChange {
  PointChange change;
  double probability = 0;
};
struct RandomSharpness {
  Sharpening sharpening;
  double probability = 0;
};
struct GaussianBlur {
  Extent2 reach;
  Range sigma;
};
struct RandomRotation {
  Range degrees;
  WarpStyle style;
};
struct RandomAffine {
  Range degrees;
  std::array<double, 2> translate{};  // shares of the width and of the height
  Range scale = {1, 1};
  Range shear_x, shear_y;  // degrees
  WarpStyle style;
};
struct RandAugment {
  int operations = 0;
  int magnitude = 0;
  int bins = 0;
  WarpStyle style;
};
struct TrivialAugment {
  int bins = 0;
  WarpStyle style;
};
struct AutoAugment {
  AugmentPolicy policy = AugmentPolicy::imagenet;
  WarpStyle style;
};
// Steps inside of a step: all of them, or none.
struct NestedStep;
struct RandomApply {
  double probability = 0;
  std::vector<NestedStep> steps;
};
// One of them.
struct RandomChoice {
  std::vector<double> probabilities;  // their sum is 1
  std::vector<NestedStep> steps;
};
struct ColourJitter {
  std::array<Range, kColourChanges> ranges;
};
struct Cast {
  batch::ElementType type;
};
struct Layout {
  bool planes = false;  // channels lie apart
};
struct Tokens {
  enum class Fit : std::uint8_t { cut_or_pad, pack };
  std::uint64_t length = 0;
  Fit fit = Fit::cut_or_pad;
  std::uint64_t pad_with = 0;
};
struct MelOfSound {
  audio::MelSettings settings;  // without the rate
  bool f_max_is_given = false;  // else half of the rate
};
struct Reshape {
  std::vector<std::uint64_t> shape;
};
// A plugin that makes pictures. Other plugins come last: Afterwards in plan.h.
struct PictureByPlugin {
  std::shared_ptr<step::StepPlugin> plugin;
  Extent2 size;  // that it makes; 0 x 0: the size they have
};

using StepKind =
    std::variant<Decode, Clip, Resize, CentreCrop, RandomResizedCrop, PadEdges, RandomCrop, Flip,
                 ColourJitter, RandomPointChange, RandomSharpness, GaussianBlur, RandomRotation,
                 RandomAffine, RandAugment, TrivialAugment, AutoAugment, RandomApply, RandomChoice,
                 PictureByPlugin, Normalisation, RandomErasing, DecodeSound, CutSound, MelOfSound,
                 Cast, Layout, Tokens, Reshape>;
struct NestedStep {
  std::string_view name;
  StepKind kind;
};

// Where in a pipeline a step may stand. Each of these has at most one step, except `picture` and
// `plugin`.
enum class StepStage : std::uint8_t {
  decode,
  picture,
  normalise,
  erase,
  sound,
  cut_sound,
  mel,
  tokens,
  cast,
  layout,
  reshape,
  plugin
};

struct PipelineStep {
  std::string_view name;
  StepStage stage = StepStage::picture;
  bool random = false;  // it draws
  StepKind kind;
  std::string text;  // name, version and parameters
};

// Throws ConfigError. `depth`: inside of how many others it stands.
PipelineStep read_step(config::ConfigSection& section, int depth = 0);
// How many steps it counts as, with those inside of it.
std::size_t count_steps(const StepKind& kind);

}  // namespace batchflow::prepare
