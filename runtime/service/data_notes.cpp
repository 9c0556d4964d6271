#include "runtime/service/data_notes.h"

#include "fmt/format.h"
#include "runtime/sources/file_kinds.h"

namespace batchflow {

std::vector<std::string> data_notes(const SampleIndex& index, const Pipeline& pipeline,
                                    bool is_default, std::uint64_t corrupt_most) {
  const bool decodes = pipeline.info().decode_cost > Duration(0);
  if (index.kind() != RecordKind::whole) return {};
  if (!decodes && is_default)
    return {
        fmt::format("its samples are the bytes of its files, {}, as they are: no pipeline was "
                    "named, and none is usual for them; write pipeline= for what is to be made "
                    "of them, or pipeline='bytes' to have them so (docs/datasets.md)",
                    endings_text(index, true))};
  const std::uint64_t corrupt = undecodable_samples(index);
  if (!decodes || corrupt == 0) return {};
  return {fmt::format(
      "{} of {} samples cannot be decoded: {}; JPEG and PNG can. Another sample stands in the "
      "place "
      "of each{}; convert them, or leave them out (docs/python.md)",
      corrupt, index.samples(), endings_text(index, false),
      corrupt > corrupt_most
          ? fmt::format(", and more than {} end the job (corrupt_ratio_max)", corrupt_most)
          : "")};
}

}  // namespace batchflow
