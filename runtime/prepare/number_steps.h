// The steps of a pipeline that work on stored numbers and sounds: each changes how the numbers are
// made, and what shape and type they have then. Each throws ConfigError.
#pragma once

#include <cstdint>

#include "runtime/prepare/pipeline_draft.h"

namespace batchflow::prepare {

// A field that steps work on.
struct NumbersField {
  NumbersPlan& plan;
  batch::Field& made;   // what it has become so far
  bool is_own = false;  // the steps are those of one of `fields`
};

// Plans the stored fields that become fields of the batch. If a part is named, it is the only one.
// Otherwise `label` replaces the part that it was read from.
void plan_numbers(PipelineDraft& draft);
// The field that the pipeline's steps work on where no picture is decoded.
NumbersField worked_on(PipelineDraft& draft, config::ConfigSection& section);

// REQUIRES: tokens, reshape, cast, or a step for sounds
void take_number_step(config::ConfigSection& section, const PipelineDraft& draft,
                      NumbersField field, const PipelineStep& step, std::uint32_t index);

}  // namespace batchflow::prepare
