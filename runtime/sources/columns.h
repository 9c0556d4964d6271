// Which columns of a table are served, where each row is a sample: one column is the sample, and
// one its label. This is for MDS shards and for Arrow's files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/batch/batch_spec.h"

namespace batchflow::sources {

struct Column {
  // `other` is what makes no sample: lists of lists, times, pixels in a form of their own.
  enum class Kind { picture, bytes, text, numbers, whole_number, other };
  std::string name;
  std::string type;  // as the file calls it
  Kind kind = Kind::other;
  // Of columns of numbers, as many in each row, and of one whole number. Without a shape: lists of
  // any length.
  batch::ElementType element = batch::ElementType::u8;
  std::vector<std::uint64_t> shape = {};
};

struct ChosenColumns {
  std::size_t sample = 0;
  std::optional<std::size_t> label;
  std::string left_out;  // for people: the columns that are not served; empty: none
  std::string problem;   // what is wrong, and what to do; empty: nothing
};

// `sample` and `label` are names that the user gave; empty: the obvious ones are chosen.
ChosenColumns choose_columns(std::span<const Column> columns, std::string_view sample,
                             std::string_view label);

// The field of a batch that the column becomes. `least` and `largest`: the fewest and the most
// bytes of a row. Lists of numbers that all have the same length are of one shape.
batch::Field field_of(const Column& column, Bytes least, Bytes largest);

// The names of types as NumPy has them: `int32`, `float16`. None: no batch has such numbers.
std::optional<batch::ElementType> element_of_numpy(std::string_view name);
bool is_whole(batch::ElementType type);
// The number that these bytes are; none: they are not as many as a number of the column has.
std::optional<std::int64_t> whole_number_in(const Column& column, std::span<const std::byte> bytes);

}  // namespace batchflow::sources
