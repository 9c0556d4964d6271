#include "policies/apart/proxies.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "policies/apart/message.h"
#include "policies/plugin/fallback.h"

namespace batchflow::apart {
namespace {

namespace fallback = plugin::fallback;

// How often the plays of one block are begun anew. After that its requests are asked for one by
// one.
constexpr std::uint32_t kPlayedAnewMost = 8;

MakeCall make_call(const engine::PolicyContext&) {
  return {};
}
MakeCall make_call(const engine::EvictionContext& context) {
  MakeCall call;
  call.items = context.items;
  call.capacity = context.capacity;
  call.dataset = context.dataset;
  call.form = context.form;
  call.tier = context.tier;
  return call;
}
bool is_recorded(const engine::PolicyContext&) {
  return true;
}
bool is_recorded(const engine::EvictionContext& context) {
  return !context.shadow;
}

template <class Interface>
class Proxy : public Interface {
 public:
  template <class Context>
  explicit Proxy(const Context& context)
      : source_(*static_cast<const ProxySource*>(context.plugin)),
        instance_(source_.answering->new_instance()),
        recorded_(is_recorded(context)) {
    MakeCall made = make_call(context);
    made.policy = source_.policy;
    made.seed = context.random.key();
    made.parameters = static_cast<std::uint32_t>(context.parameters.values().size());
    MessageWriter call = begin(CallKind::make);
    call.put(made);
    for (const Parameters::Value& one : context.parameters.values()) call.text(one.text);
    if (auto answer = ask()) standing_ = standing(*answer);
    if (!failed_) made_ = true;
  }
  Proxy(const Proxy&) = delete;
  ~Proxy() override {
    if (!made_) return;
    begin(CallKind::end);
    tell();
  }

  std::size_t save(std::span<std::byte> room) const override {
    begin(CallKind::save).put(static_cast<std::uint64_t>(room.size()));
    auto answer = ask();
    if (!answer) return 0;
    std::vector<std::byte> saved;
    answer->list(saved);
    if (!whole(*answer) || saved.size() > room.size()) return 0;
    std::copy(saved.begin(), saved.end(), room.begin());
    return saved.size();
  }
  void restore(std::span<const std::byte> saved) override {
    begin(CallKind::restore).list(saved);
    tell();
  }

 protected:
  bool failed() const { return failed_; }
  MessageWriter begin(CallKind kind) const {
    call_.clear();
    MessageWriter call(call_);
    call.put(CallHeader{kind, {}, instance_});
    return call;
  }
  void tell() const {
    if (!failed_) source_.answering->tell(call_);
  }
  std::optional<MessageReader> ask() const {
    if (failed_) return std::nullopt;
    if (const auto answer = source_.answering->ask(call_, recorded_)) return MessageReader(*answer);
    failed_ = true;
    return std::nullopt;
  }
  // The answer was what it should be. If not, nothing more is asked.
  bool whole(const MessageReader& answer) const {
    if (answer.ok() && answer.at_end()) return true;
    reject("an answer that cannot be read");
    return false;
  }
  void reject(std::string_view why) const {
    failed_ = true;
    source_.answering->reject(why);
  }
  Standing standing(MessageReader& answer) const {
    const auto found = answer.get<Standing>();
    if (!answer.ok()) reject("an answer that cannot be read");
    return found;
  }
  // An answer that is one value.
  template <class T>
  std::optional<T> ask_for() const {
    auto answer = ask();
    if (!answer) return std::nullopt;
    const T value = answer->template get<T>();
    return whole(*answer) ? std::optional(value) : std::nullopt;
  }
  // The same behind what is answered all the time.
  template <class T>
  std::optional<T> ask_standing() {
    auto answer = ask();
    if (!answer) return std::nullopt;
    standing_ = standing(*answer);
    const T value = answer->template get<T>();
    return whole(*answer) ? std::optional(value) : std::nullopt;
  }
  Instant ask_again_at() const { return Instant(Duration(standing_.ask_again)); }

  const ProxySource source_;
  const std::uint32_t instance_;
  const bool recorded_;
  Standing standing_;

 private:
  mutable std::vector<std::byte> call_;
  mutable bool failed_ = false;
  bool made_ = false;
};

// --------------------------------------------------------------- allocation, dispatch, scaling
// ----

class AllocationProxy final : public Proxy<engine::AllocationPolicy> {
 public:
  using Proxy::Proxy;

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    engine::PlaceView shown = place;
    shown.shares = {};
    MessageWriter call = begin(CallKind::allocate);
    call.put(shown);
    call.list(place.shares);
    forecast_ = {};
    if (auto answer = ask()) {
      standing_ = standing(*answer);
      forecast_ = answer->get<engine::Forecast>();
      answer->fill(slots);
      whole(*answer);
    }
    if (!failed()) return;
    forecast_ = {};
    fallback::allocate(place, slots);
  }
  Instant ask_again() override { return failed() ? kNever : ask_again_at(); }
  bool wants_measures() const override { return standing_.wants_measures != 0; }
  engine::Forecast forecast() const override { return forecast_; }

 private:
  engine::Forecast forecast_;
};

class SelectionProxy final : public Proxy<engine::SelectionPolicy> {
 public:
  using Proxy::Proxy;

  std::size_t choose(const engine::SelectionView& view) override {
    engine::SelectionView shown = view;
    shown.candidates = {};
    MessageWriter call = begin(CallKind::choose);
    call.put(shown);
    call.list(view.candidates);
    const auto choice = ask_standing<std::uint64_t>();
    return choice ? static_cast<std::size_t>(*choice) : fallback::choose(view);
  }
  bool looks_behind_ready() const override { return standing_.looks_behind_ready != 0; }
  Instant ask_again() override { return failed() ? kNever : ask_again_at(); }
  std::uint32_t blocks_to_choose_from() const override { return standing_.blocks_to_choose_from; }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    engine::SamplesView shown = view;
    shown.candidates = {};
    MessageWriter call = begin(CallKind::choose_samples);
    call.put(shown);
    call.list(view.candidates);
    call.put(static_cast<std::uint64_t>(picks.size()));
    if (auto answer = ask()) {
      answer->fill(picks);
      whole(*answer);
    }
    if (failed()) fallback::choose_samples(picks);
  }
  void weigh(JobId job, std::span<const float> scores, std::span<float> weights) override {
    MessageWriter call = begin(CallKind::weigh);
    call.put(job);
    call.list(scores);
    if (auto answer = ask()) {
      answer->fill(weights);
      whole(*answer);
    }
    if (failed()) fallback::weigh(scores, weights);
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    MessageWriter call = begin(CallKind::epoch_began);
    call.put(job);
    call.put(epoch);
    tell();
  }
};

class DispatchProxy final : public Proxy<engine::DispatchPolicy> {
 public:
  using Proxy::Proxy;

  std::size_t next(const engine::DispatchView& view) override {
    MessageWriter call = begin(CallKind::next);
    call.put(view.now);
    call.list(view.candidates);
    const auto choice = ask_standing<std::uint64_t>();
    return choice ? static_cast<std::size_t>(*choice) : fallback::next(view);
  }
  Instant ask_again() override { return failed() ? kNever : ask_again_at(); }
  bool chooses_nodes() const override { return !failed() && standing_.chooses_nodes != 0; }
  std::size_t choose_node(const engine::NodesView& view) override {
    MessageWriter call = begin(CallKind::choose_node);
    call.put(view.work);
    call.list(view.candidates);
    return static_cast<std::size_t>(ask_for<std::uint64_t>().value_or(0));
  }
};

class ScalingProxy final : public Proxy<engine::ScalingPolicy> {
 public:
  using Proxy::Proxy;

  std::uint32_t workers(const engine::NodeView& view) override {
    begin(CallKind::workers).put(view);
    const auto answer = ask_for<std::uint32_t>();
    return answer ? *answer : fallback::workers(view);
  }
  std::uint32_t depth(const engine::JobView& view) override {
    begin(CallKind::depth).put(view);
    const auto answer = ask_for<std::uint32_t>();
    return answer ? *answer : fallback::depth(view);
  }
};

// ---------------------------------------------------------------------------------- eviction ----

class EvictionProxy final : public Proxy<engine::EvictionPolicy> {
 public:
  explicit EvictionProxy(const engine::EvictionContext& context)
      : Proxy(context), forced_(lets_all_in(context.form)) {}

  bool wants_announcements() const override { return !failed(); }
  void announced(std::span<const engine::Access> requests) override {
    undo();
    requests_.assign(requests.begin(), requests.end());
    at_ = 0;
    played_anew_ = 0;
  }

  void hit(const engine::Access& access) override {
    if (const Play* const play = next_play(access.item)) {
      if (play->hit != 0) return end_play();
      undo();
    } else if (is_played(access.item)) {
      undo();
    }
    begin(CallKind::hit).put(access);
    tell();
  }
  engine::Admission missed(const engine::Access& access) override {
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
  ItemId victim(const engine::Access& newcomer) override {
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
  void removed(ItemId item, engine::Removal why) override {
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
  void inserted(const engine::Access& access) override {
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
  void pinned(ItemId item) override {
    undo();
    begin(CallKind::pinned).put(item);
    tell();
  }
  void unpinned(ItemId item) override {
    if (is_played(item)) undo();
    begin(CallKind::unpinned).put(item);
    tell();
  }
  void resized(Slots capacity) override {
    undo();
    begin(CallKind::resized).put(capacity);
    tell();
  }
  void grow(std::size_t items) override {
    begin(CallKind::grow).put(static_cast<std::uint64_t>(items));
    tell();
  }
  void forget(ItemId item) override {
    if (is_played(item)) undo();
    begin(CallKind::forget).put(item);
    tell();
  }
  void needed(ItemId item, std::uint32_t jobs) override {
    MessageWriter call = begin(CallKind::needed);
    call.put(item);
    call.put(jobs);
    tell();
  }
  void scored(ItemId item, float score) override {
    MessageWriter call = begin(CallKind::scored);
    call.put(item);
    call.put(score);
    tell();
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    MessageWriter call = begin(CallKind::epoch_began);
    call.put(job);
    call.put(epoch);
    tell();
  }
  engine::EarlyRead read_early(const engine::Access& access) override {
    undo();
    begin(CallKind::read_early).put(access);
    const auto answer = ask_for<std::uint8_t>();
    if (!answer) return engine::EarlyRead::stop;
    if (*answer <= static_cast<std::uint8_t>(engine::EarlyRead::stop))
      return static_cast<engine::EarlyRead>(*answer);
    reject("read_early has no such answer");
    return engine::EarlyRead::stop;
  }

 private:
  // The play of a request that is made now. Those before it may have been left out if they changed
  // nothing that is kept. Null: there is none, or a play in front of it did not happen.
  const Play* next_play(ItemId item) {
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
  static bool changes_something(const Play& play) {
    return play.inserted != 0 || play.victims > 0 || play.brought_back != 0;
  }
  void end_play() {
    first_victim_ += plays_[play_].victims;
    ++play_;
    victim_ = removed_ = 0;
    in_play_ = false;
  }
  // Whether a play that is still to happen names the item.
  bool is_played(ItemId item) const {
    return std::any_of(plays_.begin() + static_cast<std::ptrdiff_t>(play_), plays_.end(),
                       [&](const Play& play) { return play.item == item; }) ||
           std::find(victims_.begin() + static_cast<std::ptrdiff_t>(first_victim_), victims_.end(),
                     item) != victims_.end();
  }
  // What was played, and did not happen, is undone.
  void undo() {
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
  // Asks for the plays from this request on.
  const Play* play_from(const engine::Access& access) {
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

  const bool forced_;
  // What a block is about to request, from `at_` on.
  std::vector<engine::Access> requests_;
  std::size_t at_ = 0;
  std::uint32_t played_anew_ = 0;
  // What was answered last: `play_` is the next that is to happen, or happens.
  std::vector<Play> plays_;
  std::vector<ItemId> victims_;
  std::size_t play_ = 0;
  std::size_t first_victim_ = 0;  // of it
  std::uint32_t victim_ = 0;      // of its victims, so many were named to the share
  std::uint32_t removed_ = 0;     // and so many of these have left
  bool in_play_ = false;          // the share has asked about it
};

template <class Policy, class Interface, class Context>
std::unique_ptr<Interface> make_proxy(const Context& context) {
  return std::make_unique<Policy>(context);
}

}  // namespace

decltype(engine::PolicyEntry::make) proxy_of(engine::PolicyKind kind) {
  using engine::PolicyContext;
  switch (kind) {
    case engine::PolicyKind::allocation:
      return &make_proxy<AllocationProxy, engine::AllocationPolicy, PolicyContext>;
    case engine::PolicyKind::eviction:
      return &make_proxy<EvictionProxy, engine::EvictionPolicy, engine::EvictionContext>;
    case engine::PolicyKind::selection:
      return &make_proxy<SelectionProxy, engine::SelectionPolicy, PolicyContext>;
    case engine::PolicyKind::dispatch:
      return &make_proxy<DispatchProxy, engine::DispatchPolicy, PolicyContext>;
    case engine::PolicyKind::scaling:
      break;
  }
  return &make_proxy<ScalingProxy, engine::ScalingPolicy, PolicyContext>;
}

}  // namespace batchflow::apart
