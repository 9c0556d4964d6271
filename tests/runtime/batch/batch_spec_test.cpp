#include "runtime/batch/batch_spec.h"
#include "runtime/batch/batch_parts.h"

#include <cstring>
#include <vector>

#include "doctest/doctest.h"

namespace batchflow::test::batch_spec_test {
namespace {

batch::BatchSpec pictures_and_words() {
  batch::BatchSpec spec;
  spec.fields.push_back({"image", batch::ElementType::u8, {3, 5, 7}, false});
  spec.fields.push_back({"label", batch::ElementType::i64, {}, false});
  spec.fields.push_back({"words", batch::ElementType::u16, {9, 2}, true});
  return spec;
}

// Sample k: image full of k, label 10 k, k % 4 rows of words that count on from 100 k.
std::vector<std::byte> filled(const batch::BlockLayout& layout) {
  std::vector<std::byte> slot(layout.bytes);
  const batch::BlockWriter writer(layout, slot.data());
  for (std::uint32_t k = 0; k < layout.samples; ++k) {
    std::memset(writer.row(0, k), static_cast<int>(k), 3 * 5 * 7);
    const std::int64_t label = 10 * k;
    std::memcpy(writer.row(1, k), &label, sizeof label);
    std::byte* rows = writer.begin_rows(2, k);
    for (std::uint16_t i = 0; i < 2 * (k % 4); ++i) {
      const auto word = static_cast<std::uint16_t>(100 * k + i);
      std::memcpy(rows + i * sizeof word, &word, sizeof word);
    }
    writer.end_rows(2, k, k % 4);
    writer.set_key(k, SampleId(1000 + k), SampleId(1000 + k), 0);
  }
  return slot;
}

template <class T>
T at(const std::vector<std::byte>& slot, Bytes offset) {
  T value;
  std::memcpy(&value, slot.data() + offset, sizeof value);
  return value;
}

TEST_CASE("a block has room for all fields, without padding between samples") {
  const batch::BlockLayout layout(pictures_and_words(), 6);
  CHECK(layout.fields[0].row_bytes == 105);
  CHECK(layout.fields[1].row_bytes == 8);
  CHECK(layout.fields[2].row_bytes == 4);
  CHECK(layout.fields[0].values == 0);
  CHECK(layout.fields[1].values == 640);         // 6 x 105 = 630
  CHECK(layout.fields[2].values == 704);         // + 48
  CHECK(layout.fields[2].offsets == 704 + 256);  // 6 x 9 x 4 = 216
  CHECK(layout.keys == 960 + 64);                // 7 x 8
  CHECK(layout.bytes == 1024 + 64 + 64 + 64);
}

TEST_CASE("samples in pieces are what a copy of them into zeros is") {
  const batch::BatchSpec spec = pictures_and_words();
  const batch::BlockLayout block(spec, 8);
  const std::vector<std::byte> one = filled(block);
  for (std::uint32_t from = 0; from < 8; ++from) {
    for (std::uint32_t to = from + 1; to <= 8; ++to) {
      const batch::BlockLayout part(spec, to - from);
      std::vector<std::byte> copied(part.bytes), joined;
      batch::copy_samples(block, one.data(), from, to, part, copied.data(), 0, 0);
      const batch::BatchParts pieces(block, one.data(), from, to, part);
      for (const auto& piece : pieces.parts())
        joined.insert(joined.end(), piece.begin(), piece.end());
      CHECK(joined == copied);
    }
  }
}

TEST_CASE("samples of several blocks are gathered into one, ragged rows end to end") {
  const batch::BatchSpec spec = pictures_and_words();
  const batch::BlockLayout block(spec, 8);
  const batch::BlockLayout batch(spec, 5);
  const std::vector<std::byte> one = filled(block);
  std::vector<std::byte> slot(batch.bytes);
  batch::copy_samples(block, one.data(), 5, 8, batch, slot.data(), 0, 0);
  batch::copy_samples(block, one.data(), 0, 2, batch, slot.data(), 3, batch::kFiller);

  const std::uint32_t from[] = {5, 6, 7, 0, 1};
  std::int64_t rows = 0;
  for (std::uint32_t place = 0; place < 5; ++place) {
    const std::uint32_t k = from[place];
    CHECK(at<std::uint8_t>(slot, batch.fields[0].values + 105 * place + 104) == k);
    CHECK(at<std::int64_t>(slot, batch.fields[1].values + 8 * place) == 10 * k);
    CHECK(at<std::int64_t>(slot, batch.fields[2].offsets + 8 * place) == rows);
    for (std::uint32_t i = 0; i < 2 * (k % 4); ++i)
      CHECK(at<std::uint16_t>(slot, batch.fields[2].values + 4 * static_cast<Bytes>(rows) +
                                        2 * i) == 100 * k + i);
    rows += k % 4;
    CHECK(at<std::uint64_t>(slot, batch.keys + 8 * place) == 1000 + k);
    CHECK(at<std::uint8_t>(slot, batch.marks + place) == (place < 3 ? 0 : batch::kFiller));
  }
  CHECK(at<std::int64_t>(slot, batch.fields[2].offsets + 8 * 5) == rows);
}

TEST_CASE("fields that no batch can have are refused by name") {
  batch::BatchSpec spec;
  CHECK(spec.problem() == "a batch needs at least one field");
  spec = pictures_and_words();
  CHECK(spec.problem().empty());
  spec.fields[1].name = "image";
  CHECK(spec.problem() == "two fields are called 'image'");
  spec = pictures_and_words();
  spec.fields[0].shape = {3, 0};
  CHECK(spec.problem() == "field 'image' has a dimension of zero");
  spec.fields[0].shape = {1ull << 40, 1ull << 40};
  CHECK(spec.problem() == "field 'image' takes more than 68719476736 bytes a sample");
  spec = pictures_and_words();
  spec.fields[2].shape.clear();
  CHECK(spec.problem() == "field 'words' is ragged and has no dimension that could differ");
}

TEST_CASE("element types have names") {
  for (std::size_t i = 0; i < batch::kElementTypes; ++i) {
    const auto type = static_cast<batch::ElementType>(i);
    CHECK(batch::element_from(batch::element_name(type)) == type);
  }
  CHECK_FALSE(batch::element_from("float").has_value());
}

}  // namespace
}  // namespace batchflow::test::batch_spec_test
