#include "runtime/sources/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "runtime/sources/file_walk.h"
#include "runtime/sources/unpack.h"

namespace batchflow::sources {
namespace {

// Whether there are NAME.idx and NAME.bin. Files with either ending alone may be anything.
bool has_megatron_files(const Listing& listing) {
  constexpr std::string_view kIndex = ".idx", kTokens = ".bin";
  std::unordered_set<std::string_view> tokens;
  for (std::size_t file = 0; file < listing.files.size(); ++file)
    if (const auto path = listing.path(file); path.ends_with(kTokens))
      tokens.insert(path.substr(0, path.size() - kTokens.size()));
  for (std::size_t file = 0; file < listing.files.size() && !tokens.empty(); ++file)
    if (const auto path = listing.path(file);
        path.ends_with(kIndex) && tokens.contains(path.substr(0, path.size() - kIndex.size())))
      return true;
  return false;
}

// The formats of documents, which become sequences where a number of tokens is given.
bool holds_documents(const SourceFormat& format) {
  return format.name == "arrow" || format.name == "parquet" || format.name == "mds" ||
         format.name == "megatron";
}

// The format that has most of the bytes, by endings of names. If no ending is known, the format
// that the first bytes of the first file show.
const SourceFormat& guess_format(const IndexBuilder& builder, const Listing& listing, bool& all) {
  const auto& table = source_format_table();
  std::vector<Bytes> bytes(table.size());
  const bool has_megatron = has_megatron_files(listing);
  Bytes zipped = 0;
  for (std::size_t file = 0; file < listing.files.size(); ++file) {
    const std::string_view path = listing.path(file);
    if (path.ends_with(".tar.gz") || path.ends_with(".tgz")) zipped += listing.files[file].bytes;
    for (std::size_t i = 0; i < table.size(); ++i)
      // The 1 is added so that empty files count, too.
      if (table[i].takes && !table[i].only_asked && (has_megatron || table[i].name != "megatron") &&
          table[i].takes(path))
        bytes[i] += listing.files[file].bytes + 1;
  }
  const auto most = std::max_element(bytes.begin(), bytes.end());
  if (zipped > *most)
    builder.refuse(builder.options.root.string(),
                   "compressed tar files, in which samples cannot be read one by one; unpack them "
                   "to plain tars, or write format: files");
  const bool wants_tokens = builder.options.tokens_per_sample > 0 && !builder.options.documents;
  if (*most > 0) {
    const SourceFormat& format = table[static_cast<std::size_t>(most - bytes.begin())];
    if (!wants_tokens || holds_documents(format)) return format;
  }
  if (wants_tokens) return source_format(builder.options.name, "tokens");
  DatasetFile first(builder.root, listing.path(0), builder.is_public);
  for (const SourceFormat& format : table) {
    all = format.begins != nullptr && format.begins(first);
    if (all) return format;
  }
  return source_format(builder.options.name, "files");
}

FileWalk make_walk(IndexBuilder& builder, const std::uint64_t& found) {
  FileWalk walk;
  walk.refuses_closed = builder.options.refuses_closed;
  walk.hold = [&](std::int64_t bytes) {
    if (bytes < 0) return builder.release(static_cast<Bytes>(-bytes));
    builder.hold(static_cast<Bytes>(bytes));
    builder.tick(found, 0);
  };
  return walk;
}

// Where that is asked for, it also reports a path that not all users may read.
void walk_all(FileWalk& walk, IndexBuilder& builder) {
  try {
    walk.run(builder.root);
  } catch (const DatasetError&) {
    if (builder.options.closed && !walk.closed.empty()) *builder.options.closed = walk.closed;
    throw;
  }
  if (!builder.options.closed) return;
  *builder.options.closed = walk.closed;
  builder.is_public = walk.closed.empty();
}

std::string_view without_ending(std::string_view path) {
  return path.substr(0, path.rfind('.'));
}

// MDS shards that lie there unpacked: a compressed one beside is the same once more, as
// Streaming keeps both (keep_zip).
std::set<std::string_view> whole_shards(const Listing& listing, const Taken& taken) {
  std::set<std::string_view> whole;
  if (taken.format->name != "mds") return whole;
  const auto is_zipped = [&](const Listing::File& file) {
    return is_zipped_shard(listing.path(static_cast<std::size_t>(&file - listing.files.data())));
  };
  if (std::none_of(listing.files.begin(), listing.files.end(), is_zipped)) return whole;
  for (std::size_t file = 0; file < listing.files.size(); ++file)
    if (listing.path(file).ends_with(".mds")) whole.insert(listing.path(file));
  return whole;
}

}  // namespace

Listing list_files(IndexBuilder& builder) {
  Listing listing;
  std::uint64_t found = 0;
  FileWalk walk = make_walk(builder, found);
  walk.file = [&](const WalkedFile& file) {
    ++found;
    listing.paths += file.path;
    listing.files.push_back({listing.paths.size(), file.bytes, file.modified_ns});
    builder.hold(file.path.size() + sizeof(Listing::File));
    builder.tick(found, 0);
  };
  walk.folder = [&](std::string_view path) {
    if (path.find('/') == std::string_view::npos) listing.top_folders.emplace_back(path);
    builder.tick(found, 0);
  };
  walk_all(walk, builder);
  listing.links = walk.links;
  listing.specials = walk.specials;
  return listing;
}

Taken choose_format(IndexBuilder& builder, const Listing& listing) {
  const SourceOptions& options = builder.options;
  if (listing.files.empty())
    builder.refuse(
        options.root.string(),
        listing.links > 0
            ? fmt::format("there are no files, only {} links, which are followed only to files of "
                          "the dataset itself; write the folder that holds the data",
                          listing.links)
            : "there are no files; write the folder that holds the data");
  Taken taken{};
  taken.format = options.format.empty() ? &guess_format(builder, listing, taken.all)
                                        : &source_format(options.name, options.format);
  if (options.tokens_per_sample > 0 && !options.documents && holds_documents(*taken.format))
    throw WantsSequences{};
  bool any = false;
  bool nested = false;
  for (std::size_t file = 0; file < listing.files.size(); ++file) {
    if (!taken(listing.path(file))) continue;
    any = true;
    nested = nested || listing.path(file).find('/') != std::string_view::npos;
  }
  taken.all = taken.all || !any;
  taken.nested = taken.format->classes && nested;
  if (options.format.empty())
    builder.note(fmt::format("format {}, by what is in it", taken.format->name));
  return taken;
}

void take_files(IndexBuilder& builder, const Listing& listing, const Taken& taken) {
  ListingHash hash(builder.options);
  std::uint64_t passed_over = 0;
  std::string_view example;
  builder.content.add(taken.format->name);
  const std::set<std::string_view> whole = whole_shards(listing, taken);
  std::uint64_t doubled = 0;
  for (std::size_t file = 0; file < listing.files.size(); ++file) {
    const std::string_view path = listing.path(file);
    if (!taken(path)) {
      if (passed_over++ == 0) example = path;
      continue;
    }
    if (!whole.empty() && is_zipped_shard(path) && whole.contains(without_ending(path))) {
      ++doubled;
      // Its coming and going makes no other dataset, but is a change to look at.
      hash.add(path, listing.files[file].bytes, listing.files[file].modified_ns);
      continue;
    }
    builder.add_file(path, listing.files[file].bytes,
                     static_cast<std::uint64_t>(listing.files[file].modified_ns));
    hash.add(path, listing.files[file].bytes, listing.files[file].modified_ns);
  }
  for (const std::string& folder : listing.top_folders) hash.add_folder(folder);
  IndexHead& head = builder.parts.head;
  head.format = taken.format->name;
  head.takes_all = taken.all;
  head.takes_nested = taken.nested;
  head.listing = hash.digest(taken.nested);
  if (taken.nested) {
    head.classes = listing.top_folders;
    std::sort(head.classes.begin(), head.classes.end());
  }
  if (doubled > 0)
    builder.note(
        fmt::format("{} compressed shards are passed over, since they lie there unpacked, "
                    "too",
                    doubled));
  if (passed_over > 0)
    builder.note(fmt::format("{} files are not {} and are passed over, such as {}", passed_over,
                             taken.format->name, example));
  if (listing.links > 0)
    builder.note(
        fmt::format("{} links that lead to folders, out of the dataset or to nothing are "
                    "passed over",
                    listing.links));
  if (listing.specials > 0)
    builder.note(fmt::format("{} devices, pipes and sockets are passed over", listing.specials));
}

bool is_unchanged(const SourceOptions& options, const DataRoot& root, const IndexHead& head) {
  const Taken taken{&source_format(options.name, head.format), head.takes_all, head.takes_nested};
  if (!options.format.empty() && options.format != head.format) return false;
  IndexBuilder reporter(options, root);
  ListingHash hash(options);
  std::uint64_t files = 0;
  FileWalk walk = make_walk(reporter, files);
  walk.file = [&](const WalkedFile& file) {
    if (taken(file.path)) hash.add(file.path, file.bytes, file.modified_ns);
    reporter.tick(++files, 0);
  };
  walk.folder = [&](std::string_view path) { hash.add_folder(path); };
  try {
    walk_all(walk, reporter);
  } catch (const DatasetChanged&) {
    return false;
  }
  return hash.digest(head.takes_nested) == head.listing;
}

}  // namespace batchflow::sources
