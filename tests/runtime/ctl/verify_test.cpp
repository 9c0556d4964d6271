// Every kind of damage is found by name, and nothing that is sound is; what cannot be read is no
// damage.
#include "runtime/ctl/verify_dataset.h"

#include <nlohmann/json.hpp>

#include "doctest/doctest.h"
#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/sources/dataset_files.h"

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
  std::string only;
  const protocol::Descriptor root = sources::open_root(data.path(), only);
  return verify_dataset(*index, root.get(), options);
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

TEST_CASE("unreadable samples differ from corrupt ones, after three tries") {
  const Folder data;
  for (int i = 0; i < 3; ++i) data.write(fmt::format("{}.jpg", i), jpeg(i));
  const auto index = sources::open_index(source(data.path()));
  std::string only;
  const protocol::Descriptor root = sources::open_root(data.path(), only);
  failpoint::configure_failpoints(
      "sources.read.error=fail:1:2");  // two tries, and the third is well
  VerifyReport report = verify_dataset(*index, root.get(), {});
  CHECK(report.sound());
  failpoint::configure_failpoints("sources.read.error=fail:1:3");
  report = verify_dataset(*index, root.get(), {});
  failpoint::configure_failpoints("");
  CHECK(report.corrupt == 0);
  CHECK(report.unreadable == 1);
  CHECK(names(report) == Names{"0.jpg"});
  std::filesystem::remove(data / "1.jpg");
  report = verify_dataset(*index, root.get(), {});
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
