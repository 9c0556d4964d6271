// Shards of MosaicML Streaming and files of Arrow, in place: which columns are served, and what
// damage does.
#include <zlib.h>

#include "doctest/doctest.h"
#include "runtime/sources/record.h"
#include "tests/runtime/sources/arrow_bytes.h"
#include "tests/runtime/sources/dataset_files.h"
#include "tests/runtime/sources/mds_bytes.h"

namespace batchflow::test::tables_test {

namespace {

std::string number(std::int64_t value) {
  return little(value);
}

const std::vector<MdsColumn> kPictures{
    {"caption", "str", "null"}, {"image", "jpeg", "null"}, {"class", "int", "8"}};

}  // namespace

TEST_CASE("mds: a picture and a label of each row, by the columns' encodings and names") {
  Folder data;
  data.write("shard.00000.mds",
             mds(kPictures, {{"one", "picture 0", number(4)}, {"", "the second", number(-2)}}));
  data.write("shard.00001.mds", mds(kPictures, {{"three", "", number(7)}}));
  data.write("index.json", "{}");
  const auto index = sources::open_index(source(data.path()));
  CHECK(index->kind() == sources::RecordKind::value);
  REQUIRE(index->samples() == 3);
  CHECK(bytes_of(*index, data.path(), 0) == "picture 0");
  CHECK(bytes_of(*index, data.path(), 1) == "the second");
  CHECK(bytes_of(*index, data.path(), 2) == "");
  CHECK(index->label(SampleId(0)) == 4);
  CHECK(index->label(SampleId(1)) == -2);
  CHECK(index->label(SampleId(2)) == 7);
  CHECK(index->sample_name(SampleId(2)) == "shard.00001.mds:0");
  REQUIRE(index->stored_fields().fields.size() == 1);
  CHECK(index->stored_fields().fields[0] ==
        batch::Field{"image", batch::ElementType::u8, {10}, true});
  CHECK(has_note(*index, "columns that are not served: caption"));
}

TEST_CASE("mds: the user names the columns") {
  Folder data;
  const std::vector<MdsColumn> columns{{"image", "jpeg", "null"},
                                       {"mask", "png", "null"},
                                       {"label", "int", "8"},
                                       {"other", "str_int", "null"}};
  data.write("0.mds", mds(columns, {{"picture", "mask", number(1), "23"}}));
  sources::SourceOptions options = source(data.path());
  options.column = "mask";
  options.label_column = "other";
  const auto index = sources::open_index(options);
  CHECK(bytes_of(*index, data.path(), 0) == "mask");
  CHECK(index->label(SampleId(0)) == 23);
  options.column = "label";
  CHECK(error_of(options).find("column 'label' is int, and a sample is bytes") !=
        std::string::npos);
  options.column = "nothing";
  CHECK(error_of(options).find("it has no column 'nothing'; its columns are image (jpeg)") !=
        std::string::npos);
  options.column = "mask";
  options.label_column = "image";
  CHECK(error_of(options).find("column 'image' is no whole number") != std::string::npos);
}

TEST_CASE("mds: arrays of one shape are numbers, and a row of another size is corrupt") {
  Folder data;
  const std::vector<MdsColumn> columns{{"tokens", "ndarray:uint16:4", "8"}};
  data.write("0.mds", mds(columns, {{"abcdefgh"}, {"ijklmnop"}}));
  const auto index = sources::open_index(source(data.path()));
  REQUIRE(index->stored_fields().fields.size() == 1);
  CHECK(index->stored_fields().fields[0] ==
        batch::Field{"tokens", batch::ElementType::u16, {4}, false});
  CHECK(bytes_of(*index, data.path(), 1) == "ijklmnop");
  sources::RecordParts parts;
  const std::string row = "ijklmnop";
  CHECK(parts.find(index->kind(), std::as_bytes(std::span(row)), index->stored_fields()));
  CHECK_FALSE(
      parts.find(index->kind(), std::as_bytes(std::span(row).first(7)), index->stored_fields()));
}

TEST_CASE(
    "mds: a row with sizes that do not fit is one corrupt sample; a damaged shard is refused") {
  Folder data;
  std::string shard = mds(kPictures, {{"a", "bb", number(1)}, {"a", "cc", number(2)}});
  const std::size_t sizes_of_second = shard.size() - 8 - 3 - 8;
  std::string wrong = shard;
  wrong.replace(sizes_of_second + 4, 4, little(std::uint32_t{200}));
  data.write("0.mds", wrong);
  {
    const auto index = sources::open_index(source(data.path()));
    CHECK(index->samples() == 2);
    CHECK(bytes_of(*index, data.path(), 0) == "bb");
    CHECK(index->extent(SampleId(1)).bytes == 0);
    CHECK(has_note(*index, "0.mds: sample 1 is corrupt"));
  }
  data.write("0.mds", shard.substr(0, shard.size() - 1));
  CHECK(error_of(source(data.path())).find("copy it again") != std::string::npos);
  data.write("0.mds", "MDS");
  CHECK(error_of(source(data.path())).find("it is no MDS shard") != std::string::npos);
  data.write("0.mds", little(std::uint32_t{0xffffffff}) + "rest");
  CHECK(error_of(source(data.path())).find("it is no MDS shard") != std::string::npos);
  data.write("0.mds", shard);
  data.write("1.mds", mds({{"x", "bytes", "null"}}, {{"bytes"}}));
  CHECK(error_of(source(data.path())).find("its columns differ from those of 0.mds") !=
        std::string::npos);
}

std::string gzipped(const std::string& bytes) {
  z_stream zip{};
  REQUIRE(deflateInit2(&zip, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(bytes.size() + 1024, '\0');
  zip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zip.avail_in = static_cast<uInt>(bytes.size());
  zip.next_out = reinterpret_cast<Bytef*>(out.data());
  zip.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&zip, Z_FINISH) == Z_STREAM_END);
  out.resize(zip.total_out);
  deflateEnd(&zip);
  return out;
}

// An index.json as Streaming writes it. Each shard: its name, its bytes, its samples; and the name
// and bytes of its compressed form.
struct IndexEntry {
  std::string name;
  std::size_t bytes, samples;
  std::string zip = "";
  std::size_t zip_bytes = 0;
};
std::string index_json(const std::vector<IndexEntry>& shards) {
  std::string all;
  for (const IndexEntry& one : shards) {
    const auto file = [](const std::string& name, std::size_t bytes) {
      return fmt::format(R"({{"basename": "{}", "bytes": {}, "hashes": {{}}}})", name, bytes);
    };
    all += fmt::format(R"({}{{"format": "mds", "samples": {}, "raw_data": {}, "zip_data": {}}})",
                       all.empty() ? "" : ", ", one.samples, file(one.name, one.bytes),
                       one.zip.empty() ? "null" : file(one.zip, one.zip_bytes));
  }
  return fmt::format(R"({{"shards": [{}], "version": 2}})", all);
}

TEST_CASE("mds: an index.json has to fit the shards beside it") {
  Folder data;
  const std::string two = mds(kPictures, {{"a", "bb", number(1)}, {"a", "cc", number(2)}});
  const std::string one = mds(kPictures, {{"a", "dd", number(3)}});
  data.write("0.mds", two);
  data.write("below/1.mds", one);
  const auto says = [&](const std::vector<IndexEntry>& shards) {
    data.write("index.json", index_json(shards));
    return error_of(source(data.path()));
  };
  data.write("index.json", index_json({{"0.mds", two.size(), 2}, {"below/1.mds", one.size(), 1}}));
  CHECK(sources::open_index(source(data.path()))->samples() == 3);
  // A folder below may have an index of its own, and none above it.
  data.write("index.json", index_json({{"0.mds", two.size(), 2}}));
  data.write("below/index.json", index_json({{"1.mds", one.size(), 1}}));
  CHECK(sources::open_index(source(data.path()))->samples() == 3);
  std::filesystem::remove(data.path() / "below/index.json");

  CHECK(says({{"0.mds", two.size(), 2}, {"2.mds", 100, 1}})
            .find("index.json: it names 2.mds, which is not there; copy that, too") !=
        std::string::npos);
  CHECK(says({{"0.mds", two.size() + 1, 2}})
            .find(fmt::format("0.mds: it has {} bytes, and {} by index.json", two.size(),
                              two.size() + 1)) != std::string::npos);
  CHECK(says({{"0.mds", two.size(), 3}})
            .find("0.mds: it has 2 samples, and 3 by index.json; copy both again") !=
        std::string::npos);
  data.write("old.mds", one);
  CHECK(says({{"0.mds", two.size(), 2}}).find("old.mds: index.json does not name it") !=
        std::string::npos);
  data.write("index.json", "{\"shards\": [");
  CHECK(error_of(source(data.path())).find("index.json: it is no JSON") != std::string::npos);
}

TEST_CASE("mds: a shard that lies there unpacked, too, is read once") {
  Folder data;
  const std::string shard = mds(kPictures, {{"a", "bb", number(1)}});
  data.write("0.mds", shard);
  data.write("1.mds", shard);
  data.write("1.mds.zstd", "whatever it holds");
  data.write("index.json", index_json({{"0.mds", shard.size(), 1},
                                       {"1.mds", shard.size(), 1, "1.mds.zstd", 17}}));
  const auto index = sources::open_index(source(data.path()));
  CHECK(index->samples() == 2);
  CHECK(index->files() == 2);
  CHECK(has_note(*index, "1 compressed shards are passed over"));
  // A compressed shard beside a whole one: what has to be unpacked is, and the other is copied.
  data.write("2.mds.gz", gzipped(shard));
  data.write("index.json",
             index_json({{"0.mds", shard.size(), 1},
                         {"1.mds", shard.size(), 1, "1.mds.zstd", 17},
                         {"2.mds", shard.size(), 1, "2.mds.gz", gzipped(shard).size()}}));
  Folder state;
  sources::SourceOptions options = source(data.path());
  options.unpack_folder = state.path();
  CHECK(sources::open_index(options)->samples() == 3);
  CHECK(error_of(source(data.path())).find("there is no folder to unpack them to") !=
        std::string::npos);
  std::filesystem::remove(data.path() / "2.mds.gz");
  data.write("index.json", index_json({{"0.mds", shard.size(), 1},
                                       {"1.mds", shard.size(), 1, "1.mds.zstd", 18}}));
  CHECK(error_of(source(data.path())).find("1.mds.zstd: it has 17 bytes, and 18 by index.json") !=
        std::string::npos);
}

TEST_CASE("a column is refused where there are none") {
  Folder sounds, records;
  sounds.write("one.wav", "RIFF");
  records.write("0.tar", tar_member("0.txt", "text") + tar_end());
  sources::SourceOptions options = source(sounds.path());
  options.column = "left";
  CHECK(error_of(options).find("column 'left' is for tables, and this is read as files, which has "
                               "no columns; leave it out, or write the format") !=
        std::string::npos);
  options.column = "";
  options.label_column = "class";
  CHECK(error_of(options).find("label 'class' is for tables") != std::string::npos);
  options = source(records.path());
  options.column = "txt";
  CHECK(error_of(options).find("read as webdataset, which has no columns; leave it out; a pipeline "
                               "names the part of a record that it works on (field: NAME)") !=
        std::string::npos);
}

TEST_CASE("mds: no cut and no changed byte makes the index leave its file") {
  const std::string shard = mds(kPictures, {{"a", "bb", number(1)}, {"c", "dddd", number(2)}});
  for (std::size_t i = 0; i < 2 * shard.size(); ++i) {
    std::string damaged = shard.substr(0, i < shard.size() ? i : shard.size());
    if (i >= shard.size()) damaged[i - shard.size()] = static_cast<char>(i * 7 + 255);
    Folder data;
    data.write("0.mds", damaged);
    try {
      const auto index = sources::open_index(source(data.path(), "mds"));
      for (std::uint64_t sample = 0; sample < index->samples(); ++sample) {
        const sources::Extent extent = index->extent(SampleId(sample));
        CHECK(extent.offset + extent.bytes <= damaged.size());
      }
    } catch (const sources::DatasetError&) {
    }
  }
}

TEST_CASE("arrow: files and streams have the same rows, and the classes that are noted") {
  for (const std::string_view bytes : {kArrowFile, kArrowStream}) {
    Folder data;
    data.write("train.arrow", from_base64(bytes));
    const auto index = sources::open_index(source(data.path()));
    CHECK(index->kind() == sources::RecordKind::value);
    REQUIRE(index->samples() == 4);
    CHECK(bytes_of(*index, data.path(), 0) == "picture 0");
    CHECK(bytes_of(*index, data.path(), 1) == "the second");
    CHECK(bytes_of(*index, data.path(), 2) == "");
    CHECK(bytes_of(*index, data.path(), 3) == "last");
    CHECK(index->label(SampleId(0)) == 2);
    CHECK(index->label(SampleId(2)) == 1);
    CHECK_FALSE(index->label(SampleId(3)).has_value());
    CHECK(index->classes() == std::vector<std::string>{"cat", "dog", "owl"});
    CHECK(index->stored_fields().fields[0] ==
          batch::Field{"image", batch::ElementType::u8, {10}, true});
    CHECK(has_note(*index, "columns that are not served: caption"));
  }
}

TEST_CASE("arrow: splits of Hugging Face's cache are not mixed") {
  Folder data;
  data.write("pets-train-00000-of-00002.arrow", from_base64(kArrowStream));
  data.write("pets-train-00001-of-00002.arrow", from_base64(kArrowStream));
  CHECK(sources::open_index(source(data.path()))->samples() == 8);
  data.write("pets-test.arrow", from_base64(kArrowStream));
  CHECK(error_of(source(data.path())).find("it is of split train, and pets-test.arrow beside it") !=
        std::string::npos);
  CHECK(sources::open_index(source(data / "pets-test.arrow"))->samples() == 4);
}

TEST_CASE("arrow: lists of numbers") {
  Folder data;
  const auto only = [&](std::string_view bytes) {
    data.write("0.arrow", from_base64(bytes));
    return sources::open_index(source(data.path()));
  };
  {
    const auto index = only(kArrowLists);
    CHECK(index->stored_fields().fields[0] ==
          batch::Field{"input_ids", batch::ElementType::i32, {3}, false});
    CHECK(bytes_of(*index, data.path(), 1) == little(4) + little(5) + little(6));
    CHECK(index->label(SampleId(0)) == 1);
  }
  {
    const auto index = only(kArrowRagged);
    CHECK(index->stored_fields().fields[0] ==
          batch::Field{"ids", batch::ElementType::i32, {3}, true});
    CHECK(bytes_of(*index, data.path(), 0) == little(1));
  }
  {
    const auto index = only(kArrowFixed);
    REQUIRE(index->samples() == 3);
    CHECK(index->stored_fields().fields[0] ==
          batch::Field{"x", batch::ElementType::f32, {2}, false});
    CHECK(bytes_of(*index, data.path(), 2) == little(5.0F) + little(6.0F));
  }
  data.write("0.arrow", from_base64(kArrowCompressed));
  CHECK(error_of(source(data.path())).find("no folder to unpack them to") != std::string::npos);
}

TEST_CASE("arrow: a cut file is served up to the cut; no damage leaves the file") {
  const std::string whole = from_base64(kArrowStream);
  {
    Folder data;
    data.write("0.arrow", whole.substr(0, whole.size() - 100));
    const auto index = sources::open_index(source(data.path()));
    CHECK(index->samples() == 2);
    CHECK(has_note(*index, "0.arrow: cut; the 2 rows before it are served"));
  }
  Folder data;
  for (std::size_t i = 0; i < 2 * whole.size(); ++i) {
    std::string damaged = whole.substr(0, i < whole.size() ? i : whole.size());
    if (i >= whole.size()) damaged[i - whole.size()] = static_cast<char>(i * 7 + 255);
    data.write("0.arrow", damaged);
    try {
      const auto index = sources::open_index(source(data.path(), "arrow"));
      for (std::uint64_t sample = 0; sample < index->samples(); ++sample) {
        const sources::Extent extent = index->extent(SampleId(sample));
        CHECK(extent.offset + extent.bytes <= damaged.size());
      }
    } catch (const sources::DatasetError&) {
    }
  }
}

}  // namespace batchflow::test::tables_test
