// Tars as Python's own module writes them, in each of its formats.
#include <cstdlib>

#include "doctest/doctest.h"
#include "tests/runtime/sources/dataset_files.h"
#include "tests/skip.h"

namespace batchflow::test::tarfile_test {

TEST_CASE("tars of Python's tarfile have the samples that were put in") {
  if (std::system("python3 -c 'import tarfile' 2>/dev/null") != 0)
    return skipped("python3 is not there");
  const std::string folder(90, 'f');
  for (const char* format : {"USTAR_FORMAT", "GNU_FORMAT", "PAX_FORMAT"}) {
    CAPTURE(format);
    Folder data;
    data.write("make.py", fmt::format(R"(import io, tarfile
with tarfile.open("{}", "w", format=tarfile.{}) as tar:
  for i in range(20):
    for ending, text in (("jpg", "p" * i * 100), ("cls", str(i))):
      info = tarfile.TarInfo("{}/" + "n" * (i * 4 + 1) + "." + ending)
      info.size = len(text)
      info.mtime = 1.5 if "PAX" in "{}" else 1
      tar.addfile(info, io.BytesIO(text.encode()))
)",
                                      (data / "a.tar").string(), format, folder, format));
    REQUIRE(std::system(fmt::format("python3 {}", (data / "make.py").string()).c_str()) == 0);
    const auto index = sources::open_index(source(data.path()));
    REQUIRE(index->samples() == 20);
    for (std::uint64_t i = 0; i < 20; ++i) {
      CHECK(index->sample_name(SampleId(i)) == folder + "/" + std::string(i * 4 + 1, 'n'));
      CHECK(index->label(SampleId(i)) == static_cast<std::int64_t>(i));
    }
    CHECK_FALSE(has_note(*index, "a.tar: "));
  }
}

}  // namespace batchflow::test::tarfile_test
