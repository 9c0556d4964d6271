// Arrow's files and streams: schemas, batches, and where the values of columns lie.
#include "core/base/check.h"
#include "runtime/sources/arrow_file.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sources::MemoryView view(std::as_bytes(std::span(data, size)));
  sources::ArrowFile file;
  if (!file.open(view).empty()) return 0;
  std::string problem;
  while (const auto batch = file.next(view, problem)) {
    for (std::size_t column = 0; column < file.columns().size(); ++column) {
      sources::ArrowFile::Values values;
      if (file.columns()[column].kind == sources::Column::Kind::other) continue;
      if (!file.values(view, *batch, column, values).empty()) continue;
      std::uint64_t begin = values.first;
      for (std::uint64_t row = 0; row < batch->rows; ++row) {
        const std::uint64_t end = values.ends.empty() ? begin + values.each : values.ends[row];
        BF_CHECK(begin <= end && values.begin + end <= size);
        begin = end;
        values.is_there(row);
      }
    }
  }
  file.class_names("label");
  return 0;
}

}  // namespace batchflow::test
