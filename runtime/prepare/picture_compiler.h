// The steps of a pipeline that make and change pictures: what becomes of a picture, and which size
// it has then. A view is compiled as a picture of its own, from what the steps before it made.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/prepare/pipeline_draft.h"

namespace batchflow::prepare {

class PictureCompiler {
 public:
  explicit PictureCompiler(PipelineDraft& draft) : draft_(draft) {}

  // The size of the pictures so far, if all have the same.
  const std::optional<Extent2>& extent() const { return extent_; }
  // Of the decoded form.
  const std::optional<Extent2>& kept_extent() const { return kept_extent_; }
  // The decoded form is what all steps so far have made.
  void keep();
  // Each takes a step.
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t, const Decode& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t index,
            const Clip& step);
  void take(config::ConfigSection&, const PipelineStep&, std::uint32_t, const Normalisation& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t index,
            const RandomErasing& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t, const Cast& step);
  void take(config::ConfigSection&, const PipelineStep&, std::uint32_t, const Layout& step);
  void take(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index,
            const PictureByPlugin& kind);
  // Steps that change pictures.
  template <class Kind>
  void take(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index,
            const Kind&) {
    extent_ = made_by(section, step.name, step.kind, extent_);
    draft_.parts.picture->steps.push_back({step.kind, index});
  }
  // Makes the field, unless that is done.
  void end();

  // Begins the steps of a view, which is field `field` of the batch. `extent` is that of the
  // pictures that it is made from.
  void begin_view(std::size_t field, const std::optional<Extent2>& extent);
  void end_views() { view_field_.reset(); }
  bool is_view() const { return view_field_.has_value(); }

 private:
  // Checks what a step makes of every picture, whatever becomes of it later.
  void check_extent(config::ConfigSection& section, std::string_view key, std::string_view name,
                    const std::optional<Extent2>& extent) const;
  // The size that a step makes of pictures of size `before`, if all have the same.
  std::optional<Extent2> made_by(config::ConfigSection& section, std::string_view name,
                                 const StepKind& step, const std::optional<Extent2>& before) const;
  void end_clip(batch::Field& field);

  PipelineDraft& draft_;
  std::optional<Extent2> extent_;
  std::optional<Extent2> kept_extent_;
  std::optional<Normalisation> normalisation_;
  std::optional<batch::ElementType> cast_;
  bool planes_ = false;
  std::optional<std::size_t> view_field_;  // of the view that is compiled
};

}  // namespace batchflow::prepare
