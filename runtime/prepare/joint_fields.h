// The fields of a pipeline that has several: what each is read from, and how it goes along with the
// picture. docs/fields.md is this as users see it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "programs/config/config.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/prepare/field_kind.h"
#include "runtime/prepare/stored_values.h"

namespace batchflow::prepare {

enum class BoxFormat : std::uint8_t { corners, corner_and_size, centre_and_size };

// Which boxes torchvision's SanitizeBoundingBoxes keeps, once they are clipped to the picture.
struct LeastBox {
  double side = 1;
  double area = 1;
  bool keeps(std::span<const float, 4> box) const;
};

// An entry of `fields` as it is written.
struct FieldEntry {
  std::string name;
  FieldKind kind = FieldKind::picture;
  std::string part;  // of a sample; empty: a picture with one of the usual names
  // Parts that each hold one number of every row, as TFRecords of boxes have them; then `part` is
  // the first of these.
  std::vector<std::string> columns;
  StoredAs stored;
  bool optional = false;  // a sample without the part has no rows
  std::optional<batch::ElementType> type;
  std::optional<std::vector<std::uint64_t>> shape;  // of a row
  std::optional<bool> ragged;
  std::uint64_t rows_most = 0;  // 0: as many as a sample of the dataset can have
  std::string rows_of;          // the field of boxes that its rows belong to
  std::uint32_t fill = 0;       // of a mask
  BoxFormat format = BoxFormat::corners;
  bool is_share = false;  // coordinates are shares of the picture's width and height
  std::optional<LeastBox> least;
  std::string text;  // all of it
};

// An entry of `views`: a field of `count` views of the picture.
struct ViewEntry {
  std::string name;
  std::uint32_t count = 1;
};

// Each throws ConfigError. It leaves the key `steps` to the caller.
FieldEntry read_field(config::ConfigSection& section);
ViewEntry read_view(config::ConfigSection& section);

}  // namespace batchflow::prepare
