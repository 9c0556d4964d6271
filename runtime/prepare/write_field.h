// Writes the numbers of a sample to a field of the batch.
#pragma once

#include "runtime/batch/batch_spec.h"
#include "runtime/prepare/plan.h"
#include "runtime/sources/record.h"

namespace batchflow::prepare {

// `part` becomes row `index` of field `at_field` of `out`, which is like `field`. False: it is not
// of the type that `plan` says, or has not as many rows.
bool write_field(const NumbersPlan& plan, const batch::Field& field, const sources::Part& part,
                 const batch::BlockWriter& out, std::size_t at_field, std::uint32_t index);

}  // namespace batchflow::prepare
