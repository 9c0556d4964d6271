// Packs documents into sequences, and writes these as shards NAME-00000.bfseq.
#pragma once

#include "runtime/sources/dataset_file.h"
#include "runtime/sources/pack_writer.h"
#include "runtime/sources/sample_index.h"
#include "runtime/sources/sequences.h"

namespace batchflow::sources {

// What became of the documents.
struct SequenceCounts {
  std::uint64_t documents = 0, empty = 0;  // empty ones are skipped
  std::uint64_t unused = 0;  // beside these, of a mixture: what was left when a source had no more
  std::uint64_t cut = 0;     // documents that are longer than a sequence
  std::uint64_t tokens = 0;  // of all documents, with those that end them
  std::uint64_t sequences = 0;
  std::uint64_t left_out = 0;  // tokens at the end
};

// Why the samples of this index are no documents; empty: they are. Text is not, nor are bytes of
// tables, since nothing tells them from text.
std::string no_documents(const SampleIndex& documents, bool may_be_bytes);

// Reads the documents in the order of the plan, and holds some MiB of sequences at a time.
// REQUIRES: no_documents() is empty, rule.problem(length) too. Throws DatasetError, DatasetChanged.
SequenceCounts write_sequences(const SampleIndex& documents, const DataRoot& root,
                               const SequenceRule& rule, std::uint64_t length,
                               const PackOptions& options, const StopAsked& stop,
                               const IndexProgress& progress);

}  // namespace batchflow::sources
