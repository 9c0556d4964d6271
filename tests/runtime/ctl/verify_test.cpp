// Every kind of damage is found by name, and nothing that is sound is; what cannot be read is no
// damage.
#include "runtime/ctl/verify_dataset.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "doctest/doctest.h"
#include "runtime/audio/sound_file.h"
#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/sources/dataset_files.h"
#include "tests/skip.h"
#include "tests/source_dir.h"

namespace batchflow::test::verify_test {
using ctl::Finding;
using ctl::verify_dataset;
using ctl::VerifyOptions;
using ctl::VerifyReport;

namespace {

std::string text_of(const Encoded& encoded) {
  return {reinterpret_cast<const char*>(encoded.data()), encoded.size()};
}
std::string jpeg(std::uint64_t seed) {
  return text_of(encode_jpeg(40, 30, {}, seed));
}
std::string cut(std::string text) {
  text.resize(text.size() / 2);
  return text;
}

VerifyReport verified(const Folder& data, VerifyOptions options = {}) {
  const auto index = sources::open_index(source(data.path()));
  const auto root = sources::open_data(data.path());
  return verify_dataset(*index, *root, options);
}

std::vector<std::string> names(const VerifyReport& report) {
  std::vector<std::string> all;
  for (const Finding& one : report.findings) all.push_back(one.name);
  return all;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("pictures that do not decode are named, whatever they are called; others are sound") {
  const Folder data;
  for (int i = 0; i < 200; ++i) data.write(fmt::format("cat/{:03}.jpg", i), jpeg(i));
  data.write("dog/cut.jpg", cut(jpeg(1)));
  data.write("dog/empty.png", "");
  data.write("dog/png-called.jpg", text_of(encode_png(make_pixels(9, 9, 3, 1), 9, 9, {})));
  data.write("dog/zeros.jpg", std::string(5000, '\0'));
  data.write("dog/readable.ppm", "P6 is not decoded here");
  VerifyOptions options;
  options.threads = 3;
  const VerifyReport report = verified(data, options);
  CHECK(report.samples == 205);
  CHECK(report.pictures == 201);
  CHECK(report.corrupt == 3);
  CHECK(report.unreadable == 0);
  CHECK(names(report) == Names{"dog/cut.jpg", "dog/empty.png", "dog/zeros.jpg"});
  CHECK(report.findings[2].why == "neither JPEG, PNG, BMP, WebP, TIFF nor AVIF");
  CHECK_FALSE(report.sound());
}

TEST_CASE("a checksum that does not fit is found in TFRecords and in packed records") {
  const Folder records;
  std::string shard;
  for (int i = 0; i < 5; ++i)
    shard += tfrecord(example(bytes_feature("image/encoded", {i == 4 ? cut(jpeg(4)) : jpeg(i)})));
  const std::size_t each = shard.size() / 5;
  shard[each + each / 2] ^= 1;
  records.write("x.tfrecord", shard);
  const VerifyReport report = verified(records);
  CHECK(report.corrupt == 2);
  CHECK(names(report) == Names{"x.tfrecord:1", "x.tfrecord:4"});
  CHECK(report.checksums == 4);
  CHECK(report.findings[0].why.find("checksum") != std::string::npos);
  CHECK(report.findings[1].why.find("image/encoded: ") == 0);

  const Folder data, packed;
  for (int i = 0; i < 9; ++i) data.write(fmt::format("{}.jpg", i), jpeg(i));
  const std::filesystem::path destination = packed / "all";
  CHECK(run_ctl({"pack", data.path(), destination}, packed.path()).code == 0);
  const std::filesystem::path file = destination / "all-00000.bfpack";
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file) / 2));
    bytes.put('!');
  }
  const Outcome outcome = run_ctl({"verify", destination, "--json"}, packed.path());
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "");
  const auto told = nlohmann::json::parse(outcome.out);
  CHECK(told.at("corrupt") == 1);
  CHECK(told.at("samples") == 9);
  CHECK(told.at("pictures") == 8);
  CHECK(told.at("findings").at(0).at("name") == "all-00000.bfpack:4");
}

TEST_CASE("a picture that this build alone does not decode is not called corrupt") {
  const Folder data;
  data.write("a.bmp", jpeg(1));  // its content says what it is
  data.write("b.png", text_of(encode_png(make_pixels(9, 9, 3, 1), 9, 9, {})));
  std::array<prepare::PictureKind, prepare::kPictureKinds> kinds = prepare::picture_kinds();
  for (prepare::PictureKind& kind : kinds)
    if (kind.name == "JPEG") kind = {kind.name, kind.is, nullptr, "libjpeg-dev"};
  VerifyOptions options;
  options.kinds = kinds;
  const VerifyReport report = verified(data, options);
  CHECK(report.corrupt == 0);
  CHECK(report.unreadable == 1);
  CHECK(report.pictures == 1);
  CHECK(report.findings.at(0).why ==
        "JPEG, which this build does not decode: it was made without libjpeg-dev");
}

TEST_CASE("members of a tar are decoded by their names") {
  const Folder data;
  data.write("a.tar", tar_member("a.jpg", jpeg(1)) + tar_member("a.cls", "1") +
                          tar_member("b.jpg", "no picture") + tar_member("b.cls", "2") +
                          tar_member("c.txt", "no picture") + tar_end());
  const VerifyReport report = verified(data);
  CHECK(report.samples == 3);
  CHECK(report.pictures == 1);
  CHECK(names(report) == Names{"b"});
  CHECK(report.findings.at(0).why == "jpg: neither JPEG, PNG, BMP, WebP, TIFF nor AVIF");
}

TEST_CASE("sounds are decoded, by their names and by what they begin with") {
  if (!audio::has_sound_files()) return skipped("this build decodes no sound");
  const auto sound = [](const char* name) {
    std::ostringstream out;
    out << std::ifstream(source_dir() / "tests/runtime/prepare/golden_sound" / name,
                         std::ios::binary)
               .rdbuf();
    return out.str();
  };
  const Folder data;
  data.write("a.wav", sound("bytes.wav"));
  data.write("b.unknown", sound("mono.flac"));
  data.write("c.ogg", sound("mono.ogg"));
  data.write("cut.flac", cut(sound("mono.flac")));
  data.write("text.wav", "no sound");
  data.write("other.txt", "no sound");
  const VerifyReport report = verified(data);
  CHECK(report.samples == 6);
  CHECK(report.sounds == 3);
  CHECK(report.unreadable == 0);
  CHECK(names(report) == Names{"cut.flac", "text.wav"});

  const Folder tars;
  tars.write("a.tar", tar_member("a.wav", sound("bytes.wav")) + tar_member("a.txt", "speech") +
                          tar_member("b.wav", cut(sound("bytes.wav"))) +
                          tar_member("b.txt", "speech") + tar_end());
  const VerifyReport members = verified(tars);
  CHECK(members.sounds == 1);
  CHECK(names(members) == Names{"b"});
  CHECK(members.findings.at(0).why.find("wav: ") == 0);
}

TEST_CASE("what a pipeline reads of a sample is looked at, too: masks, boxes and the rest") {
  const Folder data, other;
  const auto mask = [](unsigned width) {
    return text_of(encode_png(make_pixels(width, 30, 1, 1), width, 30, {}));
  };
  data.write("a.tar", tar_member("a.jpg", jpeg(1)) + tar_member("a.mask.png", mask(40)) +
                          tar_member("a.json", R"({"boxes": [[1, 2, 3, 4]]})") +
                          tar_member("b.jpg", jpeg(2)) + tar_member("b.mask.png", mask(39)) +
                          tar_member("b.json", R"({"boxes": []})") + tar_member("c.jpg", jpeg(3)) +
                          tar_member("c.mask.png", mask(40)) +
                          tar_member("c.json", R"({"boxes": [[1, 2, 3]]})") + tar_end());
  CHECK(verified(data).sound());
  other.write("detect.yaml",
              "kind: pipeline\nname: detect\nfields:\n"
              "  - {field: image, kind: picture}\n"
              "  - {field: mask, kind: mask, from: mask.png}\n"
              "  - {field: boxes, kind: boxes, from: json, key: boxes}\n"
              "steps:\n  - {step: decode}\n  - {step: resize, size: [32, 32]}\n");
  const Outcome outcome =
      run_ctl({"verify", data.path(), "--pipeline", other / "detect.yaml", "--json"}, other.path());
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "");
  const auto told = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE_MESSAGE(told.is_object(), outcome.out);
  CHECK(told.at("prepared") == 1);
  CHECK(told.at("corrupt") == 2);
  CHECK(told.at("findings").at(0).at("name") == "b");
  CHECK(told.at("findings").at(0).at("why").get<std::string>().find("field 'mask'") == 0);
  CHECK(told.at("findings").at(1).at("name") == "c");
  CHECK(told.at("findings").at(1).at("why").get<std::string>().find("field 'boxes'") == 0);

  const Outcome wrong = run_ctl({"verify", data.path(), "--pipeline", "detectt"}, other.path());
  CHECK(wrong.code == 2);
}

TEST_CASE("unreadable samples differ from corrupt ones, after three tries") {
  const Folder data;
  for (int i = 0; i < 3; ++i) data.write(fmt::format("{}.jpg", i), jpeg(i));
  const auto index = sources::open_index(source(data.path()));
  const auto root = sources::open_data(data.path());
  failpoint::configure_failpoints(
      "sources.read.error=fail:1:2");  // two tries, and the third is well
  VerifyReport report = verify_dataset(*index, *root, {});
  CHECK(report.sound());
  failpoint::configure_failpoints("sources.read.error=fail:1:3");
  report = verify_dataset(*index, *root, {});
  failpoint::configure_failpoints("");
  CHECK(report.corrupt == 0);
  CHECK(report.unreadable == 1);
  CHECK(names(report) == Names{"0.jpg"});
  std::filesystem::remove(data / "1.jpg");
  report = verify_dataset(*index, *root, {});
  CHECK(report.corrupt == 0);
  CHECK(names(report) == Names{"1.jpg"});
  CHECK(report.findings[0].what == Finding::What::unreadable);
}

TEST_CASE("as many findings are kept as were asked for, the first ones; all are counted") {
  const Folder data;
  for (int i = 0; i < 500; ++i) data.write(fmt::format("{:03}.jpg", i), "x");
  VerifyOptions options;
  options.threads = 4;
  options.findings_most = 3;
  const VerifyReport report = verified(data, options);
  CHECK(report.corrupt == 500);
  CHECK(names(report) == Names{"000.jpg", "001.jpg", "002.jpg"});
}

TEST_CASE("exit codes: 0 sound, 1 corrupt, 2 no dataset, 1 no service that knows the name") {
  const Folder data, other;
  data.write("cat/1.jpg", jpeg(1));
  CHECK(run_ctl({"verify", data.path()}, other.path()).code == 0);
  data.write("cat/2.jpg", "x");
  const Outcome outcome = run_ctl({"verify", data.path()}, other.path());
  CHECK(outcome.code == 1);
  CHECK(outcome.out.find("corrupt     cat/2.jpg: neither JPEG, PNG, BMP, WebP, TIFF nor AVIF\n") !=
        std::string::npos);
  CHECK(run_ctl({"verify", "/no/such/place"}, other.path()).code == 2);
  CHECK(run_ctl({"verify"}, other.path()).code == 2);
  CHECK(run_ctl({"--service", other / "none", "verify", "imagenet"}, other.path()).code == 1);
}

}  // namespace batchflow::test::verify_test
