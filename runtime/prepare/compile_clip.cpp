#include <fmt/format.h>

#include "core/order/keys.h"
#include "runtime/prepare/pipeline_compiler.h"
#include "runtime/video/group_decoder.h"

namespace batchflow::prepare {

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&,
                            std::uint32_t index, const Clip& step) {
  if (dataset_.kind() != sources::RecordKind::value || !dataset_.stored_fields().find("video"))
    section.refuse("step", fmt::format("dataset '{}' has no groups of frames", dataset_.name()),
                   "have a folder of video read as that: format: video");
  if (has_fields_ || !out_->views_.empty())
    section.refuse("step", "frames stand alone, with a label at most",
                   "leave 'fields' and 'views' out");
  out_->picture_.emplace();
  out_->clip_ = {step, index, 0};
  // What is kept of a group are its frames, whatever a clip takes of them.
  Digest kept = hash(0x766964656fULL);
  for (const char c : video::video_build()) kept = hash(kept, static_cast<unsigned char>(c));
  out_->info_.prefix_hash = kept;
}

// The field has one frame's type and shape.
void PipelineCompiler::end_clip(batch::Field& field) {
  ClipPlan& clip = *out_->clip_;
  clip.bytes = field.row_bytes();
  field.shape.insert(field.shape.begin(), clip.clip.frames);
}

}  // namespace batchflow::prepare
