// Buffers that the engine fills. A rehearsal policy says which of the samples that jobs have had
// are kept, for these jobs to rehearse.
//
// A buffer belongs to a dataset version and a name. It outlives its jobs, so that the loaders of a
// training that comes task by task fill one buffer in turn. A job shows it the samples of each
// committed step, in their order. Each change is part of the promise of the commit, so a buffer is
// the same after a crash.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/catalogue.h"
#include "core/engine/event.h"
#include "core/engine/policy_list.h"
#include "core/engine/promise.h"
#include "core/order/rehearsal.h"

namespace batchflow::engine {

class Buffer {
 public:
  // Throws ConfigError where there is no such policy.
  Buffer(const BufferName& name, std::uint32_t exemplars_most, std::string_view policy,
         const PolicyList& list);

  const BufferName& name() const { return name_; }
  std::uint32_t exemplars_most() const { return exemplars_most_; }
  const std::string& policy() const { return policy_text_; }
  std::span<const Exemplar> exemplars() const { return exemplars_; }
  std::uint64_t shown() const { return shown_; }
  std::uint64_t refused() const { return refused_; }

  // A job has had these samples. Adds what changes to `kept`.
  void show(const Catalogue& catalogue, std::span<const SampleId> samples,
            std::vector<KeptExemplar>& kept);
  // A report on a sample counts at once if the buffer has the sample. Else it waits until the
  // sample is shown, for some thousands of samples.
  void score(SampleId sample, float score);
  void describe(SampleId sample, std::optional<std::uint32_t> label,
                std::span<const float> features);
  // What it holds now; null: nothing.
  std::shared_ptr<const order::Exemplars> whole();
  // Adds exemplars of an earlier engine, behind those restored already. False: they do not fit.
  bool restore(std::uint64_t shown, std::span<const Exemplar> exemplars);
  bool is_of(const Catalogue& catalogue) const;  // all its samples are

  std::uint32_t jobs = 0;       // that have it; Buffers counts them
  std::uint64_t last_used = 0;  // serial of the last job that came

 private:
  struct Reported {
    bool is_scored = false;
    float score = 0;
    std::optional<std::uint32_t> label;
    std::vector<float> features;
  };
  Reported& reported_of(SampleId sample);
  RehearsalView view(const Exemplar& exemplar, std::span<const float> features) const;
  void put(std::size_t index, const Exemplar& exemplar, std::span<const float> features);

  BufferName name_;
  std::uint32_t exemplars_most_;
  std::string policy_text_;
  PolicyChoice choice_;  // the policy refers to its parameters
  std::unique_ptr<RehearsalPolicy> policy_;
  std::vector<Exemplar> exemplars_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_of_;  // by sample; never iterated over
  std::unordered_map<std::uint64_t, Reported> reported_;       // the same
  std::deque<std::uint64_t> reported_order_;                   // oldest first
  std::uint64_t shown_ = 0;
  std::uint64_t refused_ = 0;
  std::shared_ptr<const order::Exemplars> whole_;
  bool is_whole_ = true;  // whole_ is as the buffer is now
};

class Buffers {
 public:
  // Of all buffers together.
  static constexpr std::uint64_t kExemplarsMost = std::uint64_t{1} << 20;
  static constexpr std::size_t kBuffersMost = 1024;

  explicit Buffers(const PolicyList& list) : list_(list) {}

  // Why a job cannot have the buffer that it asks for, with both values.
  struct Objection {
    Refusal why;
    std::uint64_t needed = 0;
    std::uint64_t available = 0;
  };
  std::optional<Objection> objection(const JobJoined& event, Digest version) const;
  // The buffer that the job asks for. Buffers that leave for it are added to `gone`. One of them
  // may be a promised buffer of that name with samples that the dataset does not have.
  // REQUIRES: there is no objection
  Buffer& join(const JobJoined& event, const Catalogue& catalogue, std::vector<BufferName>& gone);
  void leave(Buffer& buffer) { --buffer.jobs; }
  // False: jobs have the buffer already; or there can be no such buffer, and its earlier part is
  // gone.
  bool promised(const BufferPromised& event);

  std::uint64_t refused() const;  // answers of policies
  const std::map<BufferName, Buffer>& all() const { return all_; }

 private:
  // Whether there is room for another, once the buffers in `leave` have left. It fills `leave` with
  // buffers without jobs, least recently used first.
  bool has_room(std::uint64_t exemplars, std::vector<BufferName>& leave) const;
  bool restore(const BufferPromised& event);
  void forget(const BufferName& name);

  const PolicyList& list_;
  std::map<BufferName, Buffer> all_;
  std::uint64_t exemplars_ = 0;  // that all of them have room for
  std::uint64_t serials_ = 0;
  std::uint64_t refused_by_gone_ = 0;
};

}  // namespace batchflow::engine
