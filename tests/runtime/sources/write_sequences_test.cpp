// Sequences are written while the next are read: their bytes are the same as ever, and what fails
// on either side ends the packing.
#include "runtime/sources/write_sequences.h"

#include <doctest/doctest.h>

#include <set>

#include "core/base/random.h"
#include "core/log/frame_log.h"
#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/sources/megatron_bytes.h"

namespace batchflow::test::write_sequences_test {
namespace {

// Some 100 MB of documents, so that sequences are put together three times.
class Documents {
 public:
  Documents() {
    Random random(9);
    std::string some;
    for (int i = 0; i < 500'009; ++i) some += little(static_cast<std::uint16_t>(random.draw()));
    std::vector<std::int32_t> lengths;
    std::vector<std::uint64_t> firsts{0};
    for (std::uint64_t tokens = 0; tokens + 5'000 < 100 * std::uint64_t{500'009};) {
      lengths.push_back(static_cast<std::int32_t>(random.below(5'000)));
      firsts.push_back(lengths.size());
      tokens += static_cast<std::uint64_t>(lengths.back());
    }
    std::string all;
    for (int i = 0; i < 100; ++i) all += some;
    std::uint64_t tokens = 0;
    for (const std::int32_t length : lengths) tokens += static_cast<std::uint64_t>(length);
    data_.write("a.bin", std::string_view(all).substr(0, 2 * tokens));
    data_.write("a.idx", megatron_index(8, lengths, firsts));
    index_ = sources::open_index(source(data_.path()));
    root_ = sources::open_data(data_.path());
  }

  sources::SequenceCounts write(const Folder& to, const std::string& packing,
                                Bytes shard_bytes = Bytes{1} << 30,
                                const sources::StopAsked& stop = {}) const {
    return sources::write_sequences(*index_, *root_, {packing, 3, 7}, 2'048,
                                    {to.path(), "x", shard_bytes, "bfseq"}, stop, {});
  }

  // What packing says when it fails. It leaves nothing.
  std::string problem(const sources::StopAsked& stop = {}) const {
    const Folder to;
    std::string said = "nothing";
    try {
      write(to, "concat", Bytes{1} << 30, stop);
    } catch (const sources::DatasetError& error) {
      said = error.what();
    }
    CHECK(std::filesystem::is_empty(to.path()));
    return said;
  }

 private:
  Folder data_;
  std::unique_ptr<sources::SampleIndex> index_;
  std::shared_ptr<const sources::DataRoot> root_;
};

// Of all files, in the order of their names.
std::uint32_t checksum_of(const Folder& folder) {
  std::set<std::string> names;
  for (const auto& one : std::filesystem::directory_iterator(folder.path()))
    names.insert(one.path().filename());
  std::uint32_t checksum = 0;
  for (const std::string& name : names)
    checksum = log::crc32c(sources::as_bytes(folder.read(name)), checksum);
  return checksum;
}

struct Failing {
  explicit Failing(std::string_view text) { failpoint::configure_failpoints(text); }
  ~Failing() { failpoint::configure_failpoints(""); }
};

}  // namespace

TEST_CASE("the bytes of sequences are those that one thread wrote") {
  const Documents documents;
  const std::pair<const char*, std::uint32_t> expected[] = {
      {"concat", 92588897u}, {"whole", 1366514032u}, {"buckets", 2643894344u}};
  for (const auto& [packing, checksum] : expected) {
    CAPTURE(packing);
    const Folder once, again;
    const sources::SequenceCounts counts = documents.write(once, packing, Bytes{30} << 20);
    CHECK(counts.sequences > 24'000);
    CHECK(std::filesystem::exists(once / "x-00003.bfseq"));
    CHECK(checksum_of(once) == checksum);
    documents.write(again, packing, Bytes{30} << 20);
    CHECK(checksum_of(again) == checksum);
  }
}

TEST_CASE("what cannot be read or written ends packing, and leaves nothing") {
  const Documents documents;
  {
    // By the name of the failpoint and the seed, far from the first write.
    const Failing failing("sources.pack.write=fail:0.02:1,seed=1");
    CHECK(documents.problem().ends_with(
        "x-00000.bfseq.part: No space left on device; make room there, or let this user write"));
  }
  {
    const Failing failing("sources.read.error=fail:0.001:1,seed=1");
    CHECK(documents.problem().ends_with("Input/output error; look at the drive it is on"));
  }
  int asked = 0;
  CHECK(documents.problem([&] { return ++asked == 4; })
            .ends_with("stopped while it was being packed into sequences"));
}

}  // namespace batchflow::test::write_sequences_test
