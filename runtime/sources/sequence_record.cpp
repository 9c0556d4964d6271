#include "runtime/sources/sequence_record.h"

namespace batchflow::sources {

using batch::ElementType;

batch::BatchSpec stored_sequence(const SequenceShape& shape) {
  batch::BatchSpec spec;
  if (shape.whole) spec.fields.push_back({"lengths", ElementType::i32, {shape.length}, true});
  spec.fields.push_back(
      {"tokens", shape.wide ? ElementType::i32 : ElementType::u16, {shape.length}, false});
  return spec;
}

std::optional<SequenceShape> sequence_shape(const batch::BatchSpec& stored) {
  if (stored.fields.empty() || stored.fields.back().shape.empty()) return std::nullopt;
  const SequenceShape shape{stored.fields.back().shape.front(), stored.fields.size() == 2,
                            stored.fields.back().type == ElementType::i32};
  if (stored != stored_sequence(shape)) return std::nullopt;
  return shape;
}

batch::BatchSpec sequence_fields(const SequenceShape& shape) {
  batch::BatchSpec spec{{{"tokens", ElementType::i32, {shape.length}, false}}};
  if (shape.whole)
    for (const char* name : {"positions", "segments"})
      spec.fields.push_back({name, ElementType::i32, {shape.length}, false});
  return spec;
}

}  // namespace batchflow::sources
