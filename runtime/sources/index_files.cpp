// Indexes files that are one sample each (pictures, any files) and files of rows (NumPy, tokens).
#include <fmt/format.h>

#include <algorithm>

#include "runtime/sources/npy.h"
#include "runtime/sources/source_format.h"

namespace batchflow::sources {
namespace {

// Adds the rows of one more file. Its header promises `promised` rows, and `stored` are there.
void add_rows(IndexBuilder& builder, std::string_view path, std::uint64_t data,
              std::uint64_t promised, std::uint64_t stored) {
  if (stored < promised)
    builder.note(
        fmt::format("{}: cut after {} of {} rows; those are served; copy the file again to "
                    "have all",
                    path, stored, promised));
  builder.parts.list(IndexSection::data_begins).push_back(data);
  builder.hold(sizeof(std::uint64_t));
  builder.parts.head.samples += std::min(stored, promised);
}

void set_rows(IndexBuilder& builder, batch::Field field, std::string_view path) {
  IndexHead& head = builder.parts.head;
  head.kind = RecordKind::rows;
  head.fields.fields = {std::move(field)};
  if (const std::string problem = head.fields.problem(); !problem.empty())
    builder.refuse(path, fmt::format("{}; save it in another shape", problem));
  head.row_bytes = head.fields.fields[0].row_bytes();
  builder.content.add(head.row_bytes);
}

std::string_view token_type(const IndexBuilder& builder, std::string_view path) {
  const std::string_view given = builder.options.token_type;
  const std::string_view type = given.empty() ? path.substr(path.rfind('.') + 1) : given;
  if (type != "u16" && type != "u32")
    builder.refuse(path, "the width of its tokens is not known; let its name end in .u16 or .u32");
  return type;
}

}  // namespace

void index_whole_files(IndexBuilder& builder) {
  IndexHead& head = builder.parts.head;
  head.kind = RecordKind::whole;
  head.samples = builder.files();
  std::vector<bool> used(head.classes.size());
  for (std::uint32_t file = 0; file < builder.files() && !used.empty(); ++file) {
    builder.tick(0, 0);
    builder.hold(sizeof(std::uint64_t));
    const std::string_view path = builder.path(file);
    const std::string_view folder = path.substr(0, path.find('/'));
    const auto found = std::lower_bound(head.classes.begin(), head.classes.end(), folder);
    const auto label = static_cast<std::size_t>(found - head.classes.begin());
    used[label] = true;
    builder.parts.list(IndexSection::labels).push_back(label);
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) builder.note(fmt::format("class '{}' ({}) is empty", head.classes[i], i));
  builder.add_sampled_contents();
}

void index_numpy_files(IndexBuilder& builder) {
  NpyHeader first;
  std::string first_path;
  builder.read_files([&](DatasetFile& file, std::string_view path) {
    NpyHeader header;
    const std::string problem = read_npy_header(file, header);
    if (!problem.empty()) builder.refuse(path, problem);
    if (first_path.empty()) {
      first = header;
      first_path = path;
      set_rows(builder, {"data", header.type, header.shape, false}, path);
    }
    if (header.type != first.type || header.shape != first.shape)
      builder.refuse(
          path,
          fmt::format("its rows are {}[{}], those of {} are {}[{}]; keep arrays of "
                      "one type and shape in a folder",
                      batch::element_name(header.type), fmt::join(header.shape, ", "), first_path,
                      batch::element_name(first.type), fmt::join(first.shape, ", ")));
    add_rows(builder, path, header.data, header.rows,
             (file.size() - header.data) / builder.parts.head.row_bytes);
  });
  builder.add_sampled_contents();
}

void index_token_files(IndexBuilder& builder) {
  const std::uint64_t length = builder.options.tokens_per_sample;
  if (builder.options.documents)
    builder.refuse(builder.path(0),
                   "it has tokens end to end, and nothing says where documents end; leave packing "
                   "out, or write NAME.bin and NAME.idx");
  std::string first_path;
  builder.read_files([&](DatasetFile& file, std::string_view path) {
    if (length == 0)
      builder.refuse(
          path,
          "the length of a sample is not known; write tokens: 1024 (--dataset "
          "NAME=PATH,tokens=1024; for batchflowctl --tokens 1024; in Python tokens=1024)");
    const std::string_view type = token_type(builder, path);
    if (first_path.empty()) {
      first_path = path;
      // A batch has no u32. Token ids are far below 2^31, so i32 holds them.
      set_rows(builder,
               {"tokens",
                type == "u16" ? batch::ElementType::u16 : batch::ElementType::i32,
                {length},
                false},
               path);
    } else if (type != token_type(builder, first_path)) {
      builder.refuse(path, fmt::format("its tokens are {}, those of {} are not; keep files of one "
                                       "width in a folder",
                                       type, first_path));
    }
    const Bytes row = builder.parts.head.row_bytes;
    const std::uint64_t rows = file.size() / row;
    if (file.size() % row != 0)
      builder.note(fmt::format("{}: its last {} bytes are less than a sample and left out", path,
                               file.size() % row));
    add_rows(builder, path, 0, rows, rows);
  });
  builder.add_sampled_contents();
}

}  // namespace batchflow::sources
