#include "policies/apart/eviction_proxy.h"

#include <algorithm>

namespace batchflow::apart {
namespace {

// How often the plays of one block are begun anew. After that its requests are asked for one by
// one.
constexpr std::uint32_t kPlayedAnewMost = 8;

}  // namespace

void EvictionProxy::announced(std::span<const engine::Access> requests) {
  undo();
  requests_.assign(requests.begin(), requests.end());
  at_ = 0;
  played_anew_ = 0;
}

void EvictionProxy::hit(const engine::Access& access) {
  if (const Play* const play = next_play(access.item)) {
    if (play->hit != 0) return end_play();
    undo();
  } else if (is_played(access.item)) {
    undo();
  }
  begin(CallKind::hit).put(access);
  tell();
}

engine::Admission EvictionProxy::missed(const engine::Access& access) {
  const Play* play = next_play(access.item);
  if (play != nullptr && play->hit != 0) {
    undo();
    play = nullptr;
  }
  if (play == nullptr) play = play_from(access);
  if (play == nullptr) return engine::Admission::insert;
  const engine::Admission answer = play->admission;
  // Nothing more is asked of what stays out and needs no room. A block comes in all the same.
  if (answer == engine::Admission::bypass && !forced_) {
    end_play();
  } else {
    in_play_ = true;
  }
  return answer;
}

ItemId EvictionProxy::victim(const engine::Access& newcomer) {
  if (in_play_) {
    const Play& play = plays_[play_];
    const bool same = newcomer.item == (forced_ ? ItemId::none() : play.item);
    if (same && victim_ < play.victims) return victims_[first_victim_ + victim_++];
    // The share needs more room than was foreseen, or lets the item in whatever is answered.
    undo();
  }
  begin(CallKind::victim).put(newcomer);
  return ask_for<ItemId>().value_or(ItemId::none());
}

void EvictionProxy::removed(ItemId item, engine::Removal why) {
  if (in_play_ && why == engine::Removal::evicted && victim_ > removed_ &&
      victims_[first_victim_ + victim_ - 1] == item) {
    removed_ = victim_;
    return;
  }
  if (in_play_ || is_played(item)) undo();
  MessageWriter call = begin(CallKind::removed);
  call.put(item);
  call.put(why);
  tell();
}

void EvictionProxy::inserted(const engine::Access& access) {
  if (in_play_) {
    const Play& play = plays_[play_];
    if (play.item == access.item && play.inserted != 0 && victim_ == play.victims)
      return end_play();
    undo();
  } else if (is_played(access.item)) {
    undo();
  }
  begin(CallKind::inserted).put(access);
  tell();
}

void EvictionProxy::pinned(ItemId item) {
  undo();
  begin(CallKind::pinned).put(item);
  tell();
}

void EvictionProxy::unpinned(ItemId item) {
  if (is_played(item)) undo();
  begin(CallKind::unpinned).put(item);
  tell();
}

void EvictionProxy::resized(Slots capacity) {
  undo();
  begin(CallKind::resized).put(capacity);
  tell();
}

void EvictionProxy::grow(std::size_t items) {
  begin(CallKind::grow).put(static_cast<std::uint64_t>(items));
  tell();
}

void EvictionProxy::forget(ItemId item) {
  if (is_played(item)) undo();
  begin(CallKind::forget).put(item);
  tell();
}

void EvictionProxy::needed(ItemId item, std::uint32_t jobs) {
  MessageWriter call = begin(CallKind::needed);
  call.put(item);
  call.put(jobs);
  tell();
}

void EvictionProxy::scored(ItemId item, float score) {
  MessageWriter call = begin(CallKind::scored);
  call.put(item);
  call.put(score);
  tell();
}

void EvictionProxy::epoch_began(JobId job, std::uint32_t epoch) {
  MessageWriter call = begin(CallKind::epoch_began);
  call.put(job);
  call.put(epoch);
  tell();
}

engine::EarlyRead EvictionProxy::read_early(const engine::Access& access) {
  undo();
  begin(CallKind::read_early).put(access);
  const auto answer = ask_for<std::uint8_t>();
  if (!answer) return engine::EarlyRead::stop;
  if (*answer <= static_cast<std::uint8_t>(engine::EarlyRead::stop))
    return static_cast<engine::EarlyRead>(*answer);
  reject("read_early has no such answer");
  return engine::EarlyRead::stop;
}

const Play* EvictionProxy::next_play(ItemId item) {
  if (in_play_) {
    // What was asked for last ended early: the policy named nothing that could leave.
    const Play& play = plays_[play_];
    if (play.inserted != 0 || victim_ < play.victims) {
      undo();
      return nullptr;
    }
    end_play();
  }
  for (std::size_t i = play_; i < plays_.size(); ++i) {
    if (plays_[i].item == item) {
      play_ = i;
      return &plays_[i];
    }
    if (changes_something(plays_[i])) break;
  }
  return nullptr;
}

bool EvictionProxy::changes_something(const Play& play) {
  return play.inserted != 0 || play.victims > 0 || play.brought_back != 0;
}

void EvictionProxy::end_play() {
  first_victim_ += plays_[play_].victims;
  ++play_;
  victim_ = removed_ = 0;
  in_play_ = false;
}

bool EvictionProxy::is_played(ItemId item) const {
  return std::any_of(plays_.begin() + static_cast<std::ptrdiff_t>(play_), plays_.end(),
                     [&](const Play& play) { return play.item == item; }) ||
         std::find(victims_.begin() + static_cast<std::ptrdiff_t>(first_victim_), victims_.end(),
                   item) != victims_.end();
}

void EvictionProxy::undo() {
  if (std::any_of(plays_.begin() + static_cast<std::ptrdiff_t>(play_), plays_.end(),
                  &changes_something)) {
    MessageWriter call = begin(CallKind::undo);
    call.put(UndoCall{static_cast<std::uint32_t>(play_), in_play_ ? removed_ : 0});
    tell();
  }
  plays_.clear();
  victims_.clear();
  play_ = first_victim_ = 0;
  victim_ = removed_ = 0;
  in_play_ = false;
}

const Play* EvictionProxy::play_from(const engine::Access& access) {
  undo();
  const auto found =
      std::find_if(requests_.begin() + static_cast<std::ptrdiff_t>(at_), requests_.end(),
                   [&](const engine::Access& one) { return one.item == access.item; });
  std::span<engine::Access> rest;
  if (found != requests_.end() && played_anew_ < kPlayedAnewMost) {
    ++played_anew_;
    at_ = static_cast<std::size_t>(found - requests_.begin());
    rest = std::span(requests_).subspan(at_);
    rest[0] = access;  // as it is by now
  }
  MessageWriter call = begin(CallKind::play);
  call.list(rest.empty() ? std::span<const engine::Access>(&access, 1)
                         : std::span<const engine::Access>(rest));
  auto answer = ask();
  if (!answer) return nullptr;
  answer->list(plays_);
  answer->list(victims_);
  std::uint64_t victims = 0;
  bool good = whole(*answer) && !plays_.empty() && plays_[0].item == access.item &&
              plays_[0].hit == 0 && plays_.size() <= std::max<std::size_t>(rest.size(), 1);
  for (const Play& play : plays_) {
    victims += play.victims;
    good = good && play.admission <= engine::Admission::trim_and_insert;
  }
  if (good && victims == victims_.size()) return &plays_[0];
  if (!failed()) reject("it answers requests with what cannot be");
  plays_.clear();
  victims_.clear();
  return nullptr;
}

}  // namespace batchflow::apart
