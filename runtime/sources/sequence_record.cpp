#include "runtime/sources/sequence_record.h"

namespace batchflow::sources {

using batch::ElementType;

namespace {

std::vector<std::uint64_t> shape_of(const SequenceShape& shape) {
  if (shape.rows > 0) return {shape.rows, shape.length};
  return {shape.length};
}

}  // namespace

batch::BatchSpec stored_sequence(const SequenceShape& shape) {
  batch::BatchSpec spec;
  if (shape.whole) spec.fields.push_back({"lengths", ElementType::i32, {shape.places()}, true});
  spec.fields.push_back(
      {"tokens", shape.wide ? ElementType::i32 : ElementType::u16, shape_of(shape), false});
  return spec;
}

std::optional<SequenceShape> sequence_shape(const batch::BatchSpec& stored) {
  if (stored.fields.empty() || stored.fields.back().shape.empty()) return std::nullopt;
  const std::vector<std::uint64_t>& tokens = stored.fields.back().shape;
  const SequenceShape shape{tokens.back(), stored.fields.size() == 2,
                            stored.fields.back().type == ElementType::i32,
                            tokens.size() > 1 ? tokens.front() : 0};
  if (stored != stored_sequence(shape)) return std::nullopt;
  return shape;
}

batch::BatchSpec sequence_fields(const SequenceShape& shape) {
  batch::BatchSpec spec{{{"tokens", ElementType::i32, shape_of(shape), false}}};
  if (shape.whole)
    for (const char* name : {"positions", "segments"})
      spec.fields.push_back({name, ElementType::i32, shape_of(shape), false});
  return spec;
}

}  // namespace batchflow::sources
