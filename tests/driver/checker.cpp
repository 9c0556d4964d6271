#include "tests/driver/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/order/keys.h"
#include "core/order/replacement.h"
#include "tests/driver/machine.h"

namespace batchflow::test {

void Counts::add(const Counts& other) {
  counted_steps += other.counted_steps;
  voided_samples += other.voided_samples;
  fillers += other.fillers;
  replaced += other.replaced;
  rehearsed += other.rehearsed;
  cut += other.cut;
}

Checker::Checker(const JobPlan& plan, const DatasetPlan& dataset)
    : plan_(plan),
      dataset_(dataset),
      seen_(dataset.samples, false),
      last_draw_(dataset.samples, {0, 0}) {
  const bool weighted = plan.order == Order::weighted;
  epoch_samples_ = is_drawn(plan.order) && plan.draws > 0 ? plan.draws : dataset.samples;
  if (weighted) {
    weighted_ = std::make_unique<WeightedCheck>(dataset.samples, epoch_samples_, plan.multinomial);
  }
  if (plan.node_local) locality_ = std::make_unique<LocalityCheck>(dataset.samples);
}

void Checker::begins(std::uint64_t seed) {
  seed_ = seed;
  if (plan_.order == Order::mixed && !mixture_)
    mixture_ = std::make_unique<MixtureCheck>(order::KeyRoot{dataset_.version, seed}, plan_.sources,
                                              order::Mixture::parts_of(plan_.weights));
}

void Checker::begins_live(std::uint64_t first, std::uint64_t end, bool ended) {
  if (live_) return;
  live_ = std::make_unique<LiveCheck>(order::KeyRoot{dataset_.version, seed_}, plan_.fills_from,
                                      plan_.fills_cut, plan_.rehearsed, plan_.reservoir);
  live_->grew(first, end, ended);
}

void Checker::began(const std::vector<NodeId>& ranks, std::uint32_t batch_samples, bool anew) {
  may_restart_ = may_restart_ || anew;
  if (anew && weighted_) weighted_->joined_anew();
  rehearsal_.began();
  if (buffer_) buffer_->began(anew);
  if (locality_) locality_->began(ranks);
  ranks_ = ranks.size();
  batch_samples_ = plain_samples_ = batch_samples;
  steps_.clear();
}

void Checker::has_buffer(std::uint64_t buffer) {
  if (buffer_) return;
  buffer_ = std::make_unique<BufferCheck>(dataset_.version, buffer, plan_.buffer_exemplars,
                                          plan_.buffer_policy == "reservoir");
}

void Checker::scored(SampleId sample, float score) {
  if (weighted_) weighted_->scored(sample, score);
}

void Checker::handed(Rank rank, std::uint64_t step, std::uint32_t epoch, bool last_of_epoch,
                     std::vector<Handed> samples) {
  if (weighted_ && epoch == epoch_) weighted_->handed();
  rehearsal_.handed(epoch);
  if (rank >= ranks_) violated("a batch for a rank that the job does not have");
  Step& mine = steps_.try_emplace(step, Step(ranks_)).first->second;
  if (mine[rank]) violated(fmt::format("rank {} is handed step {} twice", rank, step));
  mine[rank] = Batch{epoch, last_of_epoch, false, std::move(samples)};
}

void Checker::consumed(Rank rank, std::uint64_t step) {
  const auto found = steps_.find(step);
  if (found == steps_.end() || !found->second[rank] || found->second[rank]->consumed) {
    violated("a rank consumes what it was not handed");
  }
  found->second[rank]->consumed = true;
  const bool whole = std::all_of(found->second.begin(), found->second.end(),
                                 [](const auto& batch) { return batch && batch->consumed; });
  if (!whole) return;
  if (found != steps_.begin()) violated("steps are completed out of turn");
  count(found->second);
  steps_.erase(found);
}

void Checker::count(const Step& step) {
  const std::uint32_t epoch = step.front()->epoch;
  if (epoch != epoch_) violated(fmt::format("a step of epoch {} in epoch {}", epoch, epoch_));
  if (plan_.epochs != 0 && epoch >= plan_.epochs) violated("more epochs than the job has");
  if (live_) return count_live(step);
  restart_if_anew(step.front()->samples.front());
  count_rehearsed(step);
  check_shape(step);
  for (Rank rank = 0; rank < step.size(); ++rank) {
    for (const Handed& sample : step[rank]->samples) {
      if (sample.filler) continue;
      if (!sample.rehearsed) count_sample(sample);
      if (buffer_ && !sample.rehearsed && !sample.replaced) buffer_->had(sample.visited);
      count_draw(sample);
      if (sample.rehearsed) continue;
      if (!locality_) continue;
      locality_->count(rank, {sample.generation, sample.lane, sample.pass, sample.block},
                       sample.block_samples, sample.lane_samples, sample.index);
    }
  }
  ++counts_.counted_steps;
  if (locality_) counts_.cut = locality_->cut();
}

void Checker::count_live(const Step& step) {
  std::vector<std::vector<LiveCheck::Given>> ranks;
  std::uint64_t own = 0;
  std::uint64_t rehearsed = 0;
  for (const auto& batch : step) {
    if (batch->epoch != step.front()->epoch) violated("a step of two epochs");
    if (batch->last != step.front()->last) violated("ranks disagree on the end of an epoch");
    if (batch->samples.size() != step.front()->samples.size())
      violated("ranks are handed unequal counts");
    auto& given = ranks.emplace_back();
    for (const Handed& sample : batch->samples) {
      if (sample.filler) continue;
      given.push_back({sample.visited, sample.occurrence, sample.rehearsed});
      count_draw(sample);
      check_replacement(sample);
      ++(sample.rehearsed ? rehearsed : own);
    }
  }
  const bool last = step.front()->last;
  if (tail_seen_) violated("a step after the last of its epoch");
  if (step.front()->samples.empty()) violated("a batch of nothing");
  counts_.rehearsed += rehearsed;
  in_epoch_ += live_->count(ranks, batch_samples_, last);
  if (last && !live_->is_over(plan_.drop_last, ranks_, batch_samples_))
    violated("the last step of an epoch is not where it should be");
  if (last && rehearsed == 0) check_fillers(step, own);
  tail_seen_ = last;
  ++counts_.counted_steps;
}

// The last of each batch, equally many for all ranks: none, or as many as the job asked for.
void Checker::count_rehearsed(const Step& step) {
  std::vector<RehearsalCheck::Drawn> draws;
  std::uint64_t generation = 0;
  for (const auto& batch : step) {
    bool begun = false;
    for (const Handed& sample : batch->samples) {
      if (begun && !sample.rehearsed) violated("something follows what is rehearsed");
      begun = sample.rehearsed;
      if (!begun) continue;
      if (sample.filler) violated("a filler that is rehearsed");
      if (!draws.empty() && sample.generation != generation) violated("a step of two buffers");
      generation = sample.generation;
      draws.push_back({sample.visited, sample.occurrence});
      check_replacement(sample);
    }
  }
  if (!draws.empty() && draws.size() != ranks_ * plan_.rehearsed) {
    violated(fmt::format("{} samples are rehearsed in a step", draws.size()));
  }
  plain_samples_ = batch_samples_ - (draws.empty() ? 0 : plan_.rehearsed);
  counts_.rehearsed += draws.size();
  if (plan_.buffer_policy.empty()) {
    rehearsal_.count(step.front()->epoch, generation, draws);
  } else if (buffer_) {
    std::vector<SampleId> samples;
    for (const RehearsalCheck::Drawn& one : draws) samples.push_back(one.sample);
    buffer_->rehearsed(samples);
  }
}

// A weighted epoch begins again in a service that does not have the scores it was drawn from.
void Checker::restart_if_anew(const Handed& first) {
  if (std::exchange(may_restart_, false) && weighted_ &&
      !weighted_->is_of_epoch(first.generation)) {
    weighted_->restart_epoch();
    counts_.voided_samples += in_epoch_;
    in_epoch_ = 0;
    tail_seen_ = false;
  }
}

// Equal counts; a whole step unless it is the epoch's last; fillers in that one alone.
void Checker::check_shape(const Step& step) {
  std::uint64_t own = 0;
  for (const auto& batch : step) {
    if (batch->epoch != step.front()->epoch) violated("a step of two epochs");
    if (batch->last != step.front()->last) violated("ranks disagree on the end of an epoch");
    if (batch->samples.size() != step.front()->samples.size()) {
      violated("ranks are handed unequal counts");
    }
    for (const Handed& sample : batch->samples) own += sample.filler || sample.rehearsed ? 0 : 1;
  }
  if (tail_seen_) violated("a step after the last of its epoch");
  if (step.front()->samples.empty()) violated("a batch of nothing");
  const std::uint64_t whole = ranks_ * plain_samples_;
  const std::uint32_t rehearsed = batch_samples_ - plain_samples_;
  if (own == whole && step.front()->samples.size() == batch_samples_) {
    if (step.front()->last != is_over(in_epoch_ + own))
      violated("the last step of an epoch is not where it should be");
    tail_seen_ = step.front()->last;
    return;
  }
  if (plan_.drop_last) violated("a short step, though the tail is to be left out");
  if (!step.front()->last) violated("a short step in the middle of an epoch");
  if (in_epoch_ + own != epoch_samples_) violated("a short step does not end its epoch");
  if (step.front()->samples.size() != (own + ranks_ - 1) / ranks_ + rehearsed) {
    violated("the tail is not cut evenly");
  }
  check_fillers(step, own);
  tail_seen_ = true;
}

// Fillers come last, and repeat the tail from its start, cyclically.
void Checker::check_fillers(const Step& step, std::uint64_t own) {
  std::vector<SampleId> tail;
  std::uint64_t index = 0;
  for (const auto& batch : step) {
    for (const Handed& sample : batch->samples) {
      if (sample.rehearsed) continue;
      if (sample.filler != (index >= own)) violated("a filler flag where it should not be");
      if (!sample.filler) {
        tail.push_back(sample.visited);
      } else {
        ++counts_.fillers;
        if (sample.visited != tail[index % own]) violated("a filler does not repeat the tail");
      }
      ++index;
    }
  }
}

// Whatever the order: no sample comes twice with the key that its random steps are drawn with.
void Checker::count_draw(const Handed& sample) {
  const order::KeyRoot root{dataset_.version, seed_};
  const bool numbered = weighted_ || mixture_ || live_ || sample.rehearsed;
  const std::uint64_t key =
      numbered ? order::occurrence_draw_key(
                     root, (mixture_ && !sample.rehearsed) || live_ ? 0 : sample.generation,
                     sample.visited, sample.occurrence)
               : order::draw_key(root, sample.generation, sample.pass, sample.visited);
  if (!draws_.insert(key).second) {
    violated(fmt::format("sample {} repeats its draws", sample.visited.value));
  }
}

void Checker::count_sample(const Handed& sample) {
  const std::uint64_t id = sample.visited.value;
  if (id >= dataset_.samples) violated(fmt::format("there is no sample {}", id));
  if (weighted_) {
    weighted_->count(sample.visited, sample.generation, sample.occurrence);
    ++in_epoch_;
    return check_replacement(sample);
  }
  if (mixture_) {
    mixture_->count(sample.visited, sample.occurrence);
    ++in_epoch_;
    return check_replacement(sample);
  }
  if (seen_[id]) violated(fmt::format("sample {} twice in epoch {}", id, epoch_));
  seen_[id] = true;
  const bool sequential = plan_.order == Order::sequential;
  const order::KeyRoot root{dataset_.version, seed_};
  if (plan_.order == Order::strict || sequential) {
    if (!sequential && sequence_epoch_ != epoch_) {
      sequence_ = std::make_unique<order::Permutation>(order::generation_key(root, epoch_),
                                                       dataset_.samples);
      sequence_epoch_ = epoch_;
    }
    const std::uint64_t expected = sequential ? in_epoch_ : (*sequence_)(in_epoch_);
    if (expected != id) {
      violated(fmt::format("sample {} at index {} of epoch {}, where {} belongs", id, in_epoch_,
                           epoch_, expected));
    }
    if (sample.generation != epoch_ || sample.pass != 0) violated("draws of another epoch");
  }
  const std::pair draw{sample.generation + 1, sample.pass};
  if (last_draw_[id] >= draw) violated(fmt::format("sample {} twice with the same draws", id));
  last_draw_[id] = draw;
  ++in_epoch_;
  check_replacement(sample);
}

void Checker::check_replacement(const Handed& sample) {
  const order::KeyRoot root{dataset_.version, seed_};
  const auto corrupt = [&](SampleId one) {
    return std::find(dataset_.corrupt.begin(), dataset_.corrupt.end(), one) !=
           dataset_.corrupt.end();
  };
  if (sample.replaced != corrupt(sample.visited))
    violated(fmt::format("sample {} is {}replaced", sample.visited.value,
                         sample.replaced ? "" : "not "));
  if (!sample.replaced) {
    if (sample.used != sample.visited) violated("another sample without a word");
    return;
  }
  ++counts_.replaced;
  // Any record that was there when it was replaced may stand for it.
  if (live_) return;
  const auto used =
      mixture_ && !sample.rehearsed
          ? order::replacement(root, 0, static_cast<std::uint32_t>(sample.occurrence),
                               sample.visited, mixture_->source_of(sample.visited), corrupt)
          : order::replacement(root, sample.generation, sample.pass, sample.visited,
                               {SampleId(0), dataset_.samples}, corrupt);
  if (!used || *used != sample.used) violated("a replacement that the rule does not name");
}

// An epoch that had so many samples has no step left.
bool Checker::is_over(std::uint64_t samples) const {
  if (live_) return live_->is_over(plan_.drop_last, ranks_, batch_samples_);
  if (samples >= epoch_samples_) return true;
  return plan_.drop_last && epoch_samples_ - samples < ranks_ * plain_samples_;
}

void Checker::end_epoch() {
  if (live_) {
    in_epoch_ = 0;
    tail_seen_ = false;
    ++epoch_;
    return;
  }
  const std::uint64_t left = epoch_samples_ - in_epoch_;
  const std::uint64_t most = plan_.drop_last ? ranks_ * plain_samples_ - 1 : 0;
  if (left > most) {
    violated(fmt::format("epoch {} ends with {} samples left out", epoch_, left));
  }
  if (weighted_) weighted_->end_epoch(left);
  rehearsal_.end_epoch();
  if (buffer_) buffer_->end_epoch();
  if (locality_) locality_->end_epoch();
  seen_.assign(seen_.size(), false);
  in_epoch_ = 0;
  tail_seen_ = false;
  ++epoch_;
}

void Checker::epoch_ended(std::uint32_t epoch, std::uint64_t samples) {
  if (epoch != ended_) violated("epochs end out of turn");
  ++ended_;
  if (epoch != epoch_ || !is_over(in_epoch_)) violated("an epoch is said to be over, and is not");
  if (samples != in_epoch_) {
    violated(fmt::format("an epoch of {} samples is said to have had {}", in_epoch_, samples));
  }
  end_epoch();
}

void Checker::finished() {
  if (in_epoch_ != 0 || epoch_ != plan_.epochs || ended_ != plan_.epochs) {
    violated("a job is finished before its last epoch is");
  }
}

}  // namespace batchflow::test
