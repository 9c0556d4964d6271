// Plans the fields of a pipeline by what the samples of its dataset hold. Each throws
// ConfigError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/prepare/joint_fields.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::prepare {

// The fields of a sample as it is stored.
batch::BatchSpec stored_fields(const sources::SampleIndex& dataset);

// Refuses a name that no part of the dataset's samples has; empty: they have no part but a label.
[[noreturn]] void refuse_part(config::ConfigSection& section, std::string_view key,
                              const sources::SampleIndex& dataset, const std::string& part);

// Checks that samples have the parts that the field is read from, in a form that can be read.
void check_parts(config::ConfigSection& section, const sources::SampleIndex& dataset,
                 const FieldEntry& field);

// The field once it has been read: as the batch has it, but for its own steps. `row` becomes the
// shape of its rows.
batch::Field planned_field(config::ConfigSection& section, const sources::SampleIndex& dataset,
                           const FieldEntry& entry, std::vector<std::uint64_t>& row);

}  // namespace batchflow::prepare
