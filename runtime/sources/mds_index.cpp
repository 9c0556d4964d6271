#include "runtime/sources/mds_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/sources/byte_view.h"
#include "runtime/sources/unpack.h"

namespace batchflow::sources {
namespace {

using nlohmann::json;

constexpr std::string_view kName = "index.json";
constexpr Bytes kIndexMost = Bytes{256} << 20;

bool is_index(std::string_view path) {
  return path == kName || path.ends_with("/index.json");
}
std::string folder_of(std::string_view path) {
  return std::string(path.substr(0, path.rfind('/') + 1));
}

// A file that an entry names; empty: it names none.
struct FileOfShard {
  std::string name;
  Bytes bytes = 0;
};
FileOfShard file_of(const json& shard, const char* part) {
  const auto found = shard.find(part);
  if (found == shard.end() || !found->is_object()) return {};
  const auto name = found->find("basename");
  const auto bytes = found->find("bytes");
  if (name == found->end() || !name->is_string() || bytes == found->end() ||
      !bytes->is_number_unsigned())
    return {};
  return {name->get<std::string>(), bytes->get<Bytes>()};
}

}  // namespace

MdsIndex::MdsIndex(IndexBuilder& builder, const Listing& listing) {
  std::set<std::string, std::less<>> folders;  // with an index of their own
  for (std::size_t file = 0; file < listing.files.size(); ++file) {
    const std::string_view path = listing.path(file);
    if (path.ends_with(".mds") || is_zipped_shard(path))
      there_.emplace(path, listing.files[file].bytes);
  }
  for (std::size_t file = 0; file < listing.files.size(); ++file) {
    if (!is_index(listing.path(file))) continue;
    const std::size_t before = named_.size();
    read(builder, listing.path(file));
    if (named_.size() > before) folders.insert(folder_of(listing.path(file)));
  }
  for (const auto& [path, bytes] : there_) {
    if (named_.contains(path) || !folders.contains(folder_of(path))) continue;
    builder.refuse(path, fmt::format("{}{} does not name it: it is of another writing, or that was "
                                     "interrupted; remove it, or write the dataset again",
                                     folder_of(path), kName));
  }
}

void MdsIndex::read(IndexBuilder& builder, std::string_view path) {
  DatasetFile file(builder.root, path, builder.is_public);
  if (file.size() > kIndexMost)
    builder.refuse(
        path, fmt::format("it has {} bytes, more than an index of shards may have", file.size()));
  builder.hold(file.size());
  const json all = json::parse(as_text(file.view(0, file.size())), nullptr, false);
  if (all.is_discarded())
    builder.refuse(path,
                   "it is no JSON; copy it again, or remove it: shards say themselves what "
                   "they hold");
  const auto shards = all.is_object() ? all.find("shards") : all.end();
  if (shards != all.end() && shards->is_array()) {
    const std::string folder = folder_of(path);
    for (const json& shard : *shards) {
      if (!shard.is_object() || (shard.contains("format") && shard["format"] != "mds")) continue;
      const auto samples = shard.find("samples");
      const FileOfShard raw = file_of(shard, "raw_data"), zip = file_of(shard, "zip_data");
      if (raw.name.empty() || samples == shard.end() || !samples->is_number_unsigned()) continue;
      const Named named{std::string(path), samples->get<std::uint64_t>()};
      const bool is_there = there_.contains(folder + raw.name);
      const bool zip_is_there = !zip.name.empty() && there_.contains(folder + zip.name);
      if (!is_there && !zip_is_there)
        builder.refuse(path, fmt::format("it names {}, which is not there; copy that, too",
                                         zip.name.empty() ? raw.name : zip.name));
      if (is_there) check_file(builder, named.by, folder + raw.name, raw.bytes);
      if (zip_is_there) check_file(builder, named.by, folder + zip.name, zip.bytes);
      named_.emplace(folder + raw.name, named);
      if (!zip.name.empty()) named_.emplace(folder + zip.name, named);
    }
  }
  builder.release(file.size());
}

void MdsIndex::check_file(IndexBuilder& builder, const std::string& by, const std::string& path,
                          Bytes bytes) const {
  const Bytes has = there_.find(path)->second;
  if (has != bytes)
    builder.refuse(path,
                   fmt::format("it has {} bytes, and {} by {}; copy both again", has, bytes, by));
}

void MdsIndex::check_samples(const IndexBuilder& builder) const {
  const auto& ends = builder.parts.numbers[static_cast<std::size_t>(IndexSection::sample_ends)];
  for (std::uint32_t file = 0; file < builder.files() && file < ends.size(); ++file) {
    const auto found = named_.find(builder.path(file));
    const std::uint64_t has = ends[file] - (file == 0 ? 0 : ends[file - 1]);
    if (found != named_.end() && found->second.samples != has)
      builder.refuse(builder.path(file),
                     fmt::format("it has {} samples, and {} by {}; copy both again", has,
                                 found->second.samples, found->second.by));
  }
}

}  // namespace batchflow::sources
