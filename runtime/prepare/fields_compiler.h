// The entries of a pipeline's `fields`: what each is read from, the steps that it has of its own,
// and how they stand in the batch. docs/fields.md is this as users see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/prepare/number_steps.h"
#include "runtime/prepare/pipeline_draft.h"

namespace batchflow::prepare {

class FieldsCompiler {
 public:
  explicit FieldsCompiler(PipelineDraft& draft) : draft_(draft) {}

  // Takes all fields; `steps` counts their steps too.
  void add(std::size_t& steps);
  // Checks them once the pipeline's steps are known. `extent` is the size of the pictures that
  // these make.
  void end(const std::optional<Extent2>& extent);

 private:
  // A field, and its steps as they are read.
  struct Own {
    JointField& field;
    StepStage stage = StepStage::decode;
    std::uint32_t steps = 0;
  };
  void add_field(config::ConfigSection& section, std::size_t& steps);
  void add_picture(config::ConfigSection& section, const FieldEntry& entry);
  void add_step(config::ConfigSection& section, Own& own);
  void find_rows_of(JointField& field);

  PipelineDraft& draft_;
  bool draws_ = false;  // a step of a field draws
};

}  // namespace batchflow::prepare
