#include "core/engine/block_selection.h"

#include <algorithm>

#include "core/engine/books.h"

namespace batchflow::engine {

// A node's ranks get blocks that are on it, and wait for a block that is being made there: what is
// ready elsewhere is for the ranks there. If there is none, they take any block.
void BlockSelection::prefer_local(NodeId node) {
  const auto is_local = [&](const order::Lanes::Candidate& one) {
    return s_.blocks[BlockIndex(one.tag)].node == node;
  };
  if (std::none_of(found_.begin(), found_.end(), is_local)) return;
  std::erase_if(found_, [&](const order::Lanes::Candidate& one) { return !is_local(one); });
}

// A position could not hold more lanes that are begun, or more blocks that are used in part.
bool BlockSelection::is_full(const EpochRun& run) {
  return run.begun.full() || run.open.size() >= order::Position::kPartBlocksMost;
}

// No lane is begun that a position could not hold. Then a node takes from lanes that are begun, or
// from what is left of other nodes' blocks, as at the end of an epoch.
void BlockSelection::prefer_begun(const EpochRun& run) {
  if (!is_full(run)) return;
  const bool none = run.open.size() >= order::Position::kPartBlocksMost;
  std::erase_if(found_, [&](const order::Lanes::Candidate& one) {
    return none || !run.begun.has(s_.blocks[BlockIndex(one.tag)].name.lane);
  });
}

// What the selection policy chooses of what the order allows, or null.
const order::Lanes::Candidate* BlockSelection::choose(Job& job, const EpochRun& run, NodeId node) {
  // A node's ranks choose among its own blocks, wherever these stand in the list.
  s_.streams[job.stream].lanes->candidates(job.member, found_,
                                           node.is_none() && !policy_of(job).looks_behind_ready());
  prefer_begun(run);
  if (found_.empty()) return nullptr;
  // A strict order leaves no choice.
  if (job.order != Order::relaxed) return found_.front().ready ? &found_.front() : nullptr;
  if (!node.is_none()) prefer_local(node);
  views_.clear();
  for (const order::Lanes::Candidate& candidate : found_) {
    views_.push_back({candidate.distance, candidate.ready, candidate.needed,
                      seconds(s_.now - s_.blocks[BlockIndex(candidate.tag)].since)});
  }
  const std::size_t choice = chosen(job);
  return choice == kNoChoice ? nullptr : &found_[choice];
}

// The policy's answer. If that is none of the candidates, or not ready, the built-in default
// chooses: the oldest that is ready.
std::size_t BlockSelection::chosen(Job& job) {
  SelectionPolicy& policy = policy_of(job);
  const SelectionView view{job.id, job.order, views_, s_.now, job.user};
  const Asking asking(s_.memory.asked(), view);
  const std::size_t choice = policy.choose(view);
  note_held(job, choice == kNoChoice && views_.front().ready && views_.front().distance == 0);
  if (choice == kNoChoice) {
    s_.ask_again(policy.ask_again(), job.asks_again,
                 {AlarmKind::look_at_job, job.index.value, job.serial});
    return kNoChoice;
  }
  if (choice < views_.size() && views_[choice].ready) return choice;
  refuse(job);
  const auto ready = std::find_if(views_.begin(), views_.end(),
                                  [](const SelectionCandidate& one) { return one.ready; });
  return ready == views_.end() ? kNoChoice : static_cast<std::size_t>(ready - views_.begin());
}

void BlockSelection::note_held(const Job& job, bool held) {
  if (held_.empty() && !held) return;
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const Held& one) { return one.id == job.id; });
  if (held && found == held_.end()) held_.push_back({job.index, job.id, s_.now, views_});
  if (!held && found != held_.end()) held_.erase(found);
}

void BlockSelection::refuse(const Job& job) {
  ++refused_;
  ++s_.streams[job.stream].refused_choices;
}

// ------------------------------------------------------------------------------- samples ----

order::ChosenEpoch& BlockSelection::chosen_epoch(Job& job, std::uint32_t epoch) const {
  auto& epochs = job.chosen_epochs;
  const auto found = std::find_if(epochs.begin(), epochs.end(),
                                  [&](const auto& one) { return one.epoch() >= epoch; });
  if (found != epochs.end() && found->epoch() == epoch) return *found;
  const Catalogue& catalogue = *s_.datasets[job.dataset].catalogue;
  const Stream& stream = s_.streams[job.stream];
  const order::KeyRoot root{catalogue.version(), stream.seed};
  const order::Position& at = job.committed;
  if (at.epoch() != epoch || at.consumed() == 0)
    return *epochs.emplace(found, root, epoch, catalogue.samples());
  // The job came with this epoch begun. Its next block is made as a whole.
  return *epochs.emplace(found, root, epoch, catalogue.samples(), at.consumed(),
                         at.fields().left_out, at.consumed() % stream.block_samples);
}

void BlockSelection::forget_chosen(Job& job, std::uint32_t epoch) {
  while (!job.chosen_epochs.empty() && job.chosen_epochs.front().epoch() < epoch)
    job.chosen_epochs.pop_front();
}

void BlockSelection::choose_samples(Job& job, const Block& block, NodeIndex node) {
  const Stream& stream = s_.streams[job.stream];
  order::ChosenEpoch& epoch = chosen_epoch(job, static_cast<std::uint32_t>(block.name.generation));
  const std::uint64_t end =
      (block.sizes.first_block_of(block.name.lane) + block.name.block) * block.sizes.block_samples +
      block.samples;
  while (epoch.taken() < end) {
    const std::uint64_t in_block = epoch.taken() % block.sizes.block_samples;
    const std::uint64_t left = epoch.samples() - epoch.taken();
    const std::uint64_t count = std::min(block.sizes.block_samples - in_block, left);
    const std::size_t wanted = std::max<std::size_t>(1, policy_of(job).blocks_to_choose_from()) *
                               block.sizes.block_samples;
    const auto candidates = epoch.candidates(
        std::max<std::size_t>(std::min(wanted, order::kChosenCandidatesMost), count));
    kept_items_.show(stream, node, candidates, samples_);
    s_.samples_looked_up += candidates.size() / 8;  // a candidate costs less than an ingredient
    picks_.assign(count, UINT32_MAX);
    const SamplesView view{job.id, epoch.epoch(), left, samples_, s_.now};
    {
      const Asking asking(s_.memory.asked(), view);
      policy_of(job).choose_samples(view, picks_);
    }
    check_picks(job, candidates.size());
    epoch.take(picks_, candidates.size());
  }
}

std::span<const float> BlockSelection::weigh(const Job& job, std::span<const Score> scores) {
  scores_.clear();
  for (const Score& score : scores) scores_.push_back(score.value);
  weights_.assign(scores.size(), 0);
  policy_of(job).weigh(job.id, scores_, weights_);
  return weights_;
}

// Instead of an answer that is wrong, the oldest candidates are taken.
void BlockSelection::check_picks(const Job& job, std::size_t offered) {
  picked_.assign(offered, false);
  const bool right = std::all_of(picks_.begin(), picks_.end(), [&](std::uint32_t pick) {
    if (pick >= offered || picked_[pick]) return false;
    picked_[pick] = true;
    return true;
  });
  if (right) return;
  refuse(job);
  for (std::uint32_t i = 0; i < picks_.size(); ++i) picks_[i] = i;
}

}  // namespace batchflow::engine
