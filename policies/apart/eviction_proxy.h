// The proxy of an eviction policy. The engine asks such a policy often, about one sample after the
// other. So the proxy asks at once about all requests that a block is about to make, and the other
// side answers with a Play for each: what the share will do. The share may do something else, since
// a victim that was named is in use. Then the proxy has the plays that did not happen undone, and
// asks about the rest again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/apart/proxy.h"

namespace batchflow::apart {

class EvictionProxy final : public Proxy<engine::EvictionPolicy> {
 public:
  explicit EvictionProxy(const engine::EvictionContext& context)
      : Proxy(context), forced_(lets_all_in(context.form)) {}

  bool wants_announcements() const override { return !failed(); }
  void announced(std::span<const engine::Access> requests) override;
  void hit(const engine::Access& access) override;
  engine::Admission missed(const engine::Access& access) override;
  ItemId victim(const engine::Access& newcomer) override;
  void removed(ItemId item, engine::Removal why) override;
  void inserted(const engine::Access& access) override;
  void pinned(ItemId item) override;
  void unpinned(ItemId item) override;
  void resized(Slots capacity) override;
  void grow(std::size_t items) override;
  void forget(ItemId item) override;
  void needed(ItemId item, std::uint32_t jobs) override;
  void scored(ItemId item, float score) override;
  void epoch_began(JobId job, std::uint32_t epoch) override;
  engine::EarlyRead read_early(const engine::Access& access) override;

 private:
  // The play of a request that is made now. The share may have left out plays before it that
  // change nothing. Null: there is no play, or one before it that changes something did not happen.
  const Play* next_play(ItemId item);
  static bool changes_something(const Play& play);
  void end_play();
  // Whether a play that is still to happen names the item.
  bool is_played(ItemId item) const;
  // Has the other side undo the plays that did not happen.
  void undo();
  // Asks for the plays from this request on.
  const Play* play_from(const engine::Access& access);

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

}  // namespace batchflow::apart
