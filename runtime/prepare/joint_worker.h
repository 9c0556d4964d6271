// Prepares the fields of a sample that stand beside its picture, or beside each other.
//
// The picture worker prepares masks, since they need its decoders and loops. All other fields need
// only what was done to the picture.
#pragma once

#include <string>
#include <vector>

#include "runtime/prepare/operations.h"
#include "runtime/prepare/picture_worker.h"
#include "runtime/prepare/plan.h"
#include "runtime/prepare/sound.h"
#include "runtime/prepare/stored_values.h"

namespace batchflow::prepare {

class JointWorker {
 public:
  // Finds the masks, and what the other fields take at most of the scratch memory, where the
  // sample's numbers take `numbers`. False: a part is not there.
  bool begin(const CompiledPipeline& pipeline, const sources::RecordParts& parts, Bytes numbers,
             const batch::BlockWriter& out, std::uint32_t index);
  std::span<const MaskAlong> masks() const { return masks_; }
  Bytes needs() const { return needs_; }

  // Writes all fields but masks. `operations` were done to the picture, which had `extent`. Sounds
  // draw by `draw_key`.
  bool write(const CompiledPipeline& pipeline, const sources::RecordParts& parts,
             std::span<const Operation> operations, Extent2 extent, std::uint64_t draw_key,
             const batch::BlockWriter& out, std::uint32_t index);
  const std::string& problem() const { return problem_; }

  Bytes held() const { return values_.held() + sounds_.held(); }
  void drop() {
    values_.drop();
    sounds_.drop();
  }

 private:
  struct Moved {
    std::span<const Operation> operations;
    Extent2 extent;
    std::uint64_t draw_key;
  };

  bool write_one(const CompiledPipeline& pipeline, std::size_t at,
                 const sources::RecordParts& parts, const Moved& moved,
                 const batch::BlockWriter& out, std::uint32_t index);
  // The parts that a field is read from, in parts_. False: one is not there; problem() says which.
  bool find_parts(const JointField& field, const sources::RecordParts& parts);
  bool read(const JointField& field, sources::Part& part);
  bool place(const JointField& field, const Moved& moved, std::span<float> numbers);
  // Leaves out the boxes that are too small.
  void leave_out_boxes(const JointField& field, std::vector<std::uint8_t>& kept,
                       std::span<std::byte>& bytes);
  // Leaves out the rows of boxes that were left out.
  bool leave_out_rows(const CompiledPipeline& pipeline, const JointField& field,
                      std::span<std::byte>& bytes);
  bool fail(std::string problem);

  std::vector<MaskAlong> masks_;
  Bytes needs_ = 0;
  StoredValues values_;
  SoundWorker sounds_;
  std::vector<const sources::Part*> parts_;
  std::vector<std::vector<std::uint8_t>> kept_;  // of each field of boxes: which rows stay
  std::string problem_;
};

}  // namespace batchflow::prepare
