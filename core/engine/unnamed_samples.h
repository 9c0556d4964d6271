// The samples that a command to prepare does not name: all of its lineage, or those that are kept
// as they are stored, but for what its ingredients replace. For backends that look at each sample.
#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/event.h"
#include "core/order/order.h"

namespace batchflow::engine {

// `samples`: of the dataset.
inline void unnamed_samples(const Prepare& command, std::uint64_t samples,
                            order::Expander& expander, std::vector<SampleId>& out) {
  out.clear();
  const std::uint32_t from = command.kept_from;
  const std::uint32_t to = command.kept_to > 0           ? command.kept_to
                           : command.ingredients.empty() ? command.lineage.samples
                                                         : 0;
  if (from >= to) return;
  expander.expand(command.lineage, samples, from, to, out);
  for (const Ingredient& ingredient : command.ingredients)
    out[ingredient.index - from] = SampleId::none();
  std::erase(out, SampleId::none());
}

}  // namespace batchflow::engine
