// Indexes files that hold documents of tokens: Megatron-LM's.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "runtime/sources/columns.h"
#include "runtime/sources/megatron.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/source_format.h"

namespace batchflow::sources {
namespace {

class MegatronDocuments {
 public:
  explicit MegatronDocuments(IndexBuilder& builder) : builder_(builder) {
    for (std::uint32_t file = 0; file < builder.files(); ++file)
      if (builder.path(file).ends_with(".idx")) indices_.emplace(builder.path(file), file);
    if (indices_.empty())
      builder.refuse(builder.options.root.string(),
                     "there is no .idx file, which says where documents end; write the folder "
                     "that holds NAME.bin and NAME.idx");
  }

  void read(DatasetFile& file, std::string_view path) {
    if (!path.ends_with(".bin")) return;
    const auto found = indices_.find(std::string(path.substr(0, path.size() - 4)) + ".idx");
    if (found == indices_.end())
      return builder_.note(
          fmt::format("{}: there is no .idx file beside it; it is passed over", path));
    const std::string_view index_path = builder_.path(found->second);
    indices_read_ += 1;
    DatasetFile lengths = builder_.open_file(found->second);
    DatasetFile offsets = builder_.open_file(found->second);
    DatasetFile documents = builder_.open_file(found->second);
    MegatronIndex index(lengths, offsets, documents);
    std::string problem = index.open(file.size());
    if (!problem.empty()) builder_.refuse(index_path, problem);
    take_type(index.type(), index_path);
    MegatronIndex::Document document;
    while (index.next(document, problem)) {
      least_ = std::min(least_, document.bytes);
      largest_ = std::max(largest_, document.bytes);
      builder_.add_sample(document.offset, document.bytes, kNoLabel);
    }
    if (!problem.empty()) builder_.refuse(index_path, problem);
    if (index.end() < file.size())
      builder_.note(
          fmt::format("{}: its last {} bytes are of no document", path, file.size() - index.end()));
  }

  void finish() {
    if (indices_read_ < indices_.size())
      builder_.note(fmt::format("{} .idx files have no .bin file beside them",
                                indices_.size() - indices_read_));
    IndexHead& head = builder_.parts.head;
    head.kind = RecordKind::value;
    if (!first_path_.empty())
      head.fields.fields = {
          field_of({"tokens", "", Column::Kind::numbers, type_}, least_, largest_)};
    builder_.content.add(std::uint64_t{static_cast<std::uint8_t>(type_)});
  }

 private:
  void take_type(batch::ElementType type, std::string_view path) {
    if (!is_whole(type))
      builder_.refuse(path, fmt::format("its documents are {}, and tokens are whole numbers",
                                        batch::element_name(type)));
    if (first_path_.empty()) {
      first_path_ = path;
      type_ = type;
    }
    if (type != type_)
      builder_.refuse(
          path, fmt::format("its tokens are {}, those of {} are {}; keep files of one "
                            "type in a folder",
                            batch::element_name(type), first_path_, batch::element_name(type_)));
  }

  IndexBuilder& builder_;
  std::unordered_map<std::string, std::uint32_t> indices_;
  std::size_t indices_read_ = 0;
  std::string first_path_;
  batch::ElementType type_ = batch::ElementType::u16;
  Bytes least_ = UINT64_MAX, largest_ = 0;
};

}  // namespace

void index_megatron_files(IndexBuilder& builder) {
  MegatronDocuments documents(builder);
  builder.read_files([&](DatasetFile& file, std::string_view path) { documents.read(file, path); });
  documents.finish();
  builder.add_sampled_contents();
}

}  // namespace batchflow::sources
