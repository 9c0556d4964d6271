#include "runtime/sources/file_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace batchflow::sources {
namespace {

constexpr std::size_t kEndingsShown = 6;

// Endings of pictures in other formats, and of files that are no pictures.
constexpr auto kOthers = std::to_array<std::string_view>(
    {".arrow", ".avi",  ".avif",   ".bmp",  ".bz2",  ".csv",   ".flac", ".gif",         ".gz",
     ".h5",    ".hdf5", ".heic",   ".html", ".json", ".jsonl", ".jxl",  ".m4a",         ".md",
     ".mkv",   ".mov",  ".mp3",    ".mp4",  ".npy",  ".npz",   ".ogg",  ".opus",        ".parquet",
     ".pdf",   ".pgm",  ".pickle", ".pkl",  ".ppm",  ".pt",    ".pth",  ".safetensors", ".svg",
     ".tar",   ".tif",  ".tiff",   ".tsv",  ".txt",  ".wav",   ".webm", ".webp",        ".xml",
     ".xz",    ".yaml", ".yml",    ".zip",  ".zst"});

static_assert(std::is_sorted(kOthers.begin(), kOthers.end()));

}  // namespace

bool may_be_decoded(std::string_view ending) {
  return !std::binary_search(kOthers.begin(), kOthers.end(), ending);
}

std::uint64_t undecodable_samples(const SampleIndex& index) {
  std::uint64_t samples = 0;
  for (const auto& [ending, count] : index.sums().endings)
    if (!may_be_decoded(ending)) samples += count;
  return samples;
}

std::string endings_text(const SampleIndex& index, bool all) {
  std::vector<std::pair<std::uint64_t, std::string_view>> found;
  for (const auto& [ending, count] : index.sums().endings)
    if (all || !may_be_decoded(ending)) found.emplace_back(count, ending);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kEndingsShown); ++i) {
    std::string ending(found[i].second.empty() ? "no ending" : found[i].second);
    std::replace_if(
        ending.begin(), ending.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", ending, found[i].first);
  }
  return text + (found.size() > kEndingsShown ? ", ..." : "");
}

}  // namespace batchflow::sources
