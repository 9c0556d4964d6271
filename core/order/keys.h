// The keys of the order rules. Every choice that decides which sample comes where, or what a random
// step does to it, starts from one of these keys and from nothing else. No node, worker,
// time or address enters a key, and a job only where its order is shared with no other. That is why
// jobs may share blocks, and why a rebuilt block has the same bytes.
//
// The first word tells the uses apart. A change of any of these functions changes every order that
// was ever promised; tests/core/permutation_test.cpp holds their values.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "core/base/types.h"

namespace batchflow::order {

// All keys of a stream begin with this.
struct KeyRoot {
  Digest dataset_version = 0;  // D
  std::uint64_t seed = 0;      // S: the seed of the seed group
  friend constexpr bool operator==(const KeyRoot&, const KeyRoot&) = default;
};

// The order of generation g; of epoch g of a strict job.
constexpr std::uint64_t generation_key(KeyRoot root, std::uint64_t generation) {
  return hash(1, root.dataset_version, root.seed, generation);
}
// How pass r > 0 cuts the samples of a lane into blocks anew. Where runs are shuffled, pass 0, too.
constexpr std::uint64_t recut_key(KeyRoot root, std::uint64_t generation, std::uint32_t lane,
                                  std::uint32_t pass) {
  return hash(2, root.dataset_version, root.seed, generation, lane, pass);
}
// The draws of all random steps for one visit of a sample.
constexpr std::uint64_t draw_key(KeyRoot root, std::uint64_t generation, std::uint32_t pass,
                                 SampleId sample) {
  return hash(3, root.dataset_version, root.seed, generation, pass, sample.value);
}
// The same in a weighted epoch, which may visit a sample often: `occurrence` counts from 0.
constexpr std::uint64_t occurrence_draw_key(KeyRoot root, std::uint64_t generation, SampleId sample,
                                            std::uint64_t occurrence) {
  return hash(3, root.dataset_version, root.seed, generation, 0, sample.value, occurrence);
}
// Which of equally good lanes a stream opens, after it has opened `passes_opened` passes.
constexpr std::uint64_t lane_choice_key(KeyRoot root, std::uint64_t generation, std::uint32_t lane,
                                        std::uint64_t passes_opened) {
  return hash(4, root.dataset_version, root.seed, generation, lane, passes_opened);
}
// The k-th candidate to replace a corrupt sample.
constexpr std::uint64_t replacement_key(KeyRoot root, std::uint64_t generation, std::uint32_t pass,
                                        SampleId sample, std::uint32_t attempt) {
  return hash(5, root.dataset_version, root.seed, generation, pass, sample.value, attempt);
}
// The order of the draws of a weighted epoch, the start of systematic draws, and multinomial draws.
// The start has a key of its own: from the first key it would equal the first swap of the
// permutation.
constexpr std::uint64_t weighted_key(KeyRoot root, std::uint64_t epoch) {
  return hash(6, root.dataset_version, root.seed, epoch);
}
constexpr std::uint64_t weighted_start_key(KeyRoot root, std::uint64_t epoch) {
  return hash(6, root.dataset_version, root.seed, epoch, 1);
}
constexpr std::uint64_t weighted_draw_key(KeyRoot root, std::uint64_t epoch) {
  return hash(6, root.dataset_version, root.seed, epoch, 2);
}
// The order of the exemplars in one round of an epoch's draws from a buffer.
constexpr std::uint64_t rehearsal_key(KeyRoot root, std::uint64_t epoch, Digest buffer,
                                      std::uint64_t round) {
  return hash(7, root.dataset_version, root.seed, epoch, buffer, round);
}
// Where the systematic draws of such a round begin, if exemplars have weights.
constexpr std::uint64_t rehearsal_start_key(KeyRoot root, std::uint64_t epoch, Digest buffer,
                                            std::uint64_t round) {
  return hash(7, root.dataset_version, root.seed, epoch, buffer, round, 1);
}
// A sample's number in a buffer that the engine fills: policies that choose evenly go by it. Then
// the chance of one visit, `shown` samples after the buffer's first.
constexpr std::uint64_t buffer_number(Digest dataset_version, std::uint64_t buffer,
                                      SampleId sample) {
  return hash(13, dataset_version, buffer, sample.value);
}
constexpr std::uint64_t buffer_visit_key(Digest dataset_version, std::uint64_t buffer,
                                         std::uint64_t shown) {
  return hash(13, dataset_version, buffer, shown, 1);
}
// S of jobs that shuffle runs of 2^run_shift samples, from the S that they would have otherwise:
// the two have no order in common, nor have runs of two lengths.
constexpr std::uint64_t runs_seed(std::uint64_t seed, std::uint8_t run_shift) {
  return hash(8, seed, run_shift);
}

// S of a job of which a policy chooses the samples, from the S that it would have otherwise: no
// other job has its order.
constexpr std::uint64_t chosen_seed(std::uint64_t seed, std::uint32_t job) {
  return hash(9, seed, job);
}

// The order of a pass of a source of a mixture that begins at sample `first`.
constexpr std::uint64_t source_key(KeyRoot root, SampleId first, std::uint64_t pass) {
  return hash(10, root.dataset_version, root.seed, first.value, pass);
}

// Where the draws of one pipeline step begin (`step`: its index in the pipeline). How many numbers
// a step draws does not shift those of the next.
constexpr std::uint64_t step_seed(std::uint64_t draw_key, std::uint32_t step) {
  return hash(draw_key, step);
}

// The order in which documents are packed into sequences. The key has the version of the documents,
// because the sequences are a dataset with a version of its own.
constexpr std::uint64_t documents_key(Digest documents_version, std::uint64_t packing_seed) {
  return hash(11, documents_version, packing_seed);
}

// Which of the records that a live job has had fills in for one that has not come: its n-th fill.
constexpr std::uint64_t fill_key(KeyRoot root, std::uint64_t fill) {
  return hash(12, root.dataset_version, root.seed, fill);
}

// Which exemplar of a live job's reservoir the record replaces, if any.
constexpr std::uint64_t reservoir_key(KeyRoot root, std::uint64_t record) {
  return hash(14, root.dataset_version, root.seed, record);
}

}  // namespace batchflow::order
