#include "runtime/service/datasets/data_notes.h"

#include "fmt/format.h"
#include "runtime/sources/file_kinds.h"

namespace batchflow::service {

std::vector<std::string> data_notes(const sources::SampleIndex& index,
                                    const prepare::Pipeline& pipeline, bool is_default,
                                    std::uint64_t corrupt_most) {
  const bool decodes = pipeline.info().decode_cost > Duration(0);
  if (index.kind() != sources::RecordKind::whole) return {};
  if (!decodes && is_default)
    return {
        fmt::format("its samples are the bytes of its files, {}, as they are: no pipeline was "
                    "named, and none is usual for them; write pipeline= for what is to be made "
                    "of them, or pipeline='bytes' to have them so (docs/datasets.md)",
                    sources::endings_text(index, true))};
  const std::uint64_t corrupt = sources::undecodable_samples(index);
  if (!decodes || corrupt == 0) return {};
  return {fmt::format(
      "{} of {} samples cannot be decoded: {}; JPEG and PNG can. Another sample stands in the "
      "place "
      "of each{}; convert them, or leave them out (docs/python.md)",
      corrupt, index.samples(), sources::endings_text(index, false),
      corrupt > corrupt_most
          ? fmt::format(", and more than {} end the job (corrupt_ratio_max)", corrupt_most)
          : "")};
}

}  // namespace batchflow::service
