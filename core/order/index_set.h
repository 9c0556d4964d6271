// A set of indices in a few bytes: as runs of adjacent ones.
//
// Where a policy chooses the samples of a job, what the job has had is no range of its order. It is
// nearly one: all but the few that the policy passed over.
//
// The bytes: how many runs there are; of each, how many indices lie between it and the run before
// (between it and 0, of the first), and how many it has beside its first. Equal sets have equal
// bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/byte_codec.h"

namespace batchflow::order {

// REQUIRES: ascending, none twice
void write_indices(std::span<const std::uint64_t> indices, ByteWriter& writer);
// At most `most` indices, all below `end`: else the reader fails. Memory is taken for no more.
std::vector<std::uint64_t> read_indices(ByteReader& reader, std::uint64_t most, std::uint64_t end);

}  // namespace batchflow::order
