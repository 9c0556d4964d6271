// Shards of MosaicML Streaming, byte for byte as its own writer makes them.
#pragma once

#include <string>
#include <vector>

#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test {

struct MdsColumn {
  std::string name, encoding;
  std::string fixed;  // its size as JSON
};

// A row has the bytes of each column. Streaming's own writer makes the same.
inline std::string mds(const std::vector<MdsColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string names, encodings, sizes;
  for (const MdsColumn& one : columns) {
    const std::string comma = names.empty() ? "" : ", ";
    names += fmt::format("{}\"{}\"", comma, one.name);
    encodings += fmt::format("{}\"{}\"", comma, one.encoding);
    sizes += comma + one.fixed;
  }
  const std::string text = fmt::format(
      R"({{"column_encodings": [{}], "column_names": [{}], "column_sizes": [{}], "compression": null, "format": "mds", "hashes": [], "size_limit": 67108864}})",
      encodings, names, sizes);
  std::string offsets, body;
  const std::size_t begin = 4 + 4 * (rows.size() + 1) + text.size();
  for (const auto& row : rows) {
    offsets += little(static_cast<std::uint32_t>(begin + body.size()));
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].fixed == "null") body += little(static_cast<std::uint32_t>(row[i].size()));
    for (const std::string& value : row) body += value;
  }
  offsets += little(static_cast<std::uint32_t>(begin + body.size()));
  return little(static_cast<std::uint32_t>(rows.size())) + offsets + text + body;
}

}  // namespace batchflow::test
