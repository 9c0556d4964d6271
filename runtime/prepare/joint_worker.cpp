#include "runtime/prepare/joint_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/prepare/places.h"
#include "runtime/prepare/write_field.h"

namespace batchflow::prepare {
namespace {

// Further away no picture has pixels, and what is reckoned stays finite.
constexpr float kCoordinateMost = 1e9f;

void to_corners(BoxFormat format, std::span<float> boxes) {
  for (std::size_t at = 0; at + 4 <= boxes.size(); at += 4) {
    float* const box = boxes.data() + at;
    if (format == BoxFormat::centre_and_size) {
      box[0] -= box[2] / 2;
      box[1] -= box[3] / 2;
    }
    if (format != BoxFormat::corners) {
      box[2] += box[0];
      box[3] += box[1];
    }
  }
}

}  // namespace

bool JointWorker::fail(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

bool JointWorker::begin(const CompiledPipeline& pipeline, const sources::RecordParts& parts,
                        Bytes numbers, const batch::BlockWriter& out, std::uint32_t index) {
  masks_.clear();
  needs_ = 0;
  Bytes for_sounds = 0;  // one after the other
  for (const JointField& field : pipeline.joint()) {
    if (!find_parts(field, parts)) {
      if (field.entry.optional) continue;
      return false;
    }
    const sources::Part* const part = parts_.front();
    if (field.entry.kind == FieldKind::mask) {
      masks_.push_back({part->bytes, field.entry.name, field.entry.fill,
                        pipeline.spec().fields[field.numbers.field].type,
                        out.row(field.numbers.field, index)});
    } else if (field.entry.kind == FieldKind::sound) {
      if (!sounds_.open(*field.numbers.sound, part->bytes))
        return fail(fmt::format("field '{}': {}", field.entry.name, sounds_.problem()));
      for_sounds = std::max(for_sounds, sounds_.needs(*field.numbers.sound));
    } else if (field.entry.kind == FieldKind::bytes) {
      if (field.entry.stored.form == StoredForm::json)
        needs_ = memory::counted_sum(needs_, 2 * part->bytes.size());
    } else {
      // Numbers that are not written out yet have no bytes. Which boxes stay is a byte for each.
      for (const sources::Part* const one : parts_) {
        const Bytes taken =
            StoredValues::needs(*one, field.entry.stored, field.numbers.stored.type);
        needs_ = memory::counted_sum(needs_, memory::counted_product(2, taken));
      }
    }
  }
  needs_ = memory::counted_sum(needs_, memory::counted_product(2, numbers));
  needs_ = memory::counted_sum(needs_, for_sounds);
  return true;
}

bool JointWorker::write(const CompiledPipeline& pipeline, const sources::RecordParts& parts,
                        std::span<const Operation> operations, Extent2 extent,
                        std::uint64_t draw_key, const batch::BlockWriter& out,
                        std::uint32_t index) {
  const std::vector<JointField>& fields = pipeline.joint();
  kept_.resize(fields.size());
  const Moved moved{operations, extent, draw_key};
  // Boxes first: their rows decide about rows of others.
  for (const bool boxes : {true, false})
    for (std::size_t i = 0; i < fields.size(); ++i)
      if ((fields[i].entry.kind == FieldKind::boxes) == boxes &&
          fields[i].entry.kind != FieldKind::mask)
        if (!write_one(pipeline, i, parts, moved, out, index)) return false;
  return true;
}

bool JointWorker::write_one(const CompiledPipeline& pipeline, std::size_t at,
                            const sources::RecordParts& parts, const Moved& moved,
                            const batch::BlockWriter& out, std::uint32_t index) {
  const JointField& field = pipeline.joint()[at];
  const FieldEntry& entry = field.entry;
  const bool stored = find_parts(field, parts);
  if (entry.kind == FieldKind::sound)
    return (sounds_.open(*field.numbers.sound, parts_.front()->bytes) &&
            sounds_.write(*field.numbers.sound, moved.draw_key,
                          pipeline.spec().fields[field.numbers.field], out, field.numbers.field,
                          index)) ||
           fail(fmt::format("field '{}': {}", entry.name, sounds_.problem()));
  sources::Part part{entry.part, field.numbers.stored.type, {}};
  if (stored && !read(field, part))
    return fail(fmt::format("field '{}': {}", entry.name, problem_));
  if (entry.kind != FieldKind::bytes) {
    std::span<std::byte> bytes = stored ? values_.result() : std::span<std::byte>();
    if (follows_picture(entry.kind)) {
      const std::span<float> numbers(reinterpret_cast<float*>(bytes.data()),
                                     bytes.size() / sizeof(float));
      if (!place(field, moved, numbers))
        return fail(fmt::format("field '{}': {}", entry.name, problem_));
    }
    if (entry.kind == FieldKind::boxes) leave_out_boxes(field, kept_[at], bytes);
    if (field.rows_of && !leave_out_rows(pipeline, field, bytes))
      return fail(fmt::format("field '{}': {}", entry.name, problem_));
    part.bytes = bytes;
  }
  if (write_field(field.numbers, pipeline.spec().fields[field.numbers.field], part, out,
                  field.numbers.field, index))
    return true;
  return fail(fmt::format("field '{}' has {} rows of {} bytes, and may have {}", entry.name,
                          part.bytes.size() / field.numbers.stored.row_bytes(),
                          field.numbers.stored.row_bytes(), field.numbers.stored.rows_most()));
}

bool JointWorker::find_parts(const JointField& field, const sources::RecordParts& parts) {
  const FieldEntry& entry = field.entry;
  parts_.clear();
  const std::span<const std::string> names =
      entry.columns.empty() ? std::span(&entry.part, 1) : std::span(entry.columns);
  for (const std::string& name : names) {
    parts_.push_back(parts.part(name));
    if (!parts_.back())
      return fail(fmt::format("it has no '{}', of which field '{}' is", name, entry.name));
  }
  return true;
}

bool JointWorker::read(const JointField& field, sources::Part& part) {
  const FieldEntry& entry = field.entry;
  const sources::Part& stored = *parts_.front();
  if (entry.kind == FieldKind::bytes) {
    if (stored.type != batch::ElementType::u8) return fail("it holds numbers, and no bytes");
    if (entry.stored.form != StoredForm::json) {
      part.bytes = stored.bytes;
      return true;
    }
    if (!values_.text(stored, entry.stored)) return fail(values_.problem());
    part.bytes = values_.result();
    return true;
  }
  const batch::Field& wanted = field.numbers.stored;
  if (entry.columns.empty()
          ? values_.numbers(stored, entry.stored, wanted.type, field.row, wanted.ragged)
          : values_.columns(parts_, entry.stored, wanted.type))
    return true;
  return fail(values_.problem());
}

bool JointWorker::place(const JointField& field, const Moved& moved, std::span<float> numbers) {
  const FieldEntry& entry = field.entry;
  const std::size_t each = static_cast<std::size_t>(field.row.back());
  const std::size_t coordinates = entry.kind == FieldKind::boxes ? 4 : 2;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i % each >= coordinates) continue;
    if (entry.is_share)
      numbers[i] *=
          static_cast<float>(i % each % 2 == 0 ? moved.extent.width : moved.extent.height);
    if (!(std::fabs(numbers[i]) <= kCoordinateMost))
      return fail(fmt::format("row {} has the coordinate {}", i / each, numbers[i]));
  }
  if (entry.kind == FieldKind::points) {
    move_points(moved.operations, moved.extent, each, numbers);
    return true;
  }
  to_corners(entry.format, numbers);
  move_boxes(moved.operations, moved.extent, numbers);
  return true;
}

void JointWorker::leave_out_boxes(const JointField& field, std::vector<std::uint8_t>& kept,
                                  std::span<std::byte>& bytes) {
  constexpr std::size_t each = 4 * sizeof(float);
  const auto* const boxes = reinterpret_cast<const float*>(bytes.data());
  const std::size_t rows = bytes.size() / each;
  kept.assign(rows, 1);
  std::size_t to = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const float, 4> box(boxes + 4 * row, 4);
    if (field.entry.least && !field.entry.least->keeps(box))
      kept[row] = 0;
    else
      std::memmove(bytes.data() + each * to++, bytes.data() + each * row, each);
  }
  bytes = bytes.first(each * to);
}

bool JointWorker::leave_out_rows(const CompiledPipeline& pipeline, const JointField& field,
                                 std::span<std::byte>& bytes) {
  const std::vector<std::uint8_t>& kept = kept_[*field.rows_of];
  const Bytes each = field.numbers.stored.row_bytes();
  const std::size_t rows = bytes.size() / each;
  if (rows != kept.size())
    return fail(fmt::format("it has {} rows, and '{}' {}", rows,
                            pipeline.joint()[*field.rows_of].entry.name, kept.size()));
  std::size_t to = 0;
  for (std::size_t row = 0; row < rows; ++row)
    if (kept[row] != 0) std::memmove(bytes.data() + each * to++, bytes.data() + each * row, each);
  bytes = bytes.first(each * to);
  return true;
}

}  // namespace batchflow::prepare
