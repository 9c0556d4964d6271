// Packing and reading back: every field is the same, and an interrupted pack is never a dataset.
#include "runtime/sources/pack_dataset.h"

#include "doctest/doctest.h"
#include "runtime/sources/record.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::pack_test {
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

struct Packed {
  Folder folder;
  std::unique_ptr<sources::SampleIndex> index;
  explicit Packed(const sources::SampleIndex& from, const fs::path& root,
                  Bytes shard_bytes = 1 << 30, const std::vector<std::uint64_t>& left_out = {}) {
    std::string only;
    const protocol::Descriptor opened = sources::open_root(root, only);
    sources::pack_dataset(from, opened.get(), {folder.path(), "x", shard_bytes}, left_out, nullptr,
                          nullptr);
    index = sources::open_index(source(folder.path()));
  }
  std::string value(std::uint64_t sample, std::string_view field) const {
    sources::RecordParts parts;
    const std::string record = bytes_of(*index, folder.path(), sample);
    REQUIRE(parts.find(sources::RecordKind::packed, std::as_bytes(std::span(record)),
                       index->stored_fields()));
    REQUIRE(parts.part(field) != nullptr);
    return std::string(sources::as_text(parts.part(field)->bytes));
  }
};

void write_pictures(const Folder& data, int samples) {
  for (int i = 0; i < samples; ++i)
    data.write(fmt::format("{}/{:03}.jpg", i % 2 ? "cat" : "dog", i),
               std::string(static_cast<std::size_t>(100 + i), static_cast<char>('a' + i % 26)));
}

}  // namespace

TEST_CASE("class folders are packed with classes and labels, over shards") {
  Folder data;
  write_pictures(data, 50);
  const auto from = sources::open_index(source(data.path()));
  const Packed packed(*from, data.path(), 1500);
  CHECK(packed.index->files() > 4);
  CHECK(packed.index->kind() == sources::RecordKind::packed);
  CHECK(packed.index->classes() == Names{"cat", "dog"});
  CHECK(packed.index->stored_fields() ==
        batch::BatchSpec{{{"bytes", batch::ElementType::u8, {149}, true},
                          {"label", batch::ElementType::i64, {}, false}}});
  REQUIRE(packed.index->samples() == 50);
  for (std::uint64_t i = 0; i < 50; ++i) {
    CHECK(packed.index->label(SampleId(i)) == from->label(SampleId(i)));
    CHECK(packed.value(i, "bytes") == bytes_of(*from, data.path(), i));
    CHECK(packed.value(i, "label") == little(*from->label(SampleId(i))));
  }
  // Packed once more, the same fields and bytes.
  const Packed again(*packed.index, packed.folder.path());
  CHECK(again.index->stored_fields() == packed.index->stored_fields());
  CHECK(again.value(49, "bytes") == packed.value(49, "bytes"));
}

TEST_CASE("members and features become fields of their own") {
  Folder tar;
  tar.write("a.tar", tar_member("1.jpg", "jpeg") + tar_member("1.cls", "4") +
                         tar_member("2.jpg", "jp") + tar_member("2.cls", "5") +
                         tar_member("2.txt", "only here") + tar_end());
  const Packed members(*sources::open_index(source(tar.path())), tar.path());
  CHECK(members.index->stored_fields() ==
        batch::BatchSpec{{{"jpg", batch::ElementType::u8, {4}, true},
                          {"txt", batch::ElementType::u8, {9}, true},
                          {"label", batch::ElementType::i64, {}, false}}});
  CHECK(members.value(0, "txt").empty());
  CHECK(members.index->label(SampleId(1)) == 5);

  Folder records;
  std::string bytes;
  for (int i = 0; i < 3; ++i)
    bytes += tfrecord(example(int_feature("size", {i}) + float_feature("box", {1, 2, 3, 4}) +
                              int_feature("tags", std::vector<std::int64_t>(i, 9))));
  bytes[bytes.size() - 5] ^= 1;  // the last payload
  records.write("a.tfrecord", bytes);
  const auto damaged = sources::open_index(source(records.path()));
  CHECK_THROWS_WITH(Packed(*damaged, records.path()),
                    "data: a.tfrecord:2: the checksum of the TFRecord does not fit; it changes; "
                    "start again");
  CHECK_THROWS_WITH(
      Packed(*damaged, records.path(), 1 << 30, {0, 1, 2}),
      "data: all 3 samples are corrupt, and nothing was packed; `batchflowctl verify` "
      "names them");
  const Packed features(*damaged, records.path(), 1 << 30, {2});
  CHECK(features.index->samples() == 2);
  CHECK(features.index->stored_fields() ==
        batch::BatchSpec{{{"box", batch::ElementType::f32, {4}, false},
                          {"size", batch::ElementType::i64, {}, false},
                          {"tags", batch::ElementType::i64, {1}, true}}});
  CHECK(features.value(1, "tags") == little(std::int64_t{9}));
}

TEST_CASE("errors for damaged, missing and interrupted files say what to do") {
  Folder data;
  write_pictures(data, 20);
  const auto from = sources::open_index(source(data.path()));
  const Packed packed(*from, data.path(), 1000);
  const std::string first = packed.folder.read("x-00000.bfpack");
  const auto error = [&] { return error_of(source(packed.folder.path())); };

  packed.folder.write("x-00000.bfpack", first.substr(0, first.size() - 1));
  CHECK(error() ==
        "data: x-00000.bfpack: it has no index: packing was interrupted, or the file was cut; pack "
        "it again");
  std::string wrong = first;
  wrong[first.size() - sources::kPackedFooter - 5] ^= 1;
  packed.folder.write("x-00000.bfpack", wrong);
  CHECK(error() == "data: x-00000.bfpack: its index is damaged; pack it again");
  wrong = first;
  wrong[30] ^= 1;
  packed.folder.write("x-00000.bfpack", wrong);
  CHECK(error() == "data: x-00000.bfpack: its header is damaged; pack it again");
  packed.folder.write("x-00000.bfpack", first);
  CHECK(error() == "no error");

  // A byte of a record: one corrupt sample, and the version stays, since no record is read.
  wrong = first;
  wrong[packed.index->extent(SampleId(0)).offset + 20] ^= 1;
  packed.folder.write("x-00000.bfpack", wrong);
  const auto index = sources::open_index(source(packed.folder.path()));
  const std::string record = bytes_of(*index, packed.folder.path(), 0);
  sources::RecordParts parts;
  CHECK_FALSE(parts.find(sources::RecordKind::packed, std::as_bytes(std::span(record)),
                         index->stored_fields()));
  CHECK(parts.problem() == "the checksum of the packed record does not fit");
  packed.folder.write("x-00000.bfpack", first);

  fs::rename(packed.folder / "x-00001.bfpack", packed.folder / "gone");
  CHECK(error().find("it is shard 2, and shard 1 is missing") != std::string::npos);
  fs::rename(packed.folder / "gone", packed.folder / "x-00001.bfpack");
  const auto last = fmt::format("x-{:05}.bfpack", packed.index->files() - 1);
  fs::remove(packed.folder / last);
  CHECK(error().find("it is not the last shard") != std::string::npos);
}

TEST_CASE("a writer that is not closed leaves no file that is taken for a shard") {
  Folder folder;
  const batch::BatchSpec spec{{{"n", batch::ElementType::i64, {}, false}}};
  const std::int64_t number = 7;
  const std::span<const std::byte> value[] = {std::as_bytes(std::span(&number, 1))};
  const std::span<const std::byte> short_value[] = {value[0].first(7)};
  {
    sources::PackWriter writer({folder.path(), "x"}, spec, {});
    writer.add(value);
    CHECK_THROWS_WITH(writer.add(short_value), "x: record 1: 7 bytes are no value of field 'n'");
  }
  CHECK(fs::is_empty(folder.path()));
  sources::PackWriter writer({folder.path(), "x"}, spec, {});
  writer.add(value);
  writer.close();
  CHECK_THROWS_AS(sources::PackWriter({folder.path(), "x"}, spec, {}), sources::DatasetError);
  CHECK(sources::open_index(source(folder / "x-00000.bfpack"))->samples() == 1);
}

}  // namespace batchflow::test::pack_test
