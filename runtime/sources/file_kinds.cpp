#include "runtime/sources/file_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace batchflow::sources {
namespace {

constexpr std::size_t kEndingsShown = 6;

constexpr auto kPictures = std::to_array<std::string_view>({
    ".bmp",
    ".jpeg",
    ".jpg",
    ".png",
#ifdef BATCHFLOW_AVIF
    ".avif",
#endif
#ifdef BATCHFLOW_TIFF
    ".tif",
    ".tiff",
#endif
#ifdef BATCHFLOW_WEBP
    ".webp",
#endif
});

// Endings of pictures in formats that no build decodes, and of files that are no pictures.
constexpr auto kOthers = std::to_array<std::string_view>(
    {".arrow",  ".avi",  ".bz2",  ".csv",   ".flac", ".gif",         ".gz",      ".h5",  ".hdf5",
     ".heic",   ".html", ".json", ".jsonl", ".jxl",  ".m4a",         ".md",      ".mkv", ".mov",
     ".mp3",    ".mp4",  ".npy",  ".npz",   ".ogg",  ".opus",        ".parquet", ".pdf", ".pgm",
     ".pickle", ".pkl",  ".ppm",  ".pt",    ".pth",  ".safetensors", ".svg",     ".tar", ".tsv",
     ".txt",    ".wav",  ".webm", ".xml",   ".xz",   ".yaml",        ".yml",     ".zip", ".zst"});
// Those that some builds decode.
constexpr auto kOptional = std::to_array<std::string_view>({".avif", ".tif", ".tiff", ".webp"});

template <class Table>
bool has(const Table& table, std::string_view ending) {
  return std::find(table.begin(), table.end(), ending) != table.end();
}

}  // namespace

bool is_called_picture(std::string_view ending) {
  return has(kPictures, ending) || has(kOptional, ending);
}

bool is_picture_ending(std::string_view ending) {
  return has(kPictures, ending);
}

bool may_be_decoded(std::string_view ending) {
  return is_picture_ending(ending) || !(has(kOptional, ending) || has(kOthers, ending));
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
