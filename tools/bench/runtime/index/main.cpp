// Cost of indexing a dataset, and its cost at a start where nothing has changed: 100,000 pictures
// in class folders, a tar and a TFRecord of 1 GB. All files are in the page cache, so CPU time is
// the whole cost.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "tests/runtime/sources/dataset_files.h"
#include "tools/bench/process_cost.h"

using namespace batchflow;
using namespace batchflow::test;

namespace {

constexpr int kRounds = 5;
constexpr std::size_t kPicture = 110'000;

void write_pictures(const Folder& data, int files) {
  for (int i = 0; i < files; ++i)
    data.write(fmt::format("class-{:03}/picture-{:06}.jpg", i % 100, i), "a picture");
}

template <class Record>
void write_shard(const std::filesystem::path& path, int records, Record record) {
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < records; ++i) file << record(i);
}

double seconds_of(const sources::SourceOptions& options, std::uint64_t& samples) {
  const double begin = bench::cpu_s();
  samples = sources::open_index(options)->samples();
  return bench::cpu_s() - begin;
}

// Medians, in turn: without an index that was kept, and with it.
void measure(std::string_view what, const Folder& data) {
  Folder indices;
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  std::vector<double> anew, kept;
  std::uint64_t samples = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::filesystem::remove_all(indices.path());
    anew.push_back(seconds_of(options, samples));
    kept.push_back(seconds_of(options, samples));
  }
  std::sort(anew.begin(), anew.end());
  std::sort(kept.begin(), kept.end());
  Bytes bytes = 0, index = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data.path()))
    if (entry.is_regular_file()) bytes += entry.file_size();
  for (const auto& entry : std::filesystem::directory_iterator(indices.path()))
    index += entry.file_size();
  fmt::print("| {} | {} | {:.3f} ({:.3f} to {:.3f}) | {:.0f} | {:.2f} | {:.3f} | {:.0f} |\n", what,
             samples, anew[kRounds / 2], anew.front(), anew.back(),
             static_cast<double>(samples) / anew[kRounds / 2],
             static_cast<double>(bytes) * 1e-9 / anew[kRounds / 2], kept[kRounds / 2],
             static_cast<double>(index) / static_cast<double>(samples));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = argc == 2 && std::string_view(argv[1]) == "--small";
  if (argc > 1 && !small) {
    fmt::print(stderr, "bench_index: unknown argument; write --small or nothing\n");
    return 2;
  }
  const int files = small ? 1000 : 100'000;
  const int records = small ? 90 : 9'000;
  fmt::print(
      "| data | samples | CPU s, anew (least to most) | samples/s | GB/s | CPU s, kept | index "
      "bytes a "
      "sample |\n|---|---|---|---|---|---|---|\n");
  {
    Folder data;
    write_pictures(data, files);
    measure("pictures in 100 folders", data);
  }
  const std::string picture(kPicture, 'x');
  {
    Folder data;
    write_shard(data / "a.tar", records, [&](int i) {
      return tar_member(fmt::format("{:08}.jpg", i), picture) +
             tar_member(fmt::format("{:08}.cls", i), std::to_string(i % 1000)) +
             (i + 1 == records ? tar_end() : "");
    });
    measure("tar of pictures and labels", data);
  }
  {
    Folder data;
    write_shard(data / "a.tfrecord", records, [&](int i) {
      return tfrecord(example(bytes_feature("image/encoded", {picture}) +
                              int_feature("image/class/label", {i % 1000})));
    });
    measure("TFRecord of the same", data);
  }
  fmt::print("greatest memory {:.0f} MiB\n", bench::memory_mib());
}
