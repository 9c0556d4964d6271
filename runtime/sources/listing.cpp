#include "runtime/sources/listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/sources/file_walk.h"

namespace batchflow {
namespace {

// The format that most of the bytes are in; where no ending tells, what the first file begins like.
const SourceFormat& guess_format(const IndexBuilder& builder, const Listing& listing, bool& all) {
  const auto& table = source_format_table();
  if (builder.options.tokens_per_sample > 0) return source_format(builder.options.name, "tokens");
  std::vector<Bytes> bytes(table.size());
  Bytes zipped = 0;
  for (std::size_t file = 0; file < listing.files.size(); ++file) {
    const std::string_view path = listing.path(file);
    if (path.ends_with(".tar.gz") || path.ends_with(".tgz")) zipped += listing.files[file].bytes;
    for (std::size_t i = 0; i < table.size(); ++i)
      // One more, so that empty files count, too.
      if (table[i].takes && table[i].takes(path)) bytes[i] += listing.files[file].bytes + 1;
  }
  const auto most = std::max_element(bytes.begin(), bytes.end());
  if (zipped > *most)
    builder.refuse(builder.options.root.string(),
                   "compressed tar files, in which samples cannot be read one by one; unpack them "
                   "to plain tars, or write format: files");
  if (*most > 0) return table[static_cast<std::size_t>(most - bytes.begin())];
  DatasetFile first(builder.root, listing.path(0));
  for (const SourceFormat& format : table) {
    all = format.begins != nullptr && format.begins(first);
    if (all) return format;
  }
  return source_format(builder.options.name, "files");
}

}  // namespace

Listing list_files(IndexBuilder& builder, const std::string& only) {
  Listing listing;
  FileWalk walk;
  walk.file = [&](const WalkedFile& file) {
    listing.paths += file.path;
    listing.files.push_back({listing.paths.size(), file.bytes, file.modified_ns});
    builder.tick(listing.files.size(), 0);
  };
  walk.folder = [&](std::string_view path) {
    if (path.find('/') == std::string_view::npos) listing.top_folders.emplace_back(path);
    builder.tick(listing.files.size(), 0);
  };
  walk.run(builder.root, only);
  if (builder.options.closed) *builder.options.closed = walk.closed;
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
            ? fmt::format("there are no files but {} links, which are followed only to files of "
                          "the dataset itself; write the folder that holds the data",
                          listing.links)
            : "there are no files; write the folder that holds the data");
  Taken taken{};
  taken.format = options.format.empty() ? &guess_format(builder, listing, taken.all)
                                        : &source_format(options.name, options.format);
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
  for (std::size_t file = 0; file < listing.files.size(); ++file) {
    const std::string_view path = listing.path(file);
    if (!taken(path)) {
      if (passed_over++ == 0) example = path;
      continue;
    }
    builder.add_file(path, listing.files[file].bytes);
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
  if (passed_over > 0)
    builder.note(fmt::format("{} files that are no {} are passed over, {} for one", passed_over,
                             taken.format->name, example));
  if (listing.links > 0)
    builder.note(
        fmt::format("{} links that lead to folders, out of the data set or to nothing are "
                    "passed over",
                    listing.links));
  if (listing.specials > 0)
    builder.note(fmt::format("{} devices, pipes and sockets are passed over", listing.specials));
}

bool still_true(const SourceOptions& options, int root, const std::string& only,
                const IndexHead& head) {
  const Taken taken{&source_format(options.name, head.format), head.takes_all, head.takes_nested};
  if (!options.format.empty() && options.format != head.format) return false;
  IndexBuilder reporter(options, root);
  ListingHash hash(options);
  FileWalk walk;
  std::uint64_t files = 0;
  walk.file = [&](const WalkedFile& file) {
    if (taken(file.path)) hash.add(file.path, file.bytes, file.modified_ns);
    reporter.tick(++files, 0);
  };
  walk.folder = [&](std::string_view path) { hash.add_folder(path); };
  try {
    walk.run(root, only);
  } catch (const DatasetChanged&) {
    return false;
  }
  if (options.closed) *options.closed = walk.closed;
  return hash.digest(head.takes_nested) == head.listing;
}

}  // namespace batchflow
