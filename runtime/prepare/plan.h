// A pipeline as it is carried out: which part of a sample is used, and what is done to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/random.h"
#include "runtime/prepare/finish.h"
#include "runtime/prepare/joint_fields.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/prepare/steps.h"

namespace batchflow::prepare {

struct PictureStep {
  StepKind kind;           // one that stands at StepStage::picture
  std::uint32_t draw = 0;  // its index among all steps: core/order/keys.h, step_seed
};

struct PlannedErasing {
  RandomErasing step;
  std::uint32_t draw = 0;
};

struct PicturePlan {
  DecodeLimits limits;
  std::vector<PictureStep> steps;
  std::size_t kept = 0;  // how many of these the decoded form has behind it
  std::size_t field = 0;
  std::optional<Finish> finish;
  std::optional<PlannedErasing> erasing;
};

// Several frames of a group, each of which is a picture; all have the same draws.
struct ClipPlan {
  Clip clip;
  std::uint32_t draw = 0;
  Bytes bytes = 0;  // of one frame of the batch
};

// Several views of one picture: each draws for itself.
struct ViewPlan {
  PicturePlan plan;         // of what the pipeline's steps have made
  std::uint32_t first = 0;  // its index among the views of all fields
  std::uint32_t count = 0;
  Bytes bytes = 0;  // of one view
};

// How a stored field of numbers becomes a field of the batch.
struct NumbersPlan {
  batch::Field stored;
  std::size_t field = 0;
  std::optional<SoundPlan> sound = {};
  std::optional<Tokens> tokens = {};  // its result has the type of the batch's field
};

// A field that stands beside the picture.
struct JointField {
  FieldEntry entry;
  // `stored` is the field once it has been read; of a mask only the field of the batch counts.
  NumbersPlan numbers;
  std::vector<std::uint64_t> row;      // the shape of one of its rows
  std::optional<std::size_t> rows_of;  // which joint field its rows belong to
};

// What plugins do to the field that the other steps have made.
struct Afterwards {
  struct PlannedStep {
    std::shared_ptr<step::StepPlugin> plugin;
    std::uint32_t draw = 0;
  };
  std::size_t field = 0;      // of the batch
  batch::BatchSpec before;    // that field alone, as plugins get it
  batch::BlockLayout layout;  // of one sample of `before`
  std::vector<PlannedStep> steps;
  // How many of these the decoded form has behind it: the deterministic steps at the beginning,
  // where a sample is one field of numbers. 0: no form of its own is kept.
  std::size_t kept = 0;
};

// All that a pipeline is. Its compiler fills it.
struct PipelineParts {
  std::string name;
  batch::BatchSpec spec;
  engine::PipelineInfo info;
  std::string text;
  std::vector<std::string> step_names;
  sources::RecordKind kind = sources::RecordKind::whole;
  // If a record has several parts, the one that is used; empty: the one with a usual name.
  std::string part;
  batch::BatchSpec stored;
  std::optional<PicturePlan> picture;
  // Where the pictures are frames: `picture` is what is done to each.
  std::optional<ClipPlan> clip;
  std::vector<NumbersPlan> numbers;
  // Fields that are views of the picture; then the picture is no field itself. Views draw as a step
  // with the index `views_draw` does.
  std::vector<ViewPlan> views;
  std::uint32_t views_draw = 0;
  std::vector<JointField> joint;  // in the order of the batch; the picture is not one of them
  std::optional<std::size_t> label_field;
  std::optional<Afterwards> afterwards;
  std::vector<std::shared_ptr<step::StepPlugin>> plugins;  // all of them
};

class CompiledPipeline final : public Pipeline {
 public:
  explicit CompiledPipeline(PipelineParts parts) : parts_(std::move(parts)) {}

  const std::string& name() const override { return parts_.name; }
  const batch::BatchSpec& spec() const override { return parts_.spec; }
  const engine::PipelineInfo& info() const override { return parts_.info; }
  std::string describe() const override { return parts_.text; }
  const std::vector<std::string>& step_names() const override { return parts_.step_names; }
  std::span<const std::shared_ptr<step::StepPlugin>> plugins() const override {
    return parts_.plugins;
  }

  sources::RecordKind kind() const { return parts_.kind; }
  const std::string& part() const { return parts_.part; }
  const batch::BatchSpec& stored() const { return parts_.stored; }
  const std::optional<PicturePlan>& picture() const { return parts_.picture; }
  const std::optional<ClipPlan>& clip() const { return parts_.clip; }
  const std::vector<NumbersPlan>& numbers() const { return parts_.numbers; }
  bool has_sound() const {  // of one field
    return std::any_of(numbers().begin(), numbers().end(),
                       [](const NumbersPlan& one) { return one.sound.has_value(); });
  }
  const std::vector<ViewPlan>& views() const { return parts_.views; }
  std::uint32_t views_draw() const { return parts_.views_draw; }
  const std::vector<JointField>& joint() const { return parts_.joint; }
  std::optional<std::size_t> label_field() const { return parts_.label_field; }
  const std::optional<Afterwards>& afterwards() const { return parts_.afterwards; }

 private:
  const PipelineParts parts_;
};

}  // namespace batchflow::prepare
