// The index of each format, compared sample by sample with the data that the test wrote.
#include <fcntl.h>

#include <cstring>

#include "doctest/doctest.h"
#include "runtime/sources/record.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::formats_test {

namespace {

std::vector<std::string> names_of(const sources::SampleIndex& index) {
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < index.samples(); ++i)
    names.push_back(index.sample_name(SampleId(i)));
  return names;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("pictures: classes by folders, ascending bytes of paths, other files counted") {
  Folder data;
  data.write("b/2.JPG", "two");
  data.write("b/sub/1.png", "nested");
  data.write("b.c/1.jpeg", "dot");  // '.' comes before '/': its files do, too
  data.write("a/9.jpg", "nine");
  data.write("a/10.jpg", "");
  data.write("a/notes.txt", "no picture");
  data.write("top.jpg", "in no class");
  data.write(".hidden/1.jpg", "hidden");
  std::filesystem::create_directories(data / "empty");
  const auto index = sources::open_index(source(data.path()));
  CHECK(index->kind() == sources::RecordKind::whole);
  CHECK(names_of(*index) == Names{"a/10.jpg", "a/9.jpg", "b.c/1.jpeg", "b/2.JPG", "b/sub/1.png"});
  CHECK(index->classes() == Names{"a", "b", "b.c", "empty"});
  const std::int64_t labels[] = {0, 0, 2, 1, 1};
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(index->label(SampleId(i)) == labels[i]);
  CHECK(index->extent(SampleId(0)).bytes == 0);
  CHECK(bytes_of(*index, data.path(), 4) == "nested");
  CHECK(has_note(*index, "2 files are not images and are passed over, such as a/notes.txt"));
  CHECK(has_note(*index, "class 'empty' (3) is empty"));
  const engine::Catalogue catalogue = index->catalogue();
  CHECK(catalogue.samples() == 5);
  CHECK(catalogue.total_bytes() == 16);
  CHECK(catalogue.classes() == 4);
  CHECK(catalogue.label(SampleId(2)) == 2);
}

TEST_CASE("pictures without folders have no classes") {
  Folder data;
  data.write("1.png", "1");
  data.write("0.png", "0");
  const auto index = sources::open_index(source(data.path()));
  CHECK(names_of(*index) == Names{"0.png", "1.png"});
  CHECK(index->classes().empty());
  CHECK_FALSE(index->label(SampleId(0)).has_value());
}

TEST_CASE("links stay inside; pipes and links that lead out are passed over") {
  Folder data, other;
  other.write("out.bin", "secret");
  data.write("in.bin", "inside");
  data.write("folder/x.bin", "x");
  std::filesystem::create_symlink("in.bin", data / "link.bin");
  std::filesystem::create_symlink(other / "out.bin", data / "out.bin");
  std::filesystem::create_symlink("../nowhere", data / "gone.bin");
  std::filesystem::create_directory_symlink("folder", data / "again");
  REQUIRE(mkfifo((data / "pipe").c_str(), 0600) == 0);
  const auto index = sources::open_index(source(data.path(), "files"));
  CHECK(names_of(*index) ==
        Names{"folder/x.bin"});  // folders are classes: those at the root are not
  CHECK(has_note(*index, "3 links"));
  CHECK(has_note(*index, "1 devices"));
}

TEST_CASE("a dataset that is itself a pipe, a socket or a device is refused as that") {
  Folder data;
  REQUIRE(mkfifo((data / "pipe").c_str(), 0600) == 0);
  REQUIRE(mknod((data / "socket").c_str(), S_IFSOCK | 0600, 0) == 0);
  const auto refused = [](const std::filesystem::path& path, std::string_view kind) {
    const std::string why = fmt::format(
        "{}: it is {}, and no regular file or folder; write the folder or file that holds the data",
        path.string(), kind);
    CHECK(error_of(source(path)) == why);
    // The same where a job has opened it and shows it.
    const protocol::Descriptor shown(open(path.c_str(), O_PATH | O_CLOEXEC));
    CHECK_THROWS_WITH_AS(sources::open_shown(path, shown.get()), why.c_str(),
                         sources::DatasetError);
  };
  refused(data / "pipe", "a pipe");
  refused(data / "socket", "a socket");
  refused("/dev/null", "a device");
  refused("/dev/zero", "a device");
}

TEST_CASE("WebDataset: keys up to the first dot, long names, labels, extents") {
  const std::string long_name = std::string(150, 'd') + "/" + std::string(120, 'n');
  std::string tar = tar_member("set", "", '5');
  tar += tar_member("set/a.jpg", std::string(1000, 'a')) + tar_member("set/a.cls", "7\n");
  tar += tar_member("README", "belongs to none");
  tar += tar_member("set/b.x.jpg", "b") + tar_member("set/b.json", "{}");
  const std::size_t third = tar.size();
  tar += gnu_member(long_name + ".jpg", "gnu") + gnu_member(long_name + ".cls", "12");
  tar += pax_member(long_name + "p.jpg", "pax");
  tar += tar_header("q.jpg", 1, '0', "pre/fix") + tar_blocks("q");
  Folder data;
  data.write("0.tar", tar + tar_end());
  data.write("1.tar", tar_member("z.jpg", "z") + tar_end());
  data.write("README.md", "text");
  const auto index = sources::open_index(source(data.path()));
  CHECK(index->kind() == sources::RecordKind::tar);
  CHECK(names_of(*index) == Names{"set/a", "set/b", long_name, long_name + "p", "pre/fix/q", "z"});
  CHECK(index->label(SampleId(0)) == 7);
  CHECK_FALSE(index->label(SampleId(1)).has_value());
  CHECK(index->label(SampleId(2)) == 12);
  CHECK_FALSE(index->label(SampleId(5)).has_value());
  const sources::Extent first = index->extent(SampleId(0));
  CHECK(first.offset == 512);                  // behind the folder's header
  CHECK(first.bytes == 512 + 1024 + 512 + 2);  // to the end of the last member's bytes
  CHECK(index->extent(SampleId(2)).offset == third);
  CHECK(index->extent(SampleId(5)).file == 1);
  CHECK(index->path(1) == "1.tar");

  sources::RecordParts parts;
  for (const auto& [sample, part, text] : {std::tuple{0, "cls", "7\n"},
                                           {1, "x.jpg", "b"},
                                           {1, "json", "{}"},
                                           {2, "jpg", "gnu"},
                                           {2, "cls", "12"},
                                           {3, "jpg", "pax"},
                                           {4, "jpg", "q"},
                                           {5, "jpg", "z"}}) {
    const std::string record = bytes_of(*index, data.path(), static_cast<std::uint64_t>(sample));
    REQUIRE(parts.find(sources::RecordKind::tar, std::as_bytes(std::span(record)), {}));
    REQUIRE(parts.part(part) != nullptr);
    CHECK(sources::as_text(parts.part(part)->bytes) == text);
  }
}

TEST_CASE("parts of samples are fields: dense where all have as many, else ragged") {
  Folder tar;
  tar.write("a.tar", tar_member("1.jpg", "jpeg") + tar_member("1.cls", "4") +
                         tar_member("1.vec", "123") + tar_member("1.jpg", "more than the first") +
                         tar_member("2.jpg", "jp") + tar_member("2.cls", "5") +
                         tar_member("2.vec", "456") + tar_member("2.txt", "only here") +
                         tar_member("3.big", std::string(9999, 'x')));  // and cut
  const auto shards = tar.read("a.tar");
  tar.write("a.tar", shards.substr(0, shards.size() - 5000));
  CHECK(sources::open_index(source(tar.path()))->stored_fields() ==
        batch::BatchSpec{{{"cls", batch::ElementType::u8, {}, false},
                          {"jpg", batch::ElementType::u8, {4}, true},
                          {"txt", batch::ElementType::u8, {9}, true},
                          {"vec", batch::ElementType::u8, {3}, false}}});

  // Those of a record that is damaged do not count; the same from the index that is kept.
  Folder records, kept;
  std::string bytes;
  for (int i = 0; i < 3; ++i)
    bytes += tfrecord(example(float_feature("box", {1, 2, 3, 4}) +
                              int_feature("tags", std::vector<std::int64_t>(i, 9))));
  bytes[bytes.size() - 5] ^= 1;
  records.write("a.tfrecord", bytes);
  sources::SourceOptions options = source(records.path());
  options.index_folder = kept.path();
  for (int i = 0; i < 2; ++i)
    CHECK(sources::open_index(options)->stored_fields() ==
          batch::BatchSpec{{{"box", batch::ElementType::f32, {4}, false},
                            {"tags", batch::ElementType::i64, {1}, true}}});

  const auto note = [&](const std::string& content) {
    records.write("a.tfrecord", content);
    const auto index = sources::open_index(source(records.path()));
    CHECK(index->stored_fields().fields.empty());
    return index->notes().at(0);
  };
  CHECK(
      note(tfrecord(example(int_feature("x", {1}))) + tfrecord(example(float_feature("x", {1})))) ==
      "samples as they are stored cannot make a batch: 'x' is i64 here and f32 there; a pipeline "
      "has "
      "to name the part that it works on (field: NAME)");
  std::string many;
  for (int i = 0; i < 65; ++i) many += int_feature(fmt::format("f{}", i), {1});
  CHECK(note(tfrecord(example(many))).find("parts of more than 64 names") != std::string::npos);
  CHECK(note(tfrecord("no example")).find("a batch needs at least one field") != std::string::npos);
}

TEST_CASE("a tar that was cut: the samples before the cut are served, the cut is named") {
  std::string tar;
  for (int i = 0; i < 5; ++i)
    tar += tar_member(fmt::format("{}.jpg", i), std::string(600, 'x')) +
           tar_member(fmt::format("{}.cls", i), "1");
  Folder data;
  data.write("cut.tar", tar.substr(0, 2560 * 3 + 512 + 100));  // in the picture of sample 3
  const auto cut = sources::open_index(source(data.path()));
  CHECK(names_of(*cut) == Names{"0", "1", "2"});
  CHECK(has_note(*cut, "cut.tar: cut at byte 7680 of 8292; the 3 samples before it are served"));

  data.write("cut.tar", tar);
  const auto unmarked = sources::open_index(source(data.path()));
  CHECK(unmarked->samples() == 5);
  CHECK(has_note(*unmarked, "has no mark of its end after 5 samples"));

  tar[2560 * 2 + 20] = 'X';  // a header that does not sum up
  data.write("cut.tar", tar + tar_end());
  const auto damaged = sources::open_index(source(data.path()));
  CHECK(names_of(*damaged) == Names{"0"});  // the damaged member may have been a part of 1
  CHECK(has_note(*damaged, "damaged at byte 5120"));

  data.write("cut.tar", "\x1f\x8b\x08 this is gzip");
  CHECK(error_of(source(data.path())).find("unpack it to a plain tar") != std::string::npos);
}

TEST_CASE("TFRecord: features of every kind, checksums, cuts") {
  const std::string one =
      example(bytes_feature("image/encoded", {"jpeg"}) + int_feature("image/class/label", {42}) +
              int_feature("unpacked", {-1, 300, 5}, false) + float_feature("f", {1.5F, -2}) +
              float_feature("g", {0.25F}, false) + bytes_feature("words", {"a", "bc"}));
  const std::string two = example(int_feature("label", {3}) + int_feature("none", {}));
  Folder data;
  std::string bytes = tfrecord(one) + tfrecord(two) + tfrecord(one);
  data.write("train-00000-of-00001", bytes);
  auto index = sources::open_index(source(data.path()));
  CHECK(index->kind() == sources::RecordKind::example);
  CHECK(names_of(*index) ==
        Names{"train-00000-of-00001:0", "train-00000-of-00001:1", "train-00000-of-00001:2"});
  CHECK(index->label(SampleId(0)) == 42);
  CHECK(index->label(SampleId(1)) == 3);

  sources::RecordParts parts;
  const std::string record = bytes_of(*index, data.path(), 0);
  REQUIRE(parts.find(sources::RecordKind::example, std::as_bytes(std::span(record)), {}));
  CHECK(sources::as_text(parts.part("image/encoded")->bytes) == "jpeg");
  CHECK(parts.part("unpacked")->type == batch::ElementType::i64);
  CHECK(sources::as_text(parts.part("unpacked")->bytes) ==
        little(std::int64_t{-1}) + little(std::int64_t{300}) + little(std::int64_t{5}));
  CHECK(parts.part("f")->type == batch::ElementType::f32);
  CHECK(sources::as_text(parts.part("f")->bytes) == little(1.5F) + little(-2.F));
  CHECK(sources::as_text(parts.part("g")->bytes) == little(0.25F));
  CHECK(parts.parts().size() == 7);  // two words

  // A payload that changed is one corrupt sample; a length that changed ends the file.
  std::string wrong = bytes;
  wrong[tfrecord(one).size() + 14] ^= 1;
  data.write("train-00000-of-00001", wrong);
  index = sources::open_index(source(data.path()));
  CHECK(index->samples() == 3);
  CHECK(has_note(*index, "record 1 is corrupt: the checksum of the TFRecord does not fit"));
  wrong[tfrecord(one).size()] ^= 1;
  data.write("train-00000-of-00001", wrong);
  index = sources::open_index(source(data.path()));
  CHECK(index->samples() == 1);
  CHECK(has_note(*index, fmt::format("damaged at byte {}", tfrecord(one).size())));
  data.write("train-00000-of-00001", bytes.substr(0, bytes.size() - 1));
  index = sources::open_index(source(data.path()));
  CHECK(index->samples() == 2);
  CHECK(has_note(*index, "cut at byte"));
}

TEST_CASE("the masked checksum is TensorFlow's") {
  // The published check value of CRC-32C, 0xe3069283, rotated by 15 and offset.
  CHECK(masked("123456789") == ((0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u));
}

TEST_CASE("NumPy: rows of all files end to end, versions 1 to 3, what cannot be read") {
  const auto rows = [](int from, int to) {
    std::string data;
    for (int row = from; row < to; ++row)
      for (int k = 0; k < 6; ++k) data += little(static_cast<std::int16_t>(100 * row + k));
    return data;
  };
  Folder data;
  data.write("a.npy", npy("<i2", "(3, 2, 3)", rows(0, 3)));
  data.write("b.npy", npy("<i2", "(0, 2, 3)", "", 2));
  data.write("c.npy", npy("<i2", "(2, 2, 3)", rows(3, 5), 3));
  auto index = sources::open_index(source(data.path()));
  CHECK(index->kind() == sources::RecordKind::rows);
  REQUIRE(index->samples() == 5);
  CHECK(index->stored_fields().fields[0] ==
        batch::Field{"data", batch::ElementType::i16, {2, 3}, false});
  for (int row = 0; row < 5; ++row)
    CHECK(bytes_of(*index, data.path(), static_cast<std::uint64_t>(row)) == rows(row, row + 1));
  CHECK(index->sample_name(SampleId(3)) == "c.npy:0");
  CHECK(index->catalogue().is_uniform());

  data.write("c.npy", npy("<i2", "(2, 2, 3)", rows(3, 5).substr(0, 23), 3));
  index = sources::open_index(source(data.path()));
  CHECK(index->samples() == 4);
  CHECK(has_note(*index, "c.npy: cut after 1 of 2 rows"));

  data.write("c.npy", npy("<i2", "(2, 3, 2)", rows(3, 5)));
  CHECK(
      error_of(source(data.path())) ==
      "data: c.npy: its rows are i16[3, 2], those of a.npy are i16[2, 3]; keep arrays of one type "
      "and shape in a folder");
  for (const auto& [bytes, says] :
       {std::pair{npy(">f4", "(1, 1)", "1234"), "a batch cannot have its type >f4"},
        {npy("<u8", "(1,)", "12345678"), "a batch cannot have its type <u8"},
        {npy("<f4", "(1, 2)", "12345678", 1, "True"), "numpy.ascontiguousarray"},
        {npy("<f4", "()", "1234"), "it is a single number"},
        {npy("<f4", "(1, 0)", ""), "a dimension of zero"},
        {npy("<f4", "(1, 1", "1234"), "its header is damaged"},
        {npy("<f4", "(1,)", "1234", 4), "it has version 4"},
        {std::string("\x93NUMPY\x01\x00\xff\xff{", 11), "its header is damaged"},
        {std::string("not NumPy at all"), "it is not a NumPy file"}}) {
    data.write("a.npy", bytes);
    const std::string error = error_of(source(data / "a.npy", "numpy"));
    CAPTURE(error);
    CHECK(error.find(says) != std::string::npos);
  }
}

TEST_CASE("tokens are cut into samples; the rest is named") {
  Folder data;
  data.write("a.u16", std::string(2 * 10, 'a'));
  data.write("b.u16", std::string(2 * 9 + 1, 'b'));
  sources::SourceOptions options = source(data.path());
  options.tokens_per_sample = 4;
  auto index = sources::open_index(options);
  CHECK(index->samples() == 4);
  CHECK(index->stored_fields().fields[0] ==
        batch::Field{"tokens", batch::ElementType::u16, {4}, false});
  CHECK(index->extent(SampleId(2)).file == 1);
  CHECK(bytes_of(*index, data.path(), 3) == "bbbbbbbb");
  CHECK(has_note(*index, "b.u16: its last 3 bytes"));

  data.write("all.bin", std::string(32, 'c'));
  options.root = data / "all.bin";
  CHECK(error_of(options).find("let its name end in .u16 or .u32") != std::string::npos);
  options.token_type = "u32";
  index = sources::open_index(options);
  CHECK(index->samples() == 2);
  CHECK(index->stored_fields().fields[0].type == batch::ElementType::i32);
  options.tokens_per_sample = 0;
  options.format = "tokens";
  CHECK(error_of(options).find("write tokens: 1024 (--dataset NAME=PATH,tokens=1024") !=
        std::string::npos);
}

TEST_CASE("the format is found out, or given") {
  Folder data;
  data.write("part-a", tfrecord(example(int_feature("label", {1}))));
  auto index = sources::open_index(source(data.path()));
  CHECK(index->kind() == sources::RecordKind::example);
  CHECK(has_note(*index, "format tfrecord, by what is in it"));
  index = sources::open_index(source(data / "part-a", "files"));
  CHECK(index->kind() == sources::RecordKind::whole);
  CHECK(error_of(source(data.path(), "tfrecords")) ==
        "data: format 'tfrecords' is not known; write tfrecord");
  CHECK(error_of(source(data.path(), "webdataset")).find("it is not a tar file") !=
        std::string::npos);
  // Most bytes decide.
  data.write("more.tar", tar_member("a.jpg", std::string(9999, 'a')) + tar_end());
  data.write("one.jpg", "x");
  CHECK(sources::open_index(source(data.path()))->kind() == sources::RecordKind::tar);
  Folder zipped;
  zipped.write("a.tar.gz", "zipped");
  CHECK(error_of(source(zipped.path())).find("unpack them to plain tars") != std::string::npos);
  Folder empty;
  CHECK(error_of(source(empty.path())).find("there are no files") != std::string::npos);
  CHECK(error_of(source(empty / "gone")).find("write the folder or file that holds the data") !=
        std::string::npos);
}

}  // namespace batchflow::test::formats_test
