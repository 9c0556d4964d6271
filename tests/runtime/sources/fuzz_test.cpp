// The parsers of this folder, on damaged input. BATCHFLOW_WRITE_CORPUS=1 writes the corpora again.
#include <cstdlib>

#include "runtime/sources/index_file.h"
#include "runtime/sources/pack_writer.h"
#include "runtime/sources/sequence_record.h"
#include "tests/fuzz/corpus.h"
#include "tests/runtime/sources/arrow_bytes.h"
#include "tests/runtime/sources/dataset_files.h"
#include "tests/runtime/sources/mds_bytes.h"
#include "tests/runtime/sources/megatron_bytes.h"

namespace batchflow::test::fuzz_test {

extern "C" Fuzzer fuzz_tar, fuzz_tfrecord, fuzz_npy, fuzz_packed, fuzz_index, fuzz_mds, fuzz_arrow,
    fuzz_megatron;

namespace {

using namespace std::literals;

void write_corpus(std::string_view name, const std::vector<std::string>& inputs) {
  const auto folder = source_dir() / "tests/fuzz" / name / "corpus";
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    std::ofstream(folder / std::to_string(i), std::ios::binary) << inputs[i];
}

std::string index_bytes(const Folder& data) {
  Folder indices;
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  sources::open_index(options);
  const auto file = std::filesystem::directory_iterator(indices.path())->path();
  return indices.read(file.filename().string());
}

void write_corpora() {
  const std::string tar = tar_member("a/1.jpg", "picture") + tar_member("a/1.cls", "12\n");
  const std::string name(130, 'n');
  write_corpus("tar", {tar + tar_end(), gnu_member(name + ".x", "gnu") + tar,
                       pax_member(name + ".y", "pax") + tar, tar_member("d", "", '5') + tar});
  const std::string mixed =
      example(bytes_feature("image/encoded", {"jpeg", "more"}) +
              int_feature("label", {1, -2, 300}) + int_feature("single", {7}, false) +
              float_feature("f", {1, 2}) + float_feature("g", {3}, false));
  write_corpus("tfrecord", {mixed, tfrecord(mixed), example(int_feature("label", {5}))});
  write_corpus("npy", {npy("<f4", "(3, 2)", ""), npy("|u1", "(5,)", "12345", 2),
                       npy("<i8", "(1, 2, 3, 4)", "", 3)});
  write_corpus("mds", {mds({{"image", "jpeg", "null"}, {"label", "int", "8"}},
                           {{"picture", little(std::int64_t{3})}, {"", little(std::int64_t{4})}}),
                       mds({{"tokens", "ndarray:uint16:2", "4"}, {"n", "str_int", "null"}},
                           {{"abcd", "17"}})});
  write_corpus("megatron", {megatron_index(8, {3, 0, 5}, {0, 1, 2, 3}),
                            megatron_index(4, {3, 4, 5}, {0, 2, 3}), megatron_index(8, {}, {0})});
  write_corpus("arrow",
               {from_base64(kArrowFile), from_base64(kArrowStream), from_base64(kArrowLists),
                from_base64(kArrowFixed), from_base64(kArrowCompressed)});

  Folder packed;
  const batch::BatchSpec spec{
      {{"label", batch::ElementType::i64, {}, false}, {"b", batch::ElementType::u8, {9}, true}}};
  sources::PackWriter writer({packed.path(), "x"}, spec, {"cat", "dog"});
  const std::int64_t label = 1;
  const std::span<const std::byte> values[] = {std::as_bytes(std::span(&label, 1)),
                                               sources::as_bytes("bytes")};
  writer.add(values);
  writer.add(values);
  writer.close();
  const std::string shard = packed.read("x-00000.bfpack");
  const std::string record =
      little(label) + little(std::uint64_t{2}) + "wordword" + little(std::uint64_t{3}) + "abc";
  write_corpus("packed", {shard, shard.substr(sources::kPackedPreamble), record});

  Folder pictures, shards, rows;
  pictures.write("a/1.jpg", "1");
  pictures.write("b/1.jpg", "22");
  shards.write("s.tar", tar + tar_member("b.jpg", "2") + tar_end());
  rows.write("r.npy", npy("<i2", "(3, 2)", "abcdabcdabcd"));
  Folder sequences;
  sources::PackWriter sequence_writer({sequences.path(), "x", 1 << 20, "bfseq"},
                                      sources::stored_sequence({4, true, false}),
                                      {"about", "rule"});
  const std::int32_t lengths[] = {1, 2};
  const std::span<const std::byte> sequence[] = {std::as_bytes(std::span(lengths)),
                                                 sources::as_bytes("aabbcc\0\0"sv)};
  sequence_writer.add(sequence);
  sequence_writer.close();
  write_corpus("index", {index_bytes(pictures), index_bytes(shards), index_bytes(rows),
                         index_bytes(sequences)});
}

}  // namespace

TEST_CASE("damaged datasets are refused or read, within their bytes") {
  if (std::getenv("BATCHFLOW_WRITE_CORPUS") != nullptr) write_corpora();
  const auto run = [](Fuzzer* fuzzer, const char* name) {
    fuzz(fuzzer, name, 3000, "test_sources", "damaged datasets*");
  };
  run(fuzz_tar, "tar");
  run(fuzz_tfrecord, "tfrecord");
  run(fuzz_npy, "npy");
  run(fuzz_packed, "packed");
  run(fuzz_index, "index");
  run(fuzz_mds, "mds");
  run(fuzz_arrow, "arrow");
  run(fuzz_megatron, "megatron");
}

}  // namespace batchflow::test::fuzz_test
