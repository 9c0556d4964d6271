#include "kernels/rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/token_types.h"

namespace batchflow::kernels::on_cpu {

void gather_rows(const RowGather& gather, Stream) {
  for (std::uint64_t i = 0; i < gather.count; ++i)
    std::memcpy(gather.out + i * gather.bytes, gather.cache + gather.index[i] * gather.bytes,
                gather.bytes);
}

void pack_tokens(const TokenPacking& packing, Stream) {
  const Sequences& from = packing.from;
  with_tokens(from.token, packing.to, [&](auto in, auto out) {
    for (std::uint64_t i = 0; i < from.count; ++i) {
      const auto* tokens = static_cast<const decltype(in)*>(from.starts[i]);
      const std::int64_t length = from.offsets[i + 1] - from.offsets[i];
      auto* const to = static_cast<decltype(out)*>(packing.out) + from.offsets[i];
      for (std::int64_t k = 0; k < length; ++k) to[k] = static_cast<decltype(out)>(tokens[k]);
    }
  });
}

void fit_tokens(const TokenRows& rows, Stream) {
  const Sequences& from = rows.from;
  with_tokens(from.token, rows.to, [&](auto in, auto out) {
    for (std::uint64_t i = 0; i < from.count; ++i) {
      const auto* tokens = static_cast<const decltype(in)*>(from.starts[i]);
      const auto length = static_cast<std::uint64_t>(from.offsets[i + 1] - from.offsets[i]);
      auto* const to = static_cast<decltype(out)*>(rows.out) + i * rows.length;
      for (std::uint64_t k = 0; k < rows.length; ++k)
        to[k] = static_cast<decltype(out)>(k < length ? static_cast<std::int64_t>(tokens[k])
                                                      : rows.pad);
    }
  });
}

}  // namespace batchflow::kernels::on_cpu
