// iCache's cache for samples that matter: scores of an epoch count from the next one on.
//
// W. Chen et al., "iCache: An Importance-Sampling-Informed Cache for Accelerating I/O-Bound DNN
// Model Training", HPCA 2023. Departs from it: there is no second cache for the other samples.
#include "core/engine/policy_list.h"
#include "policies/eviction_importance.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class ICache final : public Importance {
 public:
  explicit ICache(const engine::EvictionContext& context)
      : Importance(context), coming_(context.items) {}

  void grow(std::size_t items) override {
    Importance::grow(items);
    coming_.grow(items);
  }
  void forget(ItemId item) override {
    Importance::forget(item);
    coming_[item.value] = {};
  }
  void scored(ItemId item, float score) override { coming_[item.value] = {score, epoch_ + 1}; }
  void epoch_began(JobId, std::uint32_t) override { ++epoch_; }

 private:
  void note(ItemId item) override {
    Coming& coming = coming_[item.value];
    if (coming.from_epoch == 0 || coming.from_epoch > epoch_) return;
    known_[item.value].score = coming.score;
    coming.from_epoch = 0;
    rank(item);
  }

  struct Coming {
    float score = 0;
    std::uint32_t from_epoch = 0;  // 0: nothing comes
  };
  ZeroArray<Coming> coming_;
  std::uint32_t epoch_ = 0;
};

}  // namespace

extern const engine::PolicyEntry eviction_icache;
constexpr engine::PolicyEntry eviction_icache{
    "icache",
    "The lowest score leaves, by the scores of the last epoch.\n"
    "Scores of the running epoch count when it is over (iCache, HPCA 2023).\n"
    "Made for weighted orders.\n"
    "Departs from it: there is no second cache for the other samples.",
    &make_eviction<ICache>};

}  // namespace batchflow::policies
