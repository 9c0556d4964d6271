// A plugin of two kinds of policy, with a preset of both.
#include "policies/dispatch_choose.h"
#include "policies/eviction_list.h"
#include "policies/make.h"
#include "policies/plugin/plugin.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {.name = "spare",
     .type = Parameter::Type::integer,
     .default_value = "1",
     .help = "hits that spare an item once",
     .least = 1,
     .greatest = 100},
};

// Least recently used, but it remembers across a change of version how many hits there were.
class Counting final : public OneListEviction {
 public:
  explicit Counting(const engine::EvictionContext& context) : OneListEviction(context) {}
  void hit(const engine::Access& access) override {
    ++hits_;
    list_.move_to_newest(access.item);
  }
  ItemId victim(const engine::Access&) override { return list_.oldest(); }
  std::size_t save(std::span<std::byte> room) const override {
    for (std::size_t i = 0; i < sizeof(hits_); ++i) room[i] = std::byte(hits_ >> 8 * i);
    return sizeof(hits_);
  }
  void restore(std::span<const std::byte> saved) override {
    if (saved.size() != sizeof(hits_)) return;
    for (std::size_t i = 0; i < sizeof(hits_); ++i)
      hits_ |= static_cast<std::uint64_t>(saved[i]) << 8 * i;
  }

 private:
  std::uint64_t hits_ = 0;
};

class LastFirst final : public engine::DispatchPolicy {
 public:
  explicit LastFirst(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(view.candidates, had_turn_before);
  }
};

constexpr engine::PolicyEntry eviction_counting{"counting",
                                                "Least recently used leaves, and hits are counted.",
                                                &make_eviction<Counting>, kParameters};
constexpr engine::PolicyEntry dispatch_last_first{"oldest-turn",
                                                  "The job with the oldest turn is served.",
                                                  &make_policy<engine::DispatchPolicy, LastFirst>};
constexpr engine::Preset preset_several{.name = "several",
                                        .help = "Two policies of one plugin.",
                                        .allocation = "encoded-first",
                                        .eviction = {"counting", "counting:spare=2", "refcount"},
                                        .selection = "ready-first",
                                        .dispatch = "oldest-turn",
                                        .scaling = "look-ahead"};

}  // namespace
}  // namespace batchflow::policies

BATCHFLOW_POLICY_PLUGIN("several", "1.2.0", batchflow::policies::eviction_counting,
                        batchflow::policies::dispatch_last_first,
                        batchflow::policies::preset_several)
