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
#include "runtime/prepare/colour.h"
#include "runtime/prepare/decode.h"
#include "runtime/prepare/finish.h"
#include "runtime/prepare/geometry.h"
#include "runtime/step/step_plugin.h"

namespace batchflow::prepare {

struct Decode {
  DecodeLimits limits;
};
struct Resize {
  int shorter = 0;  // 0: to `size`
  Extent2 size;
};
struct CentreCrop {
  Extent2 size;
};
struct RandomResizedCrop {
  Extent2 size;
  Range area;
  Range ratio;
};
struct HorizontalFlip {
  double probability = 0;
};
struct ColourJitter {
  std::array<Range, kColourChanges> ranges;
};
struct Cast {
  batch::ElementType type;
};
struct Layout {
  bool planes = false;
};
struct Tokens {
  enum class Fit : std::uint8_t { cut_or_pad, pack };
  std::uint64_t length = 0;
  Fit fit = Fit::cut_or_pad;
  std::uint64_t pad_with = 0;
};
struct Reshape {
  std::vector<std::uint64_t> shape;
};
// A plugin that makes pictures. Other plugins come last: CompiledPipeline::Afterwards.
struct PictureByPlugin {
  std::shared_ptr<step::StepPlugin> plugin;
  Extent2 size;  // that it makes; 0 x 0: the size they have
};

using StepKind =
    std::variant<Decode, Resize, CentreCrop, RandomResizedCrop, HorizontalFlip, ColourJitter,
                 PictureByPlugin, Normalisation, Cast, Layout, Tokens, Reshape>;

// Where in a pipeline a step may stand. Each of these has at most one step, except `picture` and
// `plugin`.
enum class StepStage : std::uint8_t {
  decode,
  picture,
  normalise,
  tokens,
  cast,
  layout,
  reshape,
  plugin
};

struct PipelineStep {
  std::string_view name;
  StepStage stage = StepStage::picture;
  bool random = false;
  StepKind kind;
  std::string text;  // name, version and parameters
};

// Throws ConfigError.
PipelineStep read_step(config::ConfigSection& section);

}  // namespace batchflow::prepare
