// MDS shards, and where the columns of their samples lie.
#include "core/base/check.h"
#include "runtime/sources/mds.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  sources::MemoryView view(bytes);
  sources::MdsShard shard;
  if (!sources::read_mds(view, shard, 1 << 20).empty()) return 0;
  std::vector<sources::MdsPlace> places;
  const sources::ChosenColumns chosen = sources::choose_columns(shard.columns, "", "");
  for (std::uint64_t i = 0; i < shard.samples(); ++i) {
    const std::uint64_t at = shard.offsets[i];
    const Bytes sample = shard.offsets[i + 1] - at;
    if (!sources::find_mds_columns(shard, view.view(at, shard.head_bytes()), sample, places))
      continue;
    BF_CHECK(places.size() == shard.columns.size());
    for (const sources::MdsPlace& place : places) {
      BF_CHECK(place.offset + place.bytes <= sample && at + sample <= size);
    }
    if (chosen.problem.empty() && chosen.label)
      sources::mds_number(shard.columns[*chosen.label], view.view(at + places[*chosen.label].offset,
                                                                  places[*chosen.label].bytes));
  }
  return 0;
}

}  // namespace batchflow::test
