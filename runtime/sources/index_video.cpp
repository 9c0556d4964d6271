// Indexes video. Files are taken apart once, into groups of frames, each of which is a sample: a
// group can be decoded, kept and shared by itself, and a file could not.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/sources/packed.h"
#include "runtime/sources/source_format.h"
#include "runtime/sources/unpack.h"

namespace batchflow::sources {
namespace {

constexpr Bytes kNoteMost = 4096;

// The class of a file, by its folder at the root.
std::int64_t label_of(const IndexHead& head, std::string_view path) {
  if (head.classes.empty()) return kNoLabel;
  const std::string_view folder = path.substr(0, path.find('/'));
  const auto found = std::lower_bound(head.classes.begin(), head.classes.end(), folder);
  return found - head.classes.begin();
}

// What stands behind the last group: why there are no more.
void note_end(IndexBuilder& builder, DatasetFile& file, std::uint64_t at, std::string_view path) {
  const auto head = file.view(at, sizeof(std::uint64_t));
  const Bytes bytes = head.size() == sizeof(std::uint64_t) ? load<std::uint64_t>(head) : 0;
  const std::string why(as_text(file.view(at + sizeof(std::uint64_t), std::min(bytes, kNoteMost))));
  builder.note(fmt::format("{}: {}; what is before that is served; {}",
                           path.substr(0, path.size() - kVideoGroups.size()), why, kLost));
}

}  // namespace

void index_video_files(IndexBuilder& builder) {
  for (std::uint32_t file = 0; file < builder.files(); ++file)
    if (!builder.path(file).ends_with(kVideoGroups))
      throw NeedsUnpacking{NeedsUnpacking::By::video, "video", std::move(builder.parts)};
  Bytes largest = 1;
  builder.read_files([&](DatasetFile& file, std::string_view path) {
    if (as_text(file.view(0, kVideoMagic.size())) != kVideoMagic)
      builder.refuse(path, "it is no file of groups of frames; write the format that it has");
    const std::int64_t label = label_of(builder.parts.head, path);
    for (std::uint64_t at = kVideoMagic.size(); at < file.size();) {
      const auto head = file.view(at, sizeof(std::uint64_t));
      if (head.size() < sizeof(std::uint64_t)) break;
      const auto bytes = load<std::uint64_t>(head);
      at += sizeof(std::uint64_t);
      if (bytes == 0) return note_end(builder, file, at, path);
      if (bytes > file.size() - at)
        return builder.note(fmt::format("{}: cut at byte {}; {}", path, at, kLost));
      builder.add_sample(at, bytes, label);
      largest = std::max(largest, bytes);
      at += bytes;
    }
  });
  IndexHead& head = builder.parts.head;
  head.kind = RecordKind::value;
  head.fields.fields = {{"video", batch::ElementType::u8, {largest}, true}};
  builder.add_sampled_contents();
}

}  // namespace batchflow::sources
