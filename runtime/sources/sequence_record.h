// A sequence as it is stored: a record of the packed format (docs/packed.md), in files NAME.bfseq.
// A job is handed more than that: tokens of 32 bits, and where documents are whole the position
// of each token in its document, and which document of the sequence that is.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/batch/batch_spec.h"

namespace batchflow::sources {

struct SequenceShape {
  std::uint64_t length = 0;  // N
  // Lengths of the documents are stored; a length below 0 is so many empty places.
  bool whole = false;
  bool wide = false;       // tokens are stored in 32 bits, not 16
  std::uint64_t rows = 0;  // not 0: so many sequences are one sample

  std::uint64_t places() const { return rows > 0 ? rows * length : length; }
};
batch::BatchSpec stored_sequence(const SequenceShape& shape);
// None: no sequence is stored so.
std::optional<SequenceShape> sequence_shape(const batch::BatchSpec& stored);
// The fields of a batch: `tokens`, and `positions` and `segments` where documents are whole.
batch::BatchSpec sequence_fields(const SequenceShape& shape);

}  // namespace batchflow::sources
