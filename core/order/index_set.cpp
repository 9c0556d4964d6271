#include "core/order/index_set.h"

namespace batchflow::order {
namespace {

// The end of the run that begins at `first`.
std::size_t end_of_run(std::span<const std::uint64_t> indices, std::size_t first) {
  std::size_t end = first + 1;
  while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
  return end;
}

}  // namespace

void write_indices(std::span<const std::uint64_t> indices, ByteWriter& writer) {
  std::uint64_t runs = 0;
  for (std::size_t at = 0; at < indices.size(); at = end_of_run(indices, at)) ++runs;
  writer.count(runs);
  std::uint64_t next = 0;  // the least that the next run can begin with
  for (std::size_t at = 0; at < indices.size();) {
    const std::size_t end = end_of_run(indices, at);
    writer.count(indices[at] - next);
    writer.count(end - at - 1);
    next = indices[end - 1] + 2;
    at = end;
  }
}

std::vector<std::uint64_t> read_indices(ByteReader& reader, std::uint64_t most, std::uint64_t end) {
  std::vector<std::uint64_t> indices;
  const std::uint64_t runs = reader.count(most);
  std::uint64_t next = 0;
  for (std::uint64_t run = 0; run < runs && reader.ok(); ++run) {
    const std::uint64_t between = reader.count();
    const std::uint64_t more = reader.count();
    if (next >= end || between >= end - next || more >= end - next - between ||
        more >= most - indices.size()) {
      reader.fail();
      break;
    }
    const std::uint64_t first = next + between;
    for (std::uint64_t i = 0; i <= more; ++i) indices.push_back(first + i);
    next = first + more + 2;
  }
  if (!reader.ok()) indices.clear();
  return indices;
}

}  // namespace batchflow::order
