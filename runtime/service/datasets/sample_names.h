// The names of a dataset's samples and classes, and sums to compare two datasets by.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/protocol/messages.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::service {

// Empty: there is none.
std::string name_in(const sources::SampleIndex& index, bool of_class, std::uint64_t key);
// The sample of that name, by its key, as far as the question goes.
protocol::FindMessage find_in(const sources::SampleIndex& index, protocol::FindMessage question);
// The sums that `of_samples` asks for, over the samples of its range that there are.
protocol::SamplesSum sum_of(const sources::SampleIndex& index, protocol::SamplesSum of_samples);

}  // namespace batchflow::service
